package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var provisionRules = scene.Area{Name: "provision", Rules: []scene.Rule{noNodeMade, devicePluginAway, nodeKeptBack}, Causes: []scene.Cause{
	{ID: "autoscaler-adds-no-node", Category: "Node", Meaning: "what adds nodes says why it adds none for a Pod that needs one", Rank: scene.RankStated + 2},
	{ID: "device-plugin-missing", Category: "Node", Meaning: "a node that has a device does not offer it, because its device plugin does not run there", Rank: scene.RankStated + 2},
	{ID: "node-tainted", Category: "Node", Meaning: "the only nodes that a workload chooses are held back by a taint", Rank: scene.RankStated + 1},
}}

var (
	// byLimit matches what they say that is theirs to mend, rather than the Pod's.
	byLimit = scene.NewPattern(`(?i)exceed\w* limits?|limits? (?:exceeded|reached)|max(?:imum)? (?:node group size|number of nodes|cluster (?:cpu|memory))|quota|insufficient ?(?:instance)? ?capacity|out of (?:stock|capacity)|(?:un)?authorized|credentials`)
	// poolNamed names the pool of nodes that is meant.
	poolNamed = scene.NewPattern(`(?:exceed\w* limits for|limits? (?:of|for)) (?:node ?pool|provisioner):? \\?"?([a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?)`)
)

// noNodeMade finds Pods that wait for a node and of which whatever adds nodes says why it adds
// none. What only says that the Pod fits none of its kinds of nodes is the Pod's own.
func noNodeMade(f *scene.Facts) []scene.Finding {
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.Hearsay || p.Object.Spec.NodeName != "" || f.IsPast(p) || scene.SchedulerMessage(&p.Object) == "" || f.IsNodeComing(p) {
			continue
		}
		for e := range f.EventsOf("Pod", p.Object.Name) {
			if e.Object.Type != corev1.EventTypeWarning {
				continue // one limit among other reasons: what the scheduler says counts more
			}
			if f.IsFresh(e) && scene.IsOfAutoscaler(&e.Object) && byLimit.MatchString(e.Object.Message) {
				return []scene.Finding{notMade(f, p, e, cmp.Or(e.Object.Source.Component, e.Object.ReportingController, "the autoscaler"))}
			}
		}
	}
	return nil
}

func notMade(f *scene.Facts, p *scene.Read[corev1.Pod], e scene.Read[corev1.Event], by string) scene.Finding {
	o, step := f.Mend(), "Raise the limit that "+by+" names, or let "+f.Mend().String()+" ask for less"
	n := scene.Finding{
		Cause: "autoscaler-adds-no-node", Confidence: nightcrier.High, Affected: []nightcrier.Object{f.Mend()},
		Observed: []scene.Observation{scene.ObserveEvent(e), {Text: "Pod " + p.Object.Name + " is not scheduled", Quote: scene.SchedulerMessage(&p.Object), Ref: p.Ref}},
		WrongIf:  "it has added a node since, or was about to for another reason",
		Test:     scene.DescribeTest(nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}).DecidesBetween("its newest events say the same", "it has a node"),
	}
	if m := poolNamed.FindStringSubmatch(e.Object.Message); m != nil {
		for i := range f.Scene.Others {
			u := &f.Scene.Others[i]
			if u.Object.GetKind() != "NodePool" || u.Object.GetName() != m[1] {
				continue
			}
			o = scene.OtherObject(&u.Object)
			if said := limitsOf(&u.Object); said != "" {
				n.Observed = append(n.Observed, scene.Observation{Text: o.String() + " has its limits and what it uses", Quote: said, Ref: u.Ref})
				step = "Raise spec.limits of " + o.String() + " (" + said + "), or let " + f.Mend().String() + " ask for less"
			}
		}
	}
	n.Object = o
	n.Affected = slices.DeleteFunc(n.Affected, func(x nightcrier.Object) bool { return x == o })
	n.Summary = fmt.Sprintf("A Pod of %s waits for a node, and %s adds none: %s", f.Mend(), text.CutMiddle(by, scene.MaxQuote), text.CutMiddle(e.Object.Message, scene.MaxQuote))
	n.Actions = []scene.Step{
		{Action: step, On: o, Do: scene.DoEdit, Outcome: "a node is added and the Pod runs", Risk: "cost"},
		{Action: "See what uses the nodes that are there", Outcome: "tells too small a limit from too much of something else", Risk: "none: read only"},
	}
	return n
}

// limitsOf are the limits of a pool of nodes, and what it uses of them.
func limitsOf(u *unstructured.Unstructured) string {
	limits, _, _ := unstructured.NestedStringMap(u.Object, "spec", "limits")
	used, _, _ := unstructured.NestedStringMap(u.Object, "status", "resources")
	var parts []string
	for _, name := range []string{"cpu", "memory"} {
		if limits[name] != "" {
			parts = append(parts, fmt.Sprintf("%s: limit %s, in use %s", name, limits[name], cmp.Or(used[name], "not told")))
		}
	}
	return text.CutMiddle(strings.Join(parts, "; "), scene.MaxQuote)
}

