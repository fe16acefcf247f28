package notify

import (
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Kind is what a message is about.
type Kind string

// The kinds of messages.
const (
	// Outcome: an investigation ended; with its report, or with why there is none.
	Outcome Kind = store.OutcomeTold
	// SeverityRose: an incident that people know of became more severe.
	SeverityRose Kind = store.RiseTold
	// Over: the fault of an incident that people know of is over.
	Over Kind = store.OverTold
	// StormBegan: one message in place of one for each incident.
	StormBegan Kind = "storm"
	// BreakerOpened and BreakerClosed: an executor became unusable, or usable again.
	BreakerOpened Kind = "breaker_down"
	BreakerClosed Kind = "breaker_up"
	// RunEnded: a run ended whose pipeline, or a skill of it, says that people are told.
	RunEnded Kind = "run_ended"
	// ApprovalAsked: a run waits for people to decide.
	ApprovalAsked Kind = "approval"
	// BudgetReached: a day's budget is used up, or cannot be counted.
	BudgetReached Kind = "budget"
)

// Message is what people are told, before a channel gives it its form. All
// text in it may come from a cluster and is hostile until a channel escaped it.
type Message struct {
	Kind Kind
	// Key says what happened, the same after a restart: of one key a channel
	// is sent one message, ever.
	Key string
	// Incident is set for Outcome, SeverityRose and Over; Report when there is one.
	Incident *nightcrier.Incident
	Report   *nightcrier.Report
	RunID    string
	// Channel is the only one by which it is sent, "" for all.
	Channel string
	// Was is the severity before it rose.
	Was nightcrier.Severity
	// Quiet is for how long nothing was heard of a fault that is over, With how many
	// other incidents of the same cause are over as well.
	Quiet time.Duration
	With  int
	// Link is where to read on: an http(s) address or a path.
	Link    string
	Storm   *Storm
	Breaker *Breaker
	Budget  *Budget
	Run     *Run
	// Approval is what people are asked.
	Approval *nightcrier.Approval
}

// Run is a run that has ended, with the last attempt of each of its steps.
type Run struct {
	nightcrier.Run
	// Text is what its pipeline says of it.
	Text string
}

// Storm is what one storm message lists.
type Storm struct {
	ID      string
	Cluster string
	// Incidents of the storm so far; Investigated says which of them are looked at.
	Incidents    []nightcrier.Incident
	Investigated map[string]bool
}

// Breaker is an executor that became unusable, or usable again.
type Breaker struct {
	Executor string
	// Class and Detail say why it opened.
	Class  nightcrier.FailureClass
	Detail string
	Since  time.Time
	// Waiting is how many runs its queue holds.
	Waiting int
}

// Budget is a limit of a day that is reached.
type Budget struct {
	// Cluster is empty for that of all clusters; Day is one of UTC, as 2006-01-02.
	Cluster, Day string
	// Detail says which limit it is and what was spent.
	Detail string
}

// BudgetOf makes the message that a day's budget is used up: one a day, and one a
// cluster.
func BudgetOf(b Budget) Message {
	return Message{Kind: BudgetReached, Key: string(BudgetReached) + "/" + b.Day + "/" + b.Cluster, Budget: &b}
}

// ApprovalOf makes the message that people are asked.
func ApprovalOf(a nightcrier.Approval) Message {
	return Message{Kind: ApprovalAsked, Key: string(ApprovalAsked) + "/" + a.ID, RunID: a.RunID, Approval: &a}
}

// OutcomeOf makes the message that an investigation ended. The report may be nil.
func OutcomeOf(inc nightcrier.Incident, runID string, rep *nightcrier.Report, link string) Message {
	return Message{Kind: Outcome, Key: "outcome/" + runID, Incident: &inc, Report: rep, RunID: runID, Link: link}
}

// RunOf makes the message that a run ended, for one channel.
func RunOf(r Run, channel string) Message {
	return Message{Kind: RunEnded, Key: string(RunEnded) + "/" + r.ID, RunID: r.ID, Channel: channel, Run: &r}
}

// RiseOf makes the message that an open incident became more severe.
func RiseOf(inc nightcrier.Incident, was nightcrier.Severity, link string) Message {
	return Message{Kind: SeverityRose, Key: "rise/" + inc.ID + "/" + inc.Severity.String(), Incident: &inc, Was: was, RunID: inc.RunID, Link: link}
}

// OverOf makes the message that the fault of an incident has been over for quiet, with
// that of so many others of the same cause.
func OverOf(inc nightcrier.Incident, quiet time.Duration, with int, link string) Message {
	return Message{Kind: Over, Key: "over/" + inc.ID, Incident: &inc, RunID: inc.RunID, Quiet: quiet, With: with, Link: link}
}

// outcomeGist is what an outcome comes to, without its words: two runs that tell the same have
// the same.
func (m Message) outcomeGist() string {
	if m.Kind != Outcome || m.Incident == nil {
		return ""
	}
	parts := []string{string(m.Incident.Status), string(m.Incident.FailureClass)}
	if m.Report != nil {
		parts = append(parts, string(m.Report.Verdict))
		if c := m.Report.RootCause; c != nil {
			parts = append(parts, c.Cause, c.Object.String())
		}
	}
	return strings.Join(parts, "\n")
}

func (m Message) incidentSeverity() nightcrier.Severity {
	if m.Incident == nil {
		return nightcrier.Info
	}
	return m.Incident.Severity
}

// StormOf makes the one message of a storm.
func StormOf(s Storm, link string) Message {
	return Message{Kind: StormBegan, Key: "storm/" + s.ID, Storm: &s, Link: link}
}

// BreakerOf makes the message that a breaker opened or closed. Since tells one
// outage from the next.
func BreakerOf(b Breaker, open bool) Message {
	kind := BreakerClosed
	if open {
		kind = BreakerOpened
	}
	return Message{Kind: kind, Key: string(kind) + "/" + b.Executor + "/" + b.Since.UTC().Format(time.RFC3339), Breaker: &b}
}

func (m Message) incidentID() string {
	if m.Incident == nil {
		return ""
	}
	return m.Incident.ID
}
