package nodes

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var controlPlaneRules = scene.Area{Name: "controlplane", SceneRules: []scene.SceneRule{controlPlaneUnhealthy, controlPlaneSlow, leaderLost, clusterNetworkUnhealthy}, Causes: controlPlaneCauses}

var controlPlaneCauses = []scene.Cause{
	{ID: "cluster-network-unhealthy", Category: "Network", Meaning: "the component that gives nodes their Pod network or Service addresses is not well", Rank: scene.RankGround - 2, Symptom: true},
	{ID: "control-plane-slow", Category: "Cluster", Meaning: "the store of the control plane is slow, so that who holds a lease loses it", Rank: scene.RankGround},
	{ID: "control-plane-unhealthy", Category: "Cluster", Meaning: "a component of the control plane is not well", Rank: scene.RankGround + 1, Symptom: true},
}

// controlPlaneUnhealthy finds components of the control plane that are not ready.
// Where another instance is ready the cluster goes on, with less to spare.
func controlPlaneUnhealthy(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Pods {
		p := &s.Pods[i]
		part := scene.ControlPlanePart(&p.Object)
		if part == "" || scene.IsPodReady(&p.Object) || scene.IsFinished(&p.Object) || !scene.HasWaited(&p.Object, s.Now, scene.TakeUpTime) {
			continue
		}
		others := 0
		for _, o := range s.Pods {
			if scene.ControlPlanePart(&o.Object) == part && scene.IsPodReady(&o.Object) {
				others++
			}
		}
		object := nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}
		n := scene.Finding{
			Cause: "control-plane-unhealthy", Object: object, Confidence: nightcrier.High, Weight: -others,
			Summary:  fmt.Sprintf("%s of the control plane is not ready on node %s%s; %s.", part, p.Object.Spec.NodeName, stateWords(p), stillReady(others)),
			Observed: []scene.Observation{scene.PodState(*p)},
			WrongIf:  "it has become ready since",
			Test:     scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).DecidesBetween("its condition Ready is not True", "it is True"),
			Actions: []scene.Step{
				{Action: "Read the log of Pod " + p.Object.Name + " and check its manifest on node " + p.Object.Spec.NodeName, Do: scene.DoReadLog, Outcome: "names what it fails on", Risk: "none while reading"},
				{Action: "Put the last manifest that worked back on that node", Outcome: "the kubelet starts it again", Risk: "loses what the change was for"},
			},
			Affected: servedBy(s, part),
		}
		if others > 0 {
			n.Confidence, n.Affected = nightcrier.Medium, nil
		}
		out = append(out, n)
	}
	return out
}

func stillReady(others int) string {
	if others == 0 {
		return "no other instance is ready"
	}
	return text.CountNoun(others, "other instance") + " ready"
}

// stateWords is what a Pod's first container in trouble waits for or ended with.
func stateWords(p *scene.Read[corev1.Pod]) string {
	for _, c := range scene.PodContainers(p) {
		if reason, _ := c.WaitingReason(); reason != "" {
			words := " (" + text.CutMiddle(reason, scene.MaxQuote)
			if end := c.LastTermination(); end != nil {
				words += fmt.Sprintf(", exit code %d", end.ExitCode)
			}
			return words + ")"
		}
	}
	return ""
}

// servedBy lists the workloads that wait for a component: for the scheduler, those
// above Pods without a node that it has said nothing of; for the controllers, those
// whose wishes nobody has looked at.
func servedBy(s *scene.Scene, part string) []nightcrier.Object {
	switch part {
	case "kube-scheduler":
		return s.UnscheduledWorkloads()
	case "kube-controller-manager":
		return s.UnobservedWorkloads()
	}
	return nil
}

var (
	// slowStore matches what etcd says of a disk or a peer that is too slow for it.
	slowStore = scene.NewPattern(`slow fdatasync|apply request took too long|took too long.{0,40}to execute|failed to send out heartbeat on time|server is likely overloaded|slow (?:disk|network)|etcdserver: request timed out|leader changed`)
	// lostLease matches what a program says that ends because the API server did not answer
	// in time.
	lostLease = scene.NewPattern(`(?i)leader ?election lost|failed to renew lease|lost (?:the )?(?:lease|leadership|leader)|error retrieving resource lock|etcdserver: (?:request timed out|leader changed)`)
)

