package diagnose

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier"
)

// MaxScope is how many objects of one kind of standing are told.
const MaxScope = 20

// scope says whom the trouble touches, as far as that was looked at.
func (a *assembler) scope(found composed) {
	if a.f.Hearsay {
		return
	}
	if a.r.Verdict == nightcrier.VerdictFault {
		a.r.Scope.Affected = found.affected
	}
	everything := a.f.others
	if !a.f.whole() {
		everything = append([]*Facts{a.f}, everything...)
	}
	for _, f := range everything {
		if o := f.Mend(); !f.well() && !slices.Contains(a.r.Scope.Affected, o) && (a.f.whole() || f == a.f) {
			a.r.Scope.Affected = append(a.r.Scope.Affected, o)
		}
	}
	for _, f := range everything {
		o := f.Mend()
		switch {
		case o.Kind == "Node", slices.Contains(a.r.Scope.Affected, o):
		case a.dependsOnAffected(found.graph, o):
			a.r.Scope.Suspected = append(a.r.Scope.Suspected, o)
		case f.well() && len(f.Pods) > 0:
			a.r.Scope.Unaffected = append(a.r.Scope.Unaffected, o)
		}
	}
	for _, list := range []*[]nightcrier.Object{&a.r.Scope.Affected, &a.r.Scope.Suspected, &a.r.Scope.Unaffected} {
		*list = a.objects(*list)
	}
}

// objects cleans and bounds a list; the first is the gravest and stays so.
func (a *assembler) objects(list []nightcrier.Object) []nightcrier.Object {
	list = slices.Clone(list[:min(MaxScope, len(list))])
	for i, o := range list {
		list[i] = a.object(o)
	}
	if len(list) > 1 {
		slices.SortStableFunc(list[1:], func(x, y nightcrier.Object) int { return cmp.Compare(x.String(), y.String()) })
	}
	return list
}

// dependsOnAffected reports whether o needs something that is affected.
func (a *assembler) dependsOnAffected(g graph, o nightcrier.Object) bool {
	for needed := range g.reach(o, bySetting) {
		if needed.Kind != "Node" && slices.Contains(a.r.Scope.Affected, needed) {
			return true
		}
	}
	return false
}
