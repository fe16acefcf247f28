package scene

import (
	"nightcrier.dev/nightcrier"
)

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
	RankFollows = 10 // a consequence of something else
	RankShown   = 50 // shown by how a container ended
	RankStated  = 80 // stated by the cluster as the reason
	RankGround  = 90 // makes everything above it fail
	groundSpan  = 3  // how far below RankGround its own order of causes reaches
)

// LiesBeneathAll reports whether every namespace stands on what is wrong: a node, the
// network, DNS. A volume is one namespace's.
func (c Cause) LiesBeneathAll() bool {
	return c.Rank >= RankGround-groundSpan && c.Category != "Storage"
}

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
	Lack *Lack
	// Joined are the findings that were made one because all of them lack the same.
	Joined []Finding
}

// Observation is one thing that was read and that a predicate was tested on.
type Observation struct {
	Text string
	// Quote is what stands in the evidence, word for word.
	Quote string
	Ref   Ref
}