// controlPlaneSlow finds an etcd that says of itself that it is slow, while programs lose
// their leases. It says so now and then where nothing is wrong.
func controlPlaneSlow(s *scene.Scene) []scene.Finding {
	losers := workloadsSaying(s, lostLease)
	if len(losers) == 0 {
		return nil
	}
	var out []scene.Finding
	for _, l := range s.Logs {
		p := scene.FindObject(s.Pods, l.Namespace, l.Pod)
		said := slowStore.FindAllString(l.Text, scene.RecentLines)
		if p == nil || p.Object.Labels["component"] != "etcd" && !strings.HasPrefix(p.Object.Name, "etcd-") || len(said) < 3 || l.Previous {
			continue
		}
		lines := strings.Split(strings.TrimSpace(l.Text), "\n")
		i := len(lines) - 1
		for ; i > 0 && !strings.Contains(lines[i], "fdatasync"); i-- { // says most: it is the disk
		}
		if !slowStore.MatchString(lines[i]) {
			i = len(lines) - 1
		}
		o := s.WorkloadAbove("Pod", &p.Object)
		line := text.CutMiddle(lines[i], scene.MaxQuote)
		out = append(out, scene.Finding{
			Cause: "control-plane-slow", Object: o, Confidence: nightcrier.Medium, Affected: losers,
			Summary:  fmt.Sprintf("etcd (%s) is slow, so the API server answers late and %s lose their leases and restart; its log says: %s", o, scene.NameSome(losers), line),
			Observed: []scene.Observation{{Text: "the log of Pod " + p.Object.Name + " says that it is slow", Quote: line, Ref: l.Ref()}},
			WrongIf:  "etcd says this at all times, and what lost its lease was itself too slow",
			Test:     scene.LogsTest(scene.Container{Pod: p, Status: corev1.ContainerStatus{Name: l.Container}}).DecidesBetween("it goes on to say that requests or its disk are slow", "it says so no more"),
			Actions: []scene.Step{
				{Action: "Look at the disk of node " + p.Object.Spec.NodeName + ": its latency, and who else writes to it", Outcome: "names what makes etcd slow", Risk: "none: read only"},
				{Action: "Give etcd a disk of its own that is fast enough, or move away what writes beside it", Outcome: "leases are renewed in time", Risk: "a member that is moved must be added again"},
			},
		})
	}
	return out
}

// workloadsSaying are the workloads whose logs have these words.
func workloadsSaying(s *scene.Scene, words *scene.Pattern) (out []nightcrier.Object) {
	for _, l := range s.Logs {
		if p := scene.FindObject(s.Pods, l.Namespace, l.Pod); p != nil && words.MatchString(l.Text) {
			out = scene.UniteObjects(out, []nightcrier.Object{s.WorkloadAbove("Pod", &p.Object)})
		}
	}
	return out
}

// leaseLost is how long the lease of a leader may be over; leases last 15
// seconds.
const leaseLost = 5 * time.Minute

// leaderLost finds components whose leader has stopped to renew its lease.
func leaderLost(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for _, o := range s.Others {
		u := &o.Object
		name := u.GetName()
		if u.GetKind() != "Lease" || u.GetNamespace() != "kube-system" || name != "kube-scheduler" && name != "kube-controller-manager" {
			continue
		}
		renewed := scene.StringAt(u, "spec", "renewTime")
		at, err := time.Parse(time.RFC3339Nano, renewed)
		if err != nil || s.Now.Sub(at) < leaseLost {
			continue
		}
		out = append(out, scene.Finding{
			Cause: "control-plane-unhealthy", Object: nightcrier.Object{Kind: "Lease", Namespace: "kube-system", Name: name}, Confidence: nightcrier.Medium,
			Summary:   fmt.Sprintf("%s has no leader: its lease was last renewed at %s.", name, at.UTC().Format(time.RFC3339)),
			Observed:  []scene.Observation{{Text: "the lease of " + name + " was last renewed at " + renewed, Quote: "renewTime=" + renewed, Ref: o.Ref}},
			WrongIf:   "the clocks differ, or another kind of lock is used",
			Test:      scene.GetTest("kube-system", "lease", name).DecidesBetween("renewTime stands still", "renewTime is seconds ago"),
			Affected:  servedBy(s, name),
			DependsOn: s.ControlPlanePods(name),
			Actions: []scene.Step{
				{Action: "Look at the Pods of " + name + " in kube-system and their logs", Outcome: "names why none of them leads", Risk: "none: read only"},
			},
		})
	}
	return out
}

