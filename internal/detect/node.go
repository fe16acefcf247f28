package detect

import "strings"

// node is what is read of a Node.
type node struct {
	Meta meta `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
		Taints        []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

// pressures are the conditions of a node that are bad when they are true.
var pressures = []struct{ condition, words string }{
	{"MemoryPressure", "The node is short of memory"},
	{"DiskPressure", "The node is short of disk space"},
	{"PIDPressure", "The node is short of process ids"},
}

func readNode(d *Detector, raw []byte) (view, bool) {
	var n node
	if !decode(raw, &n) {
		return view{}, false
	}
	res := n.Meta.resource(Node)
	ready := n.Status.Conditions.of("Ready")
	v := view{res: res, owner: res, healthy: ready.is("True"), notReady: !ready.is("True")}
	if v.leaving = n.leaving(); v.leaving {
		return v, true
	}
	if ready.is("False") || ready.is("Unknown") {
		f := finding{cause: nodeNotReady, since: ready.Since.Time}
		if n.Spec.Unschedulable || !n.Meta.Created.IsZero() && d.now.Sub(n.Meta.Created.Time) < d.wait(joining) {
			f.cause = nodeExcused
		}
		f.context = say("%s", with("The node is not ready: Ready="+ready.Status+", reason: "+word(ready.Reason), ready.Message))
		v.findings = append(v.findings, f)
	}
	if c := n.Status.Conditions.of("NetworkUnavailable"); c.is("True") {
		v.findings = append(v.findings, finding{cause: nodeNetwork, since: c.Since.Time,
			context: say("%s", with("The node's network is not set up, reason: "+word(c.Reason), c.Message))})
	}
	for _, p := range pressures {
		if c := n.Status.Conditions.of(p.condition); c.is("True") {
			v.findings = append(v.findings, finding{cause: nodePressure, since: c.Since.Time,
				context: say("%s", with(p.words+" ("+p.condition+"), reason: "+word(c.Reason), c.Message))})
		}
	}
	return v, true
}

// leaving: the node is being taken out of the cluster.
func (n *node) leaving() bool {
	if !n.Meta.Deleted.IsZero() {
		return true
	}
	for _, t := range n.Spec.Taints {
		if t.Key == "ToBeDeletedByClusterAutoscaler" || t.Key == "node.cloudprovider.kubernetes.io/shutdown" || strings.HasPrefix(t.Key, "karpenter.sh/disrupt") {
			return true
		}
	}
	return false
}