// pluginSockets is where device plugins register with their kubelet.
const pluginSockets = "/var/lib/kubelet/device-plugins"

// devicePluginAway finds Pods that wait for a device which another node offers by a device
// plugin, while on the node that they choose that plugin does not run.
func devicePluginAway(f *scene.Facts) []scene.Finding {
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.Hearsay || p.Object.Spec.NodeName != "" || f.IsPast(p) || !f.Scene.Complete("Node", "") {
			continue
		}
		for _, name := range scene.SortResourceNames(scene.PodRequests(&p.Object)) {
			vendor, _, extended := strings.Cut(string(name), "/")
			if !extended {
				continue
			}
			for _, n := range f.Scene.Nodes {
				if have := n.Object.Status.Allocatable[name]; !have.IsZero() || !scene.SelectsNode(&p.Object, &n.Object) || scene.UntoleratedTaint(&p.Object, &n.Object) != nil || !choosesNodes(&p.Object) {
					continue
				}
				if d := pluginFor(f.Scene, vendor, name); d != nil && !runsOn(f.Scene, d, n.Object.Name) {
					return []scene.Finding{pluginAway(f, p, d, n, name)}
				}
			}
		}
	}
	return nil
}

// choosesNodes reports whether a Pod chooses its nodes by more than what they have.
func choosesNodes(p *corev1.Pod) bool {
	return len(p.Spec.NodeSelector) > 0 || p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil
}

// pluginFor is the DaemonSet whose Pods run where the device is offered, and which registers
// device plugins or is called like the vendor's.
func pluginFor(s *scene.Scene, vendor string, name corev1.ResourceName) *scene.Read[appsv1.DaemonSet] {
	word, _, _ := strings.Cut(vendor, ".")
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		spec := d.Object.Spec.Template.Spec
		registers := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && strings.HasPrefix(v.HostPath.Path, pluginSockets)
		})
		called := strings.Contains(d.Object.Name, word) && (registers || strings.Contains(d.Object.Name, "device-plugin"))
		offers := slices.ContainsFunc(s.Nodes, func(n scene.Read[corev1.Node]) bool {
			have := n.Object.Status.Allocatable[name]
			return !have.IsZero() && runsOn(s, d, n.Object.Name)
		})
		if called && offers {
			return d
		}
	}
	return nil
}

func runsOn(s *scene.Scene, d *scene.Read[appsv1.DaemonSet], node string) bool {
	return slices.ContainsFunc(s.Pods, func(p scene.Read[corev1.Pod]) bool {
		up := scene.ControllerOf(&p.Object)
		return up.Kind == "DaemonSet" && up.Name == d.Object.Name && p.Object.Namespace == d.Object.Namespace && p.Object.Spec.NodeName == node
	})
}

func pluginAway(f *scene.Facts, p *scene.Read[corev1.Pod], d *scene.Read[appsv1.DaemonSet], n scene.Read[corev1.Node], name corev1.ResourceName) scene.Finding {
	o := nightcrier.Object{Kind: "DaemonSet", Namespace: d.Object.Namespace, Name: d.Object.Name}
	out := scene.Finding{
		Cause: "device-plugin-missing", Object: o, Confidence: nightcrier.Medium, Affected: []nightcrier.Object{f.Mend()},
		Observed: []scene.Observation{
			{Text: "Pod " + p.Object.Name + " is not scheduled", Quote: scene.SchedulerMessage(&p.Object), Ref: p.Ref},
			{Text: fmt.Sprintf("Node %s, which it chooses, offers no %s", n.Object.Name, name), Quote: n.Object.Name, Ref: n.Ref},
		},
		WrongIf: "the node has no such device",
		Test:    scene.GetTest("", "node", n.Object.Name).DecidesBetween("status.allocatable has no "+string(name), "it has some"),
	}
	why, step := "it has no Pod there", "See why "+o.String()+" has no Pod on node "+n.Object.Name
	template := &corev1.Pod{Spec: d.Object.Spec.Template.Spec}
	if t := scene.UntoleratedTaint(template, &n.Object); t != nil {
		out.Confidence = nightcrier.High
		taint := text.CutMiddle(t.Key+"="+t.Value+":"+string(t.Effect), scene.MaxQuote)
		why, step = "it does not tolerate the node's taint "+taint, "Add a toleration of "+taint+" to "+o.String()
		out.Observed = append(out.Observed, scene.Observation{Text: fmt.Sprintf("%s does not tolerate the taint %s of node %s", o, taint, n.Object.Name), Quote: t.Key, Ref: n.Ref})
	} else if !scene.SelectsNode(template, &n.Object) {
		out.Confidence = nightcrier.High
		why, step = "its node selector does not match the node", "Make the node selector of "+o.String()+" match node "+n.Object.Name
	}
	out.Observed = append(out.Observed, scene.Observation{Text: o.String() + ", the device plugin, has no Pod on node " + n.Object.Name, Quote: d.Object.Name, Ref: d.Ref})
	out.Summary = fmt.Sprintf("A Pod of %s has no node: node %s, which it chooses, offers no %s, because the device plugin %s does not run there: %s.", f.Mend(), n.Object.Name, name, o, why)
	out.Actions = []scene.Step{
		{Action: step, On: o, Do: scene.DoEdit, Outcome: "the node offers its devices and the Pod is scheduled", Risk: "none for running Pods"},
		{Action: "See on the node that the device is there and its driver loaded", Outcome: "tells a missing plugin from a missing device", Risk: "none: read only"},
	}
	return out
}

