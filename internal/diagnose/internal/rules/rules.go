// Package rules runs what is known about causes: a package below it for each part of a
// cluster, a file there for each area. A rule is a function of the scene alone: it returns nothing unless its predicate holds, and names what it saw.
package rules

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules/network"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules/nodes"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules/pods"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules/volumes"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules/workloads"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Judge runs every rule over all that was read: own is what they find of the target,
// all of everything else.
func Judge(f *scene.Facts) (own, all []scene.Finding) {
	if !f.IsWholeTarget() && f.LaterSuccess() == nil { // what a later run has made good is history
		own = ApplyRules(f)
	}
	if f.Hearsay {
		return own, nil
	}
	f.Others = nil // it may be judged again, when more was read
	for _, o := range f.Scene.AllWorkloads() {
		if o.Mend() == f.Mend() {
			continue
		}
		all = append(all, ApplyRules(o)...)
		if f.Target.Kind != scene.NamespaceKind || o.Target.Namespace == f.Target.Name {
			f.Others = append(f.Others, o)
		}
	}
	if f.IsWholeTarget() {
		for _, n := range f.Scene.TroubledNodes() {
			all = append(all, ApplyRules(n)...)
		}
		f.Replicas = scene.Replicas{}
		for _, o := range f.Others {
			f.Replicas.Total += o.Replicas.Total
			f.Replicas.Ready += o.Replicas.Ready
		}
	}
	return own, append(all, ApplySceneRules(f.Scene)...)
}

// areas are all that is known, ordered by name.
var areas = sortAreas(slices.Concat(network.Areas(), nodes.Areas(), pods.Areas(), volumes.Areas(), workloads.Areas()))

// causes are those of all areas, by id.
var causes = sortCauses(areas)

func sortAreas(all []scene.Area) []scene.Area {
	slices.SortFunc(all, func(a, b scene.Area) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func sortCauses(areas []scene.Area) []scene.Cause {
	var all []scene.Cause
	for _, a := range areas {
		all = append(all, a.Causes...)
	}
	slices.SortFunc(all, func(a, b scene.Cause) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Causes returns the published list of causes, by id.
func Causes() []scene.Cause { return slices.Clone(causes) }

// CauseOf is what the published list says of a cause.
func CauseOf(id string) scene.Cause {
	i, ok := slices.BinarySearchFunc(causes, id, func(c scene.Cause, id string) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return scene.Cause{ID: id, Category: "Cluster"}
	}
	return causes[i]
}

func rankOf(n scene.Finding) int { return cmp.Or(n.Rank, n.Entry.Rank) }

// ApplyRules runs every rule about one workload and returns the findings, the best
// explanation first, one for each cause of an object.
func ApplyRules(f *scene.Facts) []scene.Finding {
	var all []scene.Finding
	for _, a := range areas {
		for _, rule := range a.Rules {
			if f.Scene.InTime() {
				all = append(all, rule(f)...)
			}
		}
	}
	for i := range all {
		all[i] = nodes.BlameNode(f, all[i])
	}
	return rankFindings(all)
}

// ApplySceneRules runs every rule about what surrounds the workloads.
func ApplySceneRules(s *scene.Scene) []scene.Finding {
	var all []scene.Finding
	for _, a := range areas {
		for _, rule := range a.SceneRules {
			if s.InTime() {
				all = append(all, rule(s)...)
			}
		}
	}
	return rankFindings(all)
}

// rankFindings fills in what the published list says of each cause, and orders them.
func rankFindings(all []scene.Finding) []scene.Finding {
	for i := range all {
		all[i].Entry = CauseOf(all[i].Cause)
	}
	slices.SortStableFunc(all, func(a, b scene.Finding) int {
		return cmp.Or(
			cmp.Compare(rankOf(b), rankOf(a)),
			cmp.Compare(b.Weight, a.Weight),
		)
	})
	var out []scene.Finding
	for _, n := range all {
		same := func(o scene.Finding) bool { return o.Cause == n.Cause && o.Object == n.Object }
		if !slices.ContainsFunc(out, same) {
			out = append(out, n)
		}
	}
	return out
}
