package nightcrier

import "time"

// ReportSchema is the value of Report.Schema.
const ReportSchema = "nightcrier.report/v1"

// Report is report.json: what machines read about an investigation. Nothing
// downstream scrapes the Markdown.
type Report struct {
	Schema     string `json:"schema"`
	IncidentID string `json:"incidentId"`
	Cluster    string `json:"cluster"`
	// Context is the one of kubectl by which the cluster was read, "" where none is
	// known. Commands are shown with it, and stand here without.
	Context   string    `json:"context,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Source is builtin or agent.
	Source   string   `json:"source"`
	Valid    bool     `json:"valid"`
	Problems []string `json:"problems"`

	Target   Object  `json:"target"`
	Verdict  Verdict `json:"verdict"`
	Severity string  `json:"severity"`
	Category string  `json:"category"`
	Impact   string  `json:"impact"`

	// RootCause is nil unless the verdict is fault.
	RootCause  *RootCause   `json:"rootCause"`
	Hypotheses []Hypothesis `json:"hypotheses"`
	// LookAgainAt is from when on what is still in progress counts as a fault, or what has
	// just recovered as well; zero where nothing is awaited.
	LookAgainAt time.Time   `json:"lookAgainAt,omitzero"`
	Facts       []Fact      `json:"facts"`
	Inferences  []Inference `json:"inferences"`

	// Consequences are troubles that follow from the root cause.
	Consequences []Consequence `json:"consequences,omitempty"`
	Scope        Scope         `json:"scope,omitzero"`

	// Changes are what changed before it broke, the newest first.
	Changes     []Change       `json:"changes"`
	BlastRadius map[string]any `json:"blastRadius"`
	Actions     []Action       `json:"actions"`
	NotChecked  []NotChecked   `json:"notChecked"`

	// CheckedShare is the share of facts that are seen or verified, 0 to 1.
	CheckedShare  float64  `json:"checkedShare"`
	Executor      string   `json:"executor"`
	SandboxLayers []string `json:"sandboxLayers"`
	// SandboxMissing are the layers of a strict sandbox that the agent's did not have.
	SandboxMissing []string       `json:"sandboxMissing,omitempty"`
	Permissions    map[string]any `json:"permissions"`
	AuditHead      string         `json:"auditHead,omitempty"`
	Usage          Usage          `json:"usage"`

	// Recalled is an earlier investigation that came to the same result.
	Recalled *Recalled `json:"recalled,omitempty"`
	Runbooks []Runbook `json:"runbooks,omitempty"`
}

// Scope says whom the trouble touches, as far as that was looked at.
type Scope struct {
	// Affected are in trouble now, Suspected depend on something that is.
	Affected  []Object `json:"affected,omitempty"`
	Suspected []Object `json:"suspected,omitempty"`
	// Unaffected were looked at and are well.
	Unaffected []Object `json:"unaffected,omitempty"`
	// ComingUp only start, and nothing speaks against it: they are neither.
	ComingUp []Object `json:"comingUp,omitempty"`
}

// Empty reports whether nothing beside the target was looked at.
func (s Scope) Empty() bool {
	return len(s.Affected)+len(s.Suspected)+len(s.Unaffected)+len(s.ComingUp) == 0
}

// Consequence is a symptom that has its own cause id but follows from the root
// cause.
type Consequence struct {
	Cause     string `json:"cause"`
	Object    Object `json:"object"`
	Statement string `json:"statement"`
	// Because is what it follows from, the next object on the way to the root.
	Because Object `json:"because"`
}

// Recalled is what an earlier incident with the same fingerprint and the same
// diagnosis left behind.
type Recalled struct {
	IncidentID string    `json:"incidentId"`
	At         time.Time `json:"at"`
	Summary    string    `json:"summary"`
	// Cause and Object are the diagnosis that the two have in common, by the facts.
	Cause  string `json:"cause,omitempty"`
	Object Object `json:"object,omitzero"`
	// Notes are what people wrote about it and those before it, the newest first.
	Notes []Note `json:"notes,omitempty"`
	// Holds says whether the earlier diagnosis was found to hold now.
	Holds bool   `json:"holds"`
	Why   string `json:"why,omitempty"`
}

// Runbook is what the people who run the system wrote for such a case.
type Runbook struct {
	Title string `json:"title"`
	// Source is the file's name or the address that it came from.
	Source string `json:"source"`
	Text   string `json:"text,omitempty"`
	// Problem says why the text is missing, "" when it is not.
	Problem string `json:"problem,omitempty"`
}

// Verdict is what the investigation concluded.
type Verdict string

// The verdicts.
const (
	VerdictFault        Verdict = "fault"
	VerdictRecovered    Verdict = "recovered"
	VerdictHealthy      Verdict = "healthy"
	VerdictUndetermined Verdict = "undetermined"
)

// Words say what a report without a root cause comes to.
func (v Verdict) Words() string {
	switch v {
	case VerdictUndetermined:
		return "undetermined: no cause was found"
	case VerdictHealthy:
		return "healthy: nothing needs mending"
	case VerdictRecovered:
		return "recovered: nothing needs mending now"
	}
	return "no cause is named"
}

// Confidence is high, medium or low.
type Confidence string

// The confidences.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// Probability is how often a root cause of this confidence is right; what the
// calibration of reports is measured against. It is 0 for no confidence.
func (c Confidence) Probability() float64 {
	switch c {
	case High:
		return 0.95
	case Medium:
		return 0.75
	case Low:
		return 0.4
	}
	return 0
}

// Object names what an engineer would go and mend.
type Object struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns Kind namespace/name.
func (o Object) String() string {
	switch {
	case o.Name == "":
		return ""
	case o.Namespace == "":
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// RootCause names the cause (a kebab-case id of the published list) and the
// object that carries it.
type RootCause struct {
	Cause      string     `json:"cause"`
	Object     Object     `json:"object"`
	Summary    string     `json:"summary"`
	Confidence Confidence `json:"confidence"`
}

// Hypothesis is one explanation, with the test that would refute it.
type Hypothesis struct {
	ID            string        `json:"id"`
	Cause         string        `json:"cause,omitempty"`
	Object        Object        `json:"object"`
	Statement     string        `json:"statement"`
	Confidence    Confidence    `json:"confidence,omitempty"`
	For           []string      `json:"for"`
	Against       []string      `json:"against"`
	Falsification Falsification `json:"falsification"`
}

// Falsification is a read-only command whose outcome decides a hypothesis.
type Falsification struct {
	Command string `json:"command,omitempty"`
	IfTrue  string `json:"ifTrue,omitempty"`
	IfFalse string `json:"ifFalse,omitempty"`
	// Outcome is holds, ruled-out or not-run.
	Outcome string `json:"outcome"`
	// Evidence is what the command's answer was recorded as, Shown its telling
	// part. Why says how the outcome was decided, or why there is none.
	Evidence string `json:"evidence,omitempty"`
	Shown    string `json:"shown,omitempty"`
	Why      string `json:"why,omitempty"`
}

// Fact is something observed, with its source.
type Fact struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Source   string   `json:"source,omitempty"`
	Quote    string   `json:"quote,omitempty"`
	Evidence []string `json:"evidence"`
	Check    Check    `json:"check"`
}

// Check says how far a fact was checked by us.
type Check string

const (
	// Verified: a builtin rule tested the predicate.
	Verified Check = "verified"
	// Seen: the values it quotes stand in the cited evidence.
	Seen Check = "seen"
	// Unseen: nothing that we recorded shows it.
	Unseen Check = "unseen"
)

// Inference is a conclusion drawn from facts.
type Inference struct {
	ID         string     `json:"id"`
	Text       string     `json:"text"`
	BasedOn    []string   `json:"basedOn"`
	Confidence Confidence `json:"confidence,omitempty"`
	WrongIf    string     `json:"wrongIf,omitempty"`
}

// Change is something that changed before the fault.
type Change struct {
	At          time.Time `json:"at,omitzero"`
	What        string    `json:"what"`
	Who         string    `json:"who,omitempty"`
	Correlation string    `json:"correlation,omitempty"`
	// Object is what changed, Details the differences, a line each.
	Object   Object   `json:"object,omitzero"`
	Details  []string `json:"details,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
}

// Action is a recommended step. Nightcrier itself never takes it.
type Action struct {
	Priority int    `json:"priority"`
	Action   string `json:"action"`
	// Command is one to copy; a person runs it, we never do. "" where none would do.
	Command string `json:"command,omitempty"`
	Outcome string `json:"expectedOutcome,omitempty"`
	Risk    string `json:"risk,omitempty"`
}

// TheCluster is what NotChecked names where nothing of a cluster was looked at, so
// that a report rests on what its event says.
const TheCluster = "the cluster"

// NotChecked is something that could not be looked at.
type NotChecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
}