// keptBack matches taints by which people hold a node back for a while.
var keptBack = scene.NewPattern(`(?i)mainten|drain|upgrad|repair|reboot|decommission|patching|quarantine|retir|cordon|outdated|broken`)

// nodeKeptBack finds Pods that choose some nodes by their labels, all of which have a taint
// that was set to hold them back: by its words, or since Pods run there that do not tolerate
// it. A taint that only says for whom a node is meant is the Pod's to tolerate.
func nodeKeptBack(f *scene.Facts) []scene.Finding {
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.Hearsay || p.Object.Spec.NodeName != "" || f.IsPast(p) || scene.SchedulerMessage(&p.Object) == "" || !choosesNodes(&p.Object) || !f.Scene.Complete("Node", "") {
			continue
		}
		var held *scene.Read[corev1.Node]
		var taint *corev1.Taint
		all := true
		for j := range f.Scene.Nodes {
			n := &f.Scene.Nodes[j]
			if !scene.SelectsNode(&p.Object, &n.Object) {
				continue
			}
			t := scene.UntoleratedTaint(&p.Object, &n.Object)
			if t == nil || strings.HasPrefix(t.Key, "node.kubernetes.io/") || scene.ControlPlaneTaint.MatchString(t.Key) || !isHeldBack(f.Scene, n, t) {
				all = false
				break
			}
			held, taint = n, t
		}
		if all && held != nil {
			return []scene.Finding{heldFinding(f, p, held, taint)}
		}
	}
	return nil
}

// isHeldBack reports whether a taint keeps a node from Pods that it is meant for.
func isHeldBack(s *scene.Scene, n *scene.Read[corev1.Node], t *corev1.Taint) bool {
	if keptBack.MatchString(t.Key) || keptBack.MatchString(t.Value) {
		return true
	}
	return slices.ContainsFunc(s.Pods, func(p scene.Read[corev1.Pod]) bool {
		up := scene.ControllerOf(&p.Object).Kind
		return p.Object.Spec.NodeName == n.Object.Name && up != "DaemonSet" && up != "Node" && !scene.IsFinished(&p.Object) && !scene.ToleratesTaint(&p.Object, *t) && t.Effect == corev1.TaintEffectNoSchedule
	})
}

func heldFinding(f *scene.Facts, p *scene.Read[corev1.Pod], n *scene.Read[corev1.Node], t *corev1.Taint) scene.Finding {
	taint := text.CutMiddle(t.Key+"="+t.Value+":"+string(t.Effect), scene.MaxQuote)
	return scene.Finding{
		Cause: "node-tainted", Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High, Affected: []nightcrier.Object{f.Mend()},
		Summary: fmt.Sprintf("Node %s, which %s chooses by its labels, has the taint %s, and no other node fits (%s).", n.Object.Name, f.Mend(), taint, text.CutMiddle(scene.SchedulerMessage(&p.Object), scene.MaxQuote)),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("Node %s has the taint %s", n.Object.Name, taint), Quote: t.Key, Ref: n.Ref},
			{Text: "Pod " + p.Object.Name + " is not scheduled", Quote: scene.SchedulerMessage(&p.Object), Ref: p.Ref},
		},
		WrongIf: "the taint is there to keep this workload away",
		Test:    scene.GetTest("", "node", n.Object.Name).DecidesBetween("spec.taints has "+text.CutMiddle(t.Key, scene.MaxQuote), "it has not"),
		Actions: []scene.Step{
			{Action: "Take the taint " + taint + " off node " + n.Object.Name + " if what it was set for is over", On: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Do: scene.DoEdit, Outcome: "the waiting Pods are scheduled", Risk: "Pods land on a node that may not be fit yet"},
			{Action: "Or let " + f.Mend().String() + " choose other nodes until then", On: f.Mend(), Do: scene.DoEdit, Outcome: "it runs elsewhere", Risk: "makes its Pods anew"},
		},
	}
}
