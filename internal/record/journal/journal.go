// Package journal gives the entries of a run's journal their typed payloads and
// renders them: as agent.log, as the list of commands that an agent ran, and as
// one line for a person who watches.
package journal

import (
	"encoding/json"

	"nightcrier.dev/nightcrier"
)

// State is a transition of an agent step.
type State struct {
	From nightcrier.State `json:"from,omitempty"`
	To   nightcrier.State `json:"to"`
	// AfterMS is how long the state before it lasted, in milliseconds; 0 when there
	// was none.
	AfterMS int64 `json:"afterMs,omitempty"`
	// Reason says why, for a person.
	Reason       string                  `json:"reason,omitempty"`
	FailureClass nightcrier.FailureClass `json:"failureClass,omitempty"`
	// ExitCode is 128+n for signal n.
	ExitCode *int `json:"exitCode,omitempty"`
	// Layers are the sandbox layers that hold, told once the agent is confined.
	Layers []string `json:"sandboxLayers,omitempty"`
	// Missing are those that a strict sandbox has besides.
	Missing []string `json:"sandboxMissing,omitempty"`
	PID     int      `json:"pid,omitempty"`
	// Command is what was started: its words, never its environment.
	Command []string `json:"command,omitempty"`
}

// Message is something that the agent (or the user side of its dialogue) said.
type Message struct {
	Role      string `json:"role"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}

// ToolCall is a tool that the agent asked for.
type ToolCall struct {
	ID   string `json:"id,omitempty"`
	Tool string `json:"tool"`
	// Command is the shell command, for tools that run one.
	Command string          `json:"command,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// ToolResult is what a tool gave back.
type ToolResult struct {
	ID      string `json:"id,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Command string `json:"command,omitempty"`
	Error   bool   `json:"error,omitempty"`
	Text    string `json:"text,omitempty"`
	// Bytes is the length of the whole text, also when Text was cut.
	Bytes     int  `json:"bytes"`
	Truncated bool `json:"truncated,omitempty"`
}

// Evidence names a recorded answer that a report may cite. Of a read of a cluster
// there are two: one that says what was let through, without an ID, written
// before it was asked, and one with what came of it.
type Evidence struct {
	ID     string `json:"id,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Source string `json:"source"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
	// Request is the read that was answered; nil for all that was not asked of a
	// cluster through its guard.
	Request *Request `json:"request,omitempty"`
}

// Denial is a tool call, or a request to a cluster, that a rule refused: the sign
// that the read-only fence was touched.
type Denial struct {
	ID      string `json:"id,omitempty"`
	Tool    string `json:"tool"`
	Command string `json:"command,omitempty"`
	Message string `json:"message,omitempty"`
	// Request is what the guard of a cluster refused.
	Request *Request `json:"request,omitempty"`
}

// Log is text that means nothing in particular to us: one or more lines of the
// agent's raw output, or a note of the worker.
type Log struct {
	// Stream is stdout, stderr, or worker.
	Stream string `json:"stream"`
	// Level is info or warn; only notes of the worker have one.
	Level     string `json:"level,omitempty"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}

// Error is a failure on the way: a retried call, a broken line.
type Error struct {
	FailureClass nightcrier.FailureClass `json:"failureClass,omitempty"`
	Text         string                  `json:"text"`
	// HTTPStatus and Attempt are set for a failed call of the model.
	HTTPStatus int `json:"httpStatus,omitempty"`
	Attempt    int `json:"attempt,omitempty"`
}

// Item is a payload with its type, before it is numbered and timed.
type Item struct {
	Type nightcrier.EntryType
	Data any
}

// The makers of items, one a type.
func OfState(s State) Item           { return Item{nightcrier.EntryState, s} }
func OfMessage(m Message) Item       { return Item{nightcrier.EntryMessage, m} }
func OfToolCall(c ToolCall) Item     { return Item{nightcrier.EntryToolCall, c} }
func OfToolResult(r ToolResult) Item { return Item{nightcrier.EntryToolResult, r} }
func OfEvidence(e Evidence) Item     { return Item{nightcrier.EntryEvidence, e} }
func OfDenial(d Denial) Item         { return Item{nightcrier.EntryDenial, d} }
func OfUsage(u nightcrier.Usage) Item {
	return Item{nightcrier.EntryUsage, u}
}
func OfLog(l Log) Item     { return Item{nightcrier.EntryLog, l} }
func OfError(e Error) Item { return Item{nightcrier.EntryError, e} }

// JSON encodes the payload.
func (i Item) JSON() (json.RawMessage, error) {
	b, err := json.Marshal(i.Data)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "journal: encode %s payload: %w", i.Type, err)
	}
	return b, nil
}

// Decode reads the payload of an entry as a T.
func Decode[T any](e nightcrier.JournalEntry) (T, error) {
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		return v, nightcrier.Errorf(nightcrier.Invalid, "journal entry %d (%s): %w", e.Seq, e.Type, err)
	}
	return v, nil
}
