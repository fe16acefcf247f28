package compose

import (
	"cmp"
	"fmt"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// joinLacks makes one finding of those that say of several objects that they lack the
// same: eleven workloads that wait for one ConfigMap are one fault, of the ConfigMap.
// What one alone lacks stays its own: its reference is as likely to be what is wrong.
func joinLacks(own, all []scene.Finding) ([]scene.Finding, []scene.Finding) {
	type thing struct {
		cause  string
		object nightcrier.Object
	}
	members := map[thing][]scene.Finding{}
	of := func(n scene.Finding) thing { return thing{n.Cause, n.Lack.Object} }
	for _, n := range slices.Concat(own, all) {
		if n.Lack == nil {
			continue
		}
		if has := members[of(n)]; !slices.ContainsFunc(has, func(o scene.Finding) bool { return o.Object == n.Object && slices.Equal(o.Lack.Keys, n.Lack.Keys) }) {
			members[of(n)] = append(has, n)
		}
	}
	told := map[thing]bool{}
	collect := func(list []scene.Finding) (out []scene.Finding) {
		for _, n := range list {
			switch {
			case n.Lack == nil || len(objectsOf(members[of(n)])) < 2:
				out = append(out, n)
			case !told[of(n)]:
				told[of(n)] = true
				out = append(out, inCommon(members[of(n)]))
			}
		}
		return out
	}
	own = collect(own)
	return own, collect(all)
}

// objectsOf are the objects that findings are about, each once.
func objectsOf(list []scene.Finding) []nightcrier.Object {
	var out []nightcrier.Object
	for _, n := range list {
		if !slices.Contains(out, n.Object) {
			out = append(out, n.Object)
		}
	}
	return out
}

// inCommon is the finding about what several others lack.
func inCommon(members []scene.Finding) scene.Finding {
	n := members[0]
	l := *n.Lack
	l.Keys = nil
	n.Observed, n.DependsOn, n.Behind, n.Affected = nil, nil, nil, objectsOf(members)
	for _, m := range members {
		if len(n.Observed) < scene.MaxToldOfMany {
			n.Observed = append(n.Observed, m.Observed[0])
		}
		if n.Confidence == nightcrier.Low || m.Confidence == nightcrier.High {
			n.Confidence = m.Confidence
		}
		for _, k := range m.Lack.Keys {
			if !slices.Contains(l.Keys, k) {
				l.Keys = append(l.Keys, k)
			}
		}
		n.Affected = scene.UniteObjects(n.Affected, m.Affected)
	}
	who := objectsOf(members)
	slices.Sort(l.Keys)
	slices.SortFunc(who, func(a, b nightcrier.Object) int { return cmp.Compare(a.String(), b.String()) })
	n.Affected = slices.DeleteFunc(n.Affected, func(o nightcrier.Object) bool { return o == l.Object })
	n.Object, n.Lack, n.Joined, n.Weight = l.Object, &l, members, n.Weight+len(who)
	n.Summary = fmt.Sprintf("%s %s; %d %s wait for it: %s.", l.Object, l.DescribeState(n.Cause), len(who), nounOf(who), scene.NameSome(who))
	if t := l.RefutingTest(); t.Command != "" {
		n.Test = t
	}
	n.Actions = []scene.Step{l.RepairAction("those that wait for it"), {
		Action:  "Find out since when it is so: what made " + l.Object.String() + " before, and who removed or renamed it",
		Outcome: "tells a lost object from a wrong reference", Risk: "none: read only",
	}}
	return n
}

func nounOf(list []nightcrier.Object) string {
	if !slices.ContainsFunc(list, func(o nightcrier.Object) bool { return o.Kind != "PersistentVolumeClaim" }) {
		return "claims"
	}
	return "workloads"
}
