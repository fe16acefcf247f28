// Package compose finds out what follows from what, and makes the report: one root, its
// consequences, whom it touches, what changed before it and what to do. It knows findings and
// the objects that they are about, and no rule.
package compose

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Composition is what all findings together come to.
type Composition struct {
	// Findings are the hypotheses, the root cause first.
	Findings     []scene.Finding
	Consequences []nightcrier.Consequence
	// Affected are the objects that the root cause explains, itself included.
	Affected []nightcrier.Object
	graph    scene.Graph
	// suspects are the objects of which more than a hint was found, touched those that
	// any finding has to do with.
	suspects, touched map[nightcrier.Object]bool
}

// Root is the object of the root cause, if any was found.
func (c Composition) Root() (nightcrier.Object, bool) {
	if len(c.Findings) == 0 {
		return nightcrier.Object{}, false
	}
	return c.Findings[0].Object, true
}

// Unexplained is the object of the root cause where what was found there says that something
// is wrong, and not why.
func (c Composition) Unexplained() (nightcrier.Object, bool) {
	if len(c.Findings) == 0 || saysWhy(c.Findings[0]) {
		return nightcrier.Object{}, false
	}
	return c.Findings[0].Object, true
}

// group is everything found about one object: the best explanation, and what else
// holds there.
type group struct {
	object nightcrier.Object
	all    []scene.Finding
	own    bool // one of them is about the target
	// parent is what this follows from, nil for a root, and because the next object
	// on the way there.
	parent  *group
	because nightcrier.Object
}

func (g *group) best() scene.Finding { return g.all[0] }

func (g *group) root() *group {
	for g.parent != nil {
		g = g.parent
	}
	return g
}

// Compose finds which trouble follows from which. own are the findings of the rules
// about the target, all are those about everything else that was read.
func Compose(f *scene.Facts, own, all []scene.Finding) Composition {
	g := scene.DrawGraph(f.Scene)
	own, all = joinLacks(own, all)
	groups := groupByObject(own, all)
	for _, gr := range groups {
		for _, n := range gr.all {
			for _, o := range n.DependsOn {
				g.AddLink(n.Object, o, scene.ByRule)
			}
			for _, o := range n.Affected {
				g.AddLink(o, n.Object, scene.ByMake)
			}
		}
	}
	for _, gr := range slices.Backward(groups) { // of two that explain each other the graver is the root
		explainGroup(g, gr, groups)
	}
	c := Composition{graph: g, suspects: map[nightcrier.Object]bool{}, touched: map[nightcrier.Object]bool{}}
	c.noteObjects(groups)
	roots := rootsOf(f, g, groups)
	if len(roots) == 0 {
		return c
	}
	c.fillFromRoots(roots, groups)
	return c
}

// noteObjects keeps which objects anything was found about.
func (c *Composition) noteObjects(groups []*group) {
	for _, gr := range groups {
		for _, n := range gr.all {
			c.suspects[n.Object] = c.suspects[n.Object] || n.Confidence != nightcrier.Low
			for _, o := range slices.Concat([]nightcrier.Object{n.Object}, n.Affected, n.Behind) {
				c.touched[o] = true
			}
		}
	}
}

// groupByObject puts findings together by object, the best explanation first.
func groupByObject(own, all []scene.Finding) []*group {
	var groups []*group
	at := map[nightcrier.Object]*group{}
	for i, n := range slices.Concat(own, all) {
		gr := at[n.Object]
		if gr == nil {
			gr = &group{object: n.Object}
			at[n.Object] = gr
			groups = append(groups, gr)
		}
		gr.own = gr.own || i < len(own)
		if !slices.ContainsFunc(gr.all, func(o scene.Finding) bool { return o.Cause == n.Cause }) {
			gr.all = append(gr.all, n)
		}
	}
	for _, gr := range groups {
		slices.SortStableFunc(gr.all, compareFindings)
		gr.all = slices.DeleteFunc(gr.all, func(n scene.Finding) bool { return saysOnlyHow(n, gr.all[0]) })
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return compareFindings(a.best(), b.best()) })
	return groups
}

// saysOnlyHow reports whether n tells how a container ended, and best why it did: the
// one is no other explanation than the other.
func saysOnlyHow(n, best scene.Finding) bool {
	return n.Entry.TellsHow && n.Cause != best.Cause && slices.ContainsFunc(best.Observed, func(o scene.Observation) bool { return o.Text == n.Observed[0].Text })
}

