package collect

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// aroundRoot are the kinds that may tell why a component is not well: who makes its Pods,
// what is said about them, and what it works with.
var aroundRoot = []string{"Pod", "Deployment", "StatefulSet", "DaemonSet", "Service", "EndpointSlice", "Event"}

// AskWhy reads what may tell why the root is as it is: where that is not explained, the
// namespace that it is in and its logs; and in any case what its complaints name and was not
// read. more is false when there was nothing of that kind left to read.
func (c *Collector) AskWhy(ctx context.Context, root nightcrier.Object, unexplained bool) (more bool, err error) {
	if c.in.Reader == nil {
		return false, nil
	}
	before := c.Reads
	var asked []string
	if ns := homeOf(root); unexplained && ns != "" {
		asked = append(asked, ns)
	}
	called := c.Scene.CalledIn(root)
	asked = append(asked, called...)
	asked = slices.DeleteFunc(asked, func(ns string) bool {
		return c.Scene.Complete("Pod", ns) || (nightcrier.Resource{Kind: scene.NamespaceKind, Name: ns}).Check() != nil
	})
	asked = asked[:min(len(asked), maxBehind)]
	var looks []look
	for _, ns := range asked {
		looks = append(looks, c.lookAtLists(ns, aroundRoot...)...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return false, unwrapStop(err)
	}
	for _, ns := range asked {
		c.Scene.DoubtNamespace(ns, aroundRoot...)
	}
	c.Scene.SortEvents()
	if err := c.readUnread(ctx, c.podsToAsk(root, unexplained, called)); err != nil {
		return false, unwrapStop(err)
	}
	return c.Reads > before, nil
}

// homeOf is the namespace where what serves the root runs.
func homeOf(root nightcrier.Object) string {
	if root.Namespace == "" && root.Kind == "Node" {
		return scene.SystemNamespace // what makes a node's network and storage runs there
	}
	return root.Namespace
}

// podsToAsk are the Pods whose logs may tell why: those of the root, those of a node that are
// not well, and those behind the Services that the root complains of.
func (c *Collector) podsToAsk(root nightcrier.Object, unexplained bool, called []string) (pods []scene.Read[corev1.Pod]) {
	g := scene.DrawGraph(c.Scene)
	behind := g.ReachFrom(root, scene.ByComplaint)
	for i := range c.Scene.Pods {
		p := &c.Scene.Pods[i]
		o := c.Scene.WorkloadAbove("Pod", &p.Object)
		_, complained := behind[o]
		switch own := o == root || root.Kind == "Node" && p.Object.Spec.NodeName == root.Name && !scene.IsPodReady(&p.Object); {
		case own && unexplained:
		case complained && slices.Contains(called, o.Namespace):
			c.Scene.Concern(o)
		default:
			continue
		}
		pods = append(pods, *p)
	}
	slices.SortStableFunc(pods, func(a, b scene.Read[corev1.Pod]) int { return readyLast(&a.Object) - readyLast(&b.Object) })
	return pods[:min(len(pods), maxOtherLogs)]
}

func readyLast(p *corev1.Pod) int {
	if scene.IsPodReady(p) {
		return 1
	}
	return 0
}

// readUnread reads the logs of containers of which none was read.
func (c *Collector) readUnread(ctx context.Context, pods []scene.Read[corev1.Pod]) error {
	var logs []logOf
	for i := range pods {
		for _, ct := range scene.PodContainers(&pods[i]) {
			had := slices.ContainsFunc(c.Scene.Logs, func(l scene.LogExcerpt) bool {
				return l.Namespace == pods[i].Object.Namespace && l.Pod == pods[i].Object.Name && l.Container == ct.Status.Name
			})
			if had || neverStarted(ct) || len(logs) >= maxLogs {
				continue
			}
			logs = append(logs, logOf{ct, ct.Status.RestartCount > 0 && !ct.Status.Ready})
		}
	}
	return c.readTogether(ctx, c.logLooks(logs)...)
}
