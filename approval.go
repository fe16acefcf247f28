package nightcrier

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ApprovalKind says what people are asked about.
type ApprovalKind string

// The kinds: a step of a pipeline that does nothing but ask, and one call of a tool.
const (
	ApproveStep ApprovalKind = "step"
	ApproveCall ApprovalKind = "tool_call"
)

// ApprovalStatus is where the question stands. Only what is pending can be decided.
type ApprovalStatus string

// The statuses. Withdrawn is one whose run has ended before anybody decided.
const (
	ApprovalPending   ApprovalStatus = "pending"
	ApprovalGranted   ApprovalStatus = "approved"
	ApprovalRefused   ApprovalStatus = "refused"
	ApprovalExpired   ApprovalStatus = "expired"
	ApprovalWithdrawn ApprovalStatus = "withdrawn"
)

// ApprovalUse is what became of a call that was approved.
type ApprovalUse string

// The uses: it may have been made from now on, it was, it was and failed, it was not, or nobody
// knows. What is unknown is not made again.
const (
	UseBegun   ApprovalUse = "begun"
	UseDone    ApprovalUse = "done"
	UseFailed  ApprovalUse = "failed"
	UseNot     ApprovalUse = "not_made"
	UseUnknown ApprovalUse = "unknown"
)

// Approval is a question that a run waits for people to answer. What it asks comes from outside.
type Approval struct {
	ID       string       `json:"approvalId"`
	RunID    string       `json:"runId"`
	Pipeline string       `json:"pipeline"`
	Step     string       `json:"step"`
	Kind     ApprovalKind `json:"kind"`
	// Prompt is what is asked, in words.
	Prompt string `json:"prompt"`
	// Server and Tool are those of a call.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// Arguments are those that were asked for, and Edited those that an approver wants in their
	// place, nil where nobody does; both canonical.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Edited    json.RawMessage `json:"edited,omitempty"`
	// Digest is of all that is decided about, with the arguments that count.
	Digest string `json:"digest"`
	// RequestedBy is who started the run.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Approvers may decide; Needed of them have to agree.
	Approvers []string  `json:"approvers"`
	Needed    int       `json:"needed"`
	AskedAt   time.Time `json:"askedAt"`
	// ExpiresAt is until when it can be decided, zero for ever.
	ExpiresAt time.Time      `json:"expiresAt,omitzero"`
	Status    ApprovalStatus `json:"status"`
	DecidedAt time.Time      `json:"decidedAt,omitzero"`
	Decisions []Decision     `json:"decisions,omitempty"`
	Use       ApprovalUse    `json:"use,omitempty"`
}

// Decision is what one person decided.
type Decision struct {
	By      string    `json:"by"`
	Approve bool      `json:"approve"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	// Digest is of what was decided about; that of the edited call where it edits.
	Digest string `json:"digest"`
	// Arguments are what the decision wants in the place of those asked for, nil for no change.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// CanonicalArguments writes the arguments of a call, an object, in the one way in which they are
// compared: its keys sorted, without spaces, its numbers as they were written.
func CanonicalArguments(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil || object == nil || dec.More() {
		return nil, Errorf(Invalid, "the arguments are no JSON object")
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return nil, Errorf(Invalid, "the arguments: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// CallArguments are the arguments that count.
func (a *Approval) CallArguments() json.RawMessage {
	if a.Edited != nil {
		return a.Edited
	}
	return a.Arguments
}

// ComputeDigest is the digest of what is decided about: this very question of this run, with the
// arguments that count.
func (a *Approval) ComputeDigest() string {
	h := sha256.New()
	for _, part := range []string{a.ID, a.RunID, a.Step, string(a.Kind), a.Prompt, a.Server, a.Tool, string(a.CallArguments())} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Decide takes a decision. One that was taken already changes nothing. Whoever edits approves what
// comes of it; who agreed to something else before is asked again.
func (a *Approval) Decide(d Decision) error {
	at := func(other Decision) bool {
		return other.By == d.By && other.Approve == d.Approve && other.Digest == a.Digest && (d.Arguments == nil || bytes.Equal(other.Arguments, d.Arguments))
	}
	switch {
	case slices.ContainsFunc(a.Decisions, at):
		return nil
	case a.Status != ApprovalPending:
		return Errorf(Conflict, "approval %s is %s already", a.ID, a.Status)
	case !a.ExpiresAt.IsZero() && !d.At.Before(a.ExpiresAt):
		return Errorf(Conflict, "approval %s has expired at %s", a.ID, a.ExpiresAt.UTC().Format(time.RFC3339))
	case !slices.Contains(a.Approvers, d.By):
		return Errorf(Refused, "%s may not decide this; who may: %s", d.By, strings.Join(a.Approvers, ", "))
	case d.By == a.RequestedBy:
		return Errorf(Refused, "%s started the run, and somebody else has to decide: %s", d.By, strings.Join(a.Entitled(), ", "))
	case d.Digest != a.Digest:
		return Errorf(Conflict, "the digest %.12q is not that of what is asked now, %.12s: look at it again, and decide about that", d.Digest, a.Digest)
	case !d.Approve && strings.TrimSpace(d.Reason) == "":
		return Errorf(Invalid, "reason: a refusal needs one, as who asked goes on with it")
	case d.Arguments != nil && (a.Kind != ApproveCall || !d.Approve):
		return Errorf(Invalid, "arguments: only an approval of a call can change them")
	}
	if d.Arguments != nil {
		edited, err := CanonicalArguments(d.Arguments)
		if err != nil {
			return err
		}
		if a.Edited, d.Arguments = edited, edited; bytes.Equal(edited, a.Arguments) {
			a.Edited, d.Arguments = nil, nil
		}
		a.Digest = a.ComputeDigest()
		d.Digest = a.Digest
	}
	a.Decisions = append(a.Decisions, d)
	switch {
	case !d.Approve:
		a.Status, a.DecidedAt = ApprovalRefused, d.At
	case a.CountAgreed() >= a.Needed:
		a.Status, a.DecidedAt = ApprovalGranted, d.At
	}
	return nil
}

// Entitled are those who may decide: no one about what he asked for himself.
func (a *Approval) Entitled() []string {
	return slices.DeleteFunc(slices.Clone(a.Approvers), func(name string) bool { return name == a.RequestedBy })
}

// CountAgreed is how many people agreed to what is asked now.
func (a *Approval) CountAgreed() int {
	var agreed []string
	for _, d := range a.Decisions {
		if d.Approve && d.Digest == a.Digest && !slices.Contains(agreed, d.By) {
			agreed = append(agreed, d.By)
		}
	}
	return len(agreed)
}

// Deciders are who brought the decision about, and Why what the last of them said.
func (a *Approval) Deciders() (by []string, why string) {
	for _, d := range a.Decisions {
		if d.Approve == (a.Status == ApprovalGranted) && d.Digest == a.Digest {
			by, why = append(by, d.By), d.Reason
		}
	}
	return by, why
}

// Outcome is what the answer is, in words for who asked.
func (a *Approval) Outcome() string {
	by, why := a.Deciders()
	said := strings.Join(by, " and ")
	if why != "" {
		why = ": " + why
	}
	switch a.Status {
	case ApprovalGranted:
		return "approved by " + said + why
	case ApprovalRefused:
		return "refused by " + said + why
	case ApprovalExpired:
		return "nobody decided until " + a.ExpiresAt.UTC().Format(time.RFC3339)
	case ApprovalWithdrawn:
		return "not decided before the run ended"
	}
	return "waits for a decision"
}
