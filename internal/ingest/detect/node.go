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
	if !decodeObject(raw, &n) {
		return view{}, false
	}
	res := n.Meta.asResource(Node)
	ready := n.Status.Conditions.findCondition("Ready")
	v := view{res: res, owner: res, healthy: ready.hasStatus("True"), notReady: !ready.hasStatus("True")}
	if v.leaving = n.isLeaving(); v.leaving {
		return v, true
	}
	if ready.hasStatus("False") || ready.hasStatus("Unknown") {
		f := finding{cause: nodeNotReady, since: ready.Since.Time}
		if n.Spec.Unschedulable || !n.Meta.Created.IsZero() && d.now.Sub(n.Meta.Created.Time) < d.scaleByPatience(joining) {
			f.cause = nodeExcused
		}
		f.context = formatSentence("%s", withQuote("The node is not ready: Ready="+ready.Status+", reason: "+cutWord(ready.Reason), ready.Message))
		v.findings = append(v.findings, f)
	}
	if c := n.Status.Conditions.findCondition("NetworkUnavailable"); c.hasStatus("True") {
		v.findings = append(v.findings, finding{cause: nodeNetwork, since: c.Since.Time,
			context: formatSentence("%s", withQuote("The node's network is not set up, reason: "+cutWord(c.Reason), c.Message))})
	}
	for _, p := range pressures {
		if c := n.Status.Conditions.findCondition(p.condition); c.hasStatus("True") {
			v.findings = append(v.findings, finding{cause: nodePressure, since: c.Since.Time,
				context: formatSentence("%s", withQuote(p.words+" ("+p.condition+"), reason: "+cutWord(c.Reason), c.Message))})
		}
	}
	return v, true
}

// isLeaving reports whether the node is being taken out of the cluster.
func (n *node) isLeaving() bool {
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