// networkParts are the DaemonSets that give nodes their network.
var networkParts = scene.NewPattern(`^(kube-proxy|calico-node|canal|cilium|cilium-envoy|kube-flannel(-ds.*)?|weave-net|aws-node|azure-cni.*|antrea-agent|kindnet|kube-router|ovnkube-node|ovn-controller|kube-ovn-cni|kube-multus-ds)$`)

// clusterNetworkUnhealthy finds network components that do not run where they
// should.
func clusterNetworkUnhealthy(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		st := d.Object.Status
		if !networkParts.MatchString(d.Object.Name) || st.NumberReady >= st.DesiredNumberScheduled || !scene.HasWaited(&d.Object, s.Now, scene.TakeUpTime) {
			continue
		}
		nodes, failing := withoutReady(s, d)
		if !failing {
			continue
		}
		o := nightcrier.Object{Kind: "DaemonSet", Namespace: d.Object.Namespace, Name: d.Object.Name}
		out = append(out, scene.Finding{
			Cause: "cluster-network-unhealthy", Object: o, Confidence: nightcrier.High, Weight: int(st.DesiredNumberScheduled - st.NumberReady),
			Summary: fmt.Sprintf("%s, which the cluster's network needs, is ready on %d of %d nodes%s.", o, st.NumberReady, st.DesiredNumberScheduled, nodeWords(nodes)),
			Observed: []scene.Observation{{
				Text:  fmt.Sprintf("%s has numberReady %d, desiredNumberScheduled %d", o, st.NumberReady, st.DesiredNumberScheduled),
				Quote: fmt.Sprintf("desiredNumberScheduled=%d", st.DesiredNumberScheduled), Ref: d.Ref,
			}},
			WrongIf: "the nodes without it are down themselves, or have just joined",
			Test:    scene.GetTest(d.Object.Namespace, "daemonset", d.Object.Name).DecidesBetween("numberReady is less than desiredNumberScheduled", "they are equal"),
			Actions: []scene.Step{
				{Action: "Read the logs and events of the Pods of " + o.String() + " that are not ready", Outcome: "names what they fail on", Risk: "none: read only"},
				{Action: "Roll back", Do: scene.DoUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought; Pods on the nodes may lose their connections for seconds"},
			},
			Affected: nodes,
		})
	}
	return out
}

// withoutReady lists the nodes on which the Pod of d is not ready. failing is
// false when those nodes themselves are at fault: their Pods cannot be ready.
func withoutReady(s *scene.Scene, d *scene.Read[appsv1.DaemonSet]) (nodes []nightcrier.Object, failing bool) {
	known := false
	for i := range s.Pods {
		p := &s.Pods[i]
		up := scene.ControllerOf(&p.Object)
		if up.Kind != "DaemonSet" || up.Name != d.Object.Name || p.Object.Namespace != d.Object.Namespace {
			continue
		}
		known = true
		if scene.IsPodReady(&p.Object) || !s.IsLongUnready(p) {
			continue
		}
		if node := scene.FindObject(s.Nodes, "", p.Object.Spec.NodeName); node != nil && !silentNode(&node.Object) {
			failing = true
		} else if node == nil {
			failing = true
		}
		if p.Object.Spec.NodeName != "" {
			nodes = append(nodes, nightcrier.Object{Kind: "Node", Name: p.Object.Spec.NodeName})
		}
	}
	return nodes, failing || !known
}

// silentNode reports whether the node's kubelet does not report any more.
func silentNode(n *corev1.Node) bool {
	c := scene.FindNodeCondition(n, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionUnknown
}

// nodeWords names nodes, few of many.
func nodeWords(nodes []nightcrier.Object) string {
	if len(nodes) == 0 {
		return ""
	}
	var names []string
	for _, n := range nodes[:min(3, len(nodes))] {
		names = append(names, text.CutMiddle(n.Name, scene.MaxQuote))
	}
	more := ""
	if len(nodes) > 3 {
		more = fmt.Sprintf(" and %d more", len(nodes)-3)
	}
	return ", not on " + strings.Join(names, ", ") + more
}
