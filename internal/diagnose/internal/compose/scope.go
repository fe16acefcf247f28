package compose

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// MaxScope is how many objects of one kind of standing are told.
const MaxScope = 60

// addScope says whom the trouble touches, as far as that was looked at. Whoever is called
// unaffected has shown that it is well; what only begins is called that.
func (a *assembler) addScope(found Composition) {
	if a.f.Hearsay {
		return
	}
	sc := &a.r.Scope
	if a.r.Verdict == nightcrier.VerdictFault {
		sc.Affected = found.Affected
	}
	everything := a.f.Others
	if !a.f.IsWholeTarget() {
		everything = append([]*scene.Facts{a.f}, everything...)
	}
	for _, f := range everything {
		o := f.Mend()
		inTrouble := f.JudgeStanding() == scene.StandsDown || found.suspects[o] && !f.IsWell()
		if inTrouble && !slices.Contains(sc.Affected, o) && (a.f.IsWholeTarget() || f == a.f) {
			sc.Affected = append(sc.Affected, o)
		}
	}
	for _, f := range everything {
		o := f.Mend()
		switch standing := f.JudgeStanding(); {
		case o.Kind == "Node", slices.Contains(sc.Affected, o):
		case a.dependsOnAffected(found.graph, o):
			sc.Suspected = append(sc.Suspected, o)
		case found.touched[o] || len(f.Pods) == 0: // no rule names it, and it has shown what it is
		case standing == scene.StandsWell:
			sc.Unaffected = append(sc.Unaffected, o)
		case standing == scene.StandsComingUp:
			sc.ComingUp = append(sc.ComingUp, o)
		}
	}
	for _, list := range []*[]nightcrier.Object{&sc.Affected, &sc.Suspected, &sc.Unaffected, &sc.ComingUp} {
		*list = a.cleanObjects(*list)
	}
}

// cleanObjects cleans and bounds a list; the first is the gravest and stays so.
func (a *assembler) cleanObjects(list []nightcrier.Object) []nightcrier.Object {
	list = slices.Clone(list[:min(MaxScope, len(list))])
	for i, o := range list {
		list[i] = a.cleanObject(o)
	}
	if len(list) > 1 {
		slices.SortStableFunc(list[1:], func(x, y nightcrier.Object) int { return cmp.Compare(x.String(), y.String()) })
	}
	return list
}

// dependsOnAffected reports whether o needs something that is affected.
func (a *assembler) dependsOnAffected(g scene.Graph, o nightcrier.Object) bool {
	for needed := range g.ReachFrom(o, scene.BySetting) {
		if needed.Kind != "Node" && slices.Contains(a.r.Scope.Affected, needed) {
			return true
		}
	}
	return false
}
