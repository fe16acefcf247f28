package diagnose

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier"
)

// Rule looks for one kind of cause in the facts about one workload, or one node.
// It is a function of the facts alone, returns nothing unless its predicate
// holds, and says what it rests on.
type Rule func(*Facts) []Finding

// SceneRule looks for one kind of cause in what surrounds the workloads:
// services, claims, quotas, autoscalers. It runs once over all that was read.
type SceneRule func(*Scene) []Finding

// area is a field that rules know about: one file, with the rules, the causes
// that they name, and beside it the table of their cases. A new rule goes into
// the file of its area; a new area is a new file and a line in each list below.
type area struct {
	of    []Rule
	scene []SceneRule
}

var areas = []area{
	attachRules,
	autoscalerRules,
	budgetRules,
	claimRules,
	configurationRules,
	controlPlaneRules,
	crashRules,
	creationRules,
	cronRules,
	daemonRules,
	dependencyRules,
	dnsRules,
	environmentRules,
	evictionRules,
	finalizerRules,
	gateRules,
	imageRules,
	ingressRules,
	initContainerRules,
	jobRules,
	logRules,
	memoryRules,
	nodeRules,
	policyRules,
	probeRules,
	rolloutRules,
	scaleRules,
	schedulingRules,
	serviceRules,
	startRules,
	statefulRules,
}

// causes are those of all areas, by id.
var causes = sortCauses(
	attachCauses,
	autoscalerCauses,
	budgetCauses,
	certificateCauses,
	claimCauses,
	configurationCauses,
	controlPlaneCauses,
	crashCauses,
	creationCauses,
	cronCauses,
	daemonCauses,
	dependencyCauses,
	dnsCauses,
	environmentCauses,
	evictionCauses,
	filesystemCauses,
	finalizerCauses,
	gateCauses,
	imageCauses,
	ingressCauses,
	initContainerCauses,
	jobCauses,
	memoryCauses,
	nodeCauses,
	policyCauses,
	probeCauses,
	rolloutCauses,
	scaleCauses,
	schedulingCauses,
	serviceCauses,
	startCauses,
	statefulCauses,
)

func sortCauses(lists ...[]Cause) []Cause {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b Cause) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Cause is one entry of the published list.
type Cause struct {
	// ID is the kebab-case name that reports and evaluations use.
	ID string `json:"cause"`
	// Category is Pod, Service, Storage, Node, Network, Helm or Cluster.
	Category string `json:"category"`
	Meaning  string `json:"meaning"`

	// Rank orders causes that hold at the same time: what explains more first.
	Rank int `json:"-"`
	// TellsHow is set when it says how a container ended, which is no other explanation
	// than why it did.
	TellsHow bool `json:"-"`
	// BeginsElsewhere is set when something that is needed does not answer.
	BeginsElsewhere bool `json:"-"`
}

// The ranks: what a cluster states as the reason outranks what follows from it.
const (
	rankFollows = 10 // a consequence of something else
	rankShown   = 50 // shown by how a container ended
	rankStated  = 80 // stated by the cluster as the reason
	rankGround  = 90 // makes everything above it fail
	groundSpan  = 3  // how far below rankGround its own order of causes reaches
)

// Causes returns the published list of causes, by id.
func Causes() []Cause { return slices.Clone(causes) }

func causeOf(id string) Cause {
	i, ok := slices.BinarySearchFunc(causes, id, func(c Cause, id string) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return Cause{ID: id, Category: "Cluster"}
	}
	return causes[i]
}

// beneathAll reports whether every namespace stands on what is wrong: a node, the
// network, DNS. A volume is one namespace's.
func (c Cause) beneathAll() bool { return c.Rank >= rankGround-groundSpan && c.Category != "Storage" }

// Finding is a cause that a rule found to hold.
type Finding struct {
	// Cause is an id of the published list, and Entry what the list says of it: that is
	// filled in when the rule has returned.
	Cause string
	Entry Cause
	// Object is what a person would mend.
	Object nightcrier.Object
	// Summary is one sentence to act on.
	Summary    string
	Confidence nightcrier.Confidence
	// Observed are the facts that it rests on, the strongest first.
	Observed []Observation
	// WrongIf says what would make it wrong.
	WrongIf string
	// Test is the read-only command that would refute it.
	Test    nightcrier.Falsification
	Actions []Step
	// Rank is set when what was seen puts it higher or lower than its cause
	// usually stands, 0 otherwise.
	Rank int
	// Weight orders findings of one rank: the larger first.
	Weight int
	// Affected are the objects whose trouble this explains, beside Object: the
	// Pods' workload that a Service has no endpoints for, the Pods of a node.
	Affected []nightcrier.Object
	// Behind are objects that are well themselves and cannot be reached through
	// Object: the workload that a Service is meant for. Their neighbours' trouble
	// does not follow from this.
	Behind []nightcrier.Object
	// DependsOn are the objects that Object needs. Trouble of one of them is the
	// real cause, and this only follows from it.
	DependsOn []nightcrier.Object
	// Lack is the one thing that Object lacks, nil where it is not of that kind: who
	// else lacks it has the same fault.
	Lack *lack
	// Joined are the findings that were made one because all of them lack the same.
	Joined []Finding
}

func (n Finding) rank() int { return cmp.Or(n.Rank, n.Entry.Rank) }

// Observation is one thing that was read and that a predicate was tested on.
type Observation struct {
	Text string
	// Quote is what stands in the evidence, word for word.
	Quote string
	Ref   Ref
}

// applyRules runs every rule about one workload and returns the findings, the best
// explanation first, one for each cause of an object.
func applyRules(f *Facts) []Finding {
	var all []Finding
	for _, a := range areas {
		for _, rule := range a.of {
			if f.Scene.inTime() {
				all = append(all, rule(f)...)
			}
		}
	}
	return rankFindings(all)
}

// applyScene runs every rule about what surrounds the workloads.
func applyScene(s *Scene) []Finding {
	var all []Finding
	for _, a := range areas {
		for _, rule := range a.scene {
			if s.inTime() {
				all = append(all, rule(s)...)
			}
		}
	}
	return rankFindings(all)
}

// rankFindings fills in what the published list says of each cause, and orders them.
func rankFindings(all []Finding) []Finding {
	for i := range all {
		all[i].Entry = causeOf(all[i].Cause)
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.rank(), a.rank()),
			cmp.Compare(b.Weight, a.Weight),
		)
	})
	var out []Finding
	for _, n := range all {
		same := func(o Finding) bool { return o.Cause == n.Cause && o.Object == n.Object }
		if !slices.ContainsFunc(out, same) {
			out = append(out, n)
		}
	}
	return out
}