// compareFindings orders findings: what is more than a hint first, then by rank and weight.
func compareFindings(a, b scene.Finding) int {
	hint := func(n scene.Finding) int {
		if n.Confidence == nightcrier.Low {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(hint(a), hint(b)),
		cmp.Compare(b.Entry.Rank, a.Entry.Rank),
		cmp.Compare(b.Weight, a.Weight),
	)
}

// explainGroup finds what gr follows from, the firmest and gravest of all that explain
// it, and never what itself follows from gr.
func explainGroup(g scene.Graph, gr *group, groups []*group) {
	ways := g.ReachFrom(gr.object, scene.BySetting)
	var found scene.Way
	for _, other := range groups { // the gravest first
		way, ok := ways[other.object]
		if !ok || other == gr || other.follows(gr) || !mayExplain(other.best(), gr.best(), way.Hold) || way.Hold <= found.Hold {
			continue
		}
		if back, leadsBack := g.ReachFrom(other.object, scene.ByMake)[gr.object]; leadsBack && way.Hold < back.Hold && !slices.Contains(other.best().Affected, gr.object) {
			continue // the Service before a workload is not what the workload waits for, nor a node what gives it its network
		}
		found, gr.parent, gr.because = way, other, way.First
	}
}

// follows reports whether gr follows from other.
func (g *group) follows(other *group) bool {
	for at := g; at != nil; at = at.parent {
		if at == other {
			return true
		}
	}
	return false
}

// mayExplain reports whether trouble of something needed is why there is trouble. What
// the cluster states as the reason of an object's own trouble needs no other
// explanation, unless that is as grave; who merely has the other in its settings is
// explained only where its own trouble is nothing but that something is not there.
func mayExplain(why, what scene.Finding, by scene.Hold) bool {
	if why.Confidence == nightcrier.Low && what.Confidence != nightcrier.Low {
		return false
	}
	reason, symptom := why.Entry.Rank, what.Entry.Rank
	switch by {
	case scene.ByRule:
		return true
	case scene.ByMake:
		return symptom < scene.RankStated || reason >= symptom
	case scene.ByComplaint:
		if why.Entry.Symptom && reason < symptom && reason < scene.RankShown/2 { // it serves, and complains itself
			return beginsElsewhere(what)
		}
		return symptom < scene.RankStated || !saysWhy(what)
	}
	return beginsElsewhere(what)
}

// waitsForOthers matches what a probe is told by a process that runs and waits for
// something else.
var waitsForOthers = scene.NewPattern(`(?i)statuscode: 50[0-9]|deadline exceeded|timed? ?out`)

// beginsElsewhere reports whether trouble is of the kind that begins elsewhere: something
// does not answer, or a process that runs does not call itself ready.
func beginsElsewhere(n scene.Finding) bool {
	switch {
	case n.Entry.BeginsElsewhere:
		return true
	case n.Cause == "readiness-probe-failing":
		return slices.ContainsFunc(n.Observed, func(o scene.Observation) bool { return waitsForOthers.MatchString(o.Quote) })
	}
	return n.Entry.Rank < scene.RankShown/2
}

// rootsOf are the roots that matter, the one to report first.
func rootsOf(f *scene.Facts, g scene.Graph, groups []*group) []*group {
	var roots []*group
	weight := map[*group]int{}
	for _, gr := range groups {
		root := gr.root()
		if !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
		weight[root] += weighGroup(f, gr)
	}
	if f.IsWholeTarget() {
		here := map[*group]bool{}
		for _, gr := range groups {
			here[gr.root()] = here[gr.root()] || isWithinTarget(f, gr.object)
		}
		roots = slices.DeleteFunc(roots, func(gr *group) bool { return !here[gr] })
		slices.SortStableFunc(roots, func(a, b *group) int {
			return cmp.Or(
				cmp.Compare(rankByHint(a), rankByHint(b)),
				cmp.Compare(weight[b], weight[a]),
			)
		})
		return roots
	}
	near := rateNearness(f, g, groups)
	roots = slices.DeleteFunc(roots, func(gr *group) bool { return near[gr] == 0 })
	slices.SortStableFunc(roots, func(a, b *group) int { return cmp.Compare(near[b], near[a]) })
	return roots
}

// isWithinTarget reports whether an object is of the target, or of the cluster as a whole:
// trouble of another namespace matters only to those who need it.
func isWithinTarget(f *scene.Facts, o nightcrier.Object) bool {
	return f.Target.Kind != scene.NamespaceKind || o.Namespace == f.Target.Name || o.Namespace == ""
}

func rankByHint(gr *group) int {
	if gr.best().Confidence == nightcrier.Low {
		return 1
	}
	return 0
}

// weighGroup tells how much is out of service by a group: a workload without a ready Pod
// counts most.
func weighGroup(f *scene.Facts, gr *group) int {
	n := gr.best()
	if n.Lack == nil || n.Lack.Object != gr.object {
		return outOfService(f, gr.object)
	}
	all := 0
	for _, o := range n.Affected { // they are in no group of their own
		all += outOfService(f, o)
	}
	return all
}

func outOfService(f *scene.Facts, o nightcrier.Object) int {
	r, known := f.Scene.ReplicasOf(o)
	switch {
	case !known:
		return 1
	case r.Want > 0 && r.Ready == 0:
		return 100
	case r.Ready < r.Want:
		return 10
	}
	return 1
}

// How near a root is to the target.
const (
	besideTarget = iota + 1 // what leads to the target: its Service, its autoscaler
	belowTarget             // what the target is made of
	atTarget                // the target's own trouble, or what that follows from
)

// rateNearness tells which roots have to do with the target.
func rateNearness(f *scene.Facts, g scene.Graph, groups []*group) map[*group]int {
	near := map[*group]int{}
	target, owner := scene.ObjectOf(f.Target), f.Mend()
	below := g.ReachFrom(owner, scene.ByMake)
	for _, gr := range groups {
		n := 0
		_, under := below[gr.object]
		switch {
		case gr.own, gr.object == target, gr.object == owner:
			n = atTarget
		case under:
			n = belowTarget
		case leadsToOwner(gr, g, owner):
			n = besideTarget
		}
		near[gr.root()] = max(near[gr.root()], n)
	}
	return near
}

// leadsToOwner reports whether gr is about something that leads to the target.
func leadsToOwner(gr *group, g scene.Graph, owner nightcrier.Object) bool {
	switch gr.object.Kind {
	case "Service", "Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PodMonitor", "HTTPRoute", "VirtualService", "DestinationRule":
	default:
		return false
	}
	if slices.ContainsFunc(gr.all, func(n scene.Finding) bool {
		return slices.Contains(n.Affected, owner) || slices.Contains(n.Behind, owner)
	}) {
		return true
	}
	_, leads := g.ReachFrom(gr.object, scene.ByMake)[owner]
	return leads
}

// fillFromRoots fills c: the root first, then what else may be the cause, then what is
// independent of it.
func (c *Composition) fillFromRoots(roots, groups []*group) {
	root := roots[0]
	root.all = tellReasons(root.all)
	c.Findings = append(c.Findings, root.all[:min(2, len(root.all))]...)
	for _, other := range roots[1:] {
		c.Findings = append(c.Findings, other.best())
	}
	c.Findings = append(c.Findings, root.all[min(2, len(root.all)):]...)
	c.Affected = []nightcrier.Object{root.object}
	for _, n := range root.all[:1] {
		c.addAffected(n.Affected...)
		c.addAffected(n.Behind...)
	}
	for _, n := range root.best().Joined { // that they wait for it is said of the root alone
		c.addConsequence(n, root.object)
	}
	for _, gr := range groups {
		if gr != root && gr.root() == root {
			c.addAffected(gr.object)
			c.addConsequence(gr.best(), gr.because)
		}
	}
}

// addConsequence notes what goes away with the root cause: of each object one symptom, of as
// many objects as a report tells of.
func (c *Composition) addConsequence(n scene.Finding, because nightcrier.Object) {
	known := slices.ContainsFunc(c.Consequences, func(o nightcrier.Consequence) bool { return o.Object == n.Object })
	if !known && len(c.Consequences) < MaxScope {
		c.Consequences = append(c.Consequences, nightcrier.Consequence{Cause: n.Cause, Object: n.Object, Statement: n.Summary, Because: because})
	}
}

func (c *Composition) addAffected(list ...nightcrier.Object) {
	for _, o := range list {
		if o.Name != "" && !slices.Contains(c.Affected, o) {
			c.Affected = append(c.Affected, o)
		}
	}
}
