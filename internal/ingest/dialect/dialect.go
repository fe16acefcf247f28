// Package dialect reads the fault notifications of Kubernetes MCP servers.
//
// Servers of different ages send different shapes under the same names, so a
// payload is told apart by what it holds, never by the mode that was asked for.
// Everything here is outside input: names are checked against what Kubernetes
// allows, texts are freed of control characters, sizes are bounded.
package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Limit is the size in bytes above which a payload is not parsed.
const Limit = 1 << 20

// The dialects, as they stand in Event.Dialect.
const (
	// Faults is the flat shape with the sender's faultId. Ours may also name the
	// owner, the container and the condition: "cleared" says that it is over.
	Faults = "faults"
	// ResourceFaults is the flat shape without a faultId.
	ResourceFaults = "resource-faults"
	// LegacyFaults is a Kubernetes event with log excerpts beside it.
	LegacyFaults = "legacy-faults"
	// Events is a Kubernetes event alone.
	Events = "events"
	// SubscriptionError is the sender saying that its watch is broken.
	SubscriptionError = "subscription_error"
)

// payload is the union of all shapes of the data object. Pointers and raw
// messages tell what is there from what is empty.
type payload struct {
	SubscriptionID string               `json:"subscriptionId"`
	Cluster        string               `json:"cluster"`
	FaultID        string               `json:"faultId"`
	FaultType      string               `json:"faultType"`
	Severity       string               `json:"severity"`
	Resource       *nightcrier.Resource `json:"resource"`
	Owner          *nightcrier.Resource `json:"owner"`
	Container      string               `json:"container"`
	Condition      string               `json:"condition"`
	Context        json.RawMessage      `json:"context"`
	Timestamp      lenientTime          `json:"timestamp"`
	Event          *k8sEvent            `json:"event"`
	Logs           []logExcerpt         `json:"logs"`
	Error          string               `json:"error"`
	Degraded       bool                 `json:"degraded"`
	Oversized      *oversized           `json:"nightcrierOversized"`
}

// envelope is what may surround the data object: nothing, a notification's
// params, or the whole JSON-RPC notification.
type envelope struct {
	Params json.RawMessage `json:"params"`
	Data   json.RawMessage `json:"data"`
	Logger string          `json:"logger"`
}

// Parse reads one payload: a notification's params, a whole JSON-RPC
// notification, or the bare data object.
//
// The error is Exhausted for a payload over Limit and Invalid for one that is
// malformed or of no known shape; it names the field. The event then holds what
// could be read, and its Raw is always valid JSON. A nil error with a Reason
// (NotAFault, SubscriptionErr) is a well-formed payload that opens nothing.
func Parse(raw []byte) (nightcrier.Event, error) {
	if len(raw) > Limit {
		return oversizedEvent(raw, int64(len(raw)))
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	data, logger, err := unwrapPayload(raw)
	if err != nil {
		return malformedEvent(raw), err
	}
	var p payload
	if err := json.Unmarshal(data, &p); err != nil {
		return malformedEvent(raw), invalidJSON("data", err)
	}
	if p.Oversized != nil {
		return oversizedEvent([]byte(p.Oversized.Head), p.Oversized.Bytes)
	}
	ev := nightcrier.Event{
		SubscriptionID: tokenOrEmpty(p.SubscriptionID),
		Cluster:        text.CutLine(text.MarkHidden(p.Cluster), maxLine),
		Raw:            raw,
	}
	return ev, p.fillEvent(&ev, logger)
}

// fillEvent detects the shape and reads it into ev.
func (p *payload) fillEvent(ev *nightcrier.Event, logger string) error {
	switch {
	case p.Event != nil:
		return p.fillNested(ev, logger)
	case p.Resource != nil || p.FaultType != "":
		return p.fillFlat(ev)
	case p.Error != "":
		p.fillError(ev)
		return nil
	}
	return nightcrier.Errorf(nightcrier.Invalid,
		"the payload is of no known shape: data has none of faultType, resource, event and error")
}

func (p *payload) fillError(ev *nightcrier.Event) {
	ev.Dialect = SubscriptionError
	ev.FaultType = "SubscriptionError"
	ev.Severity = nightcrier.Warning
	ev.Reason = nightcrier.SubscriptionErr
	ev.Context = text.CutWords(text.MarkHidden(p.Error), maxContext)
	ev.Detail = "the sender's watch reported an error"
	if p.Degraded {
		ev.Detail = "the sender's watch is degraded: it will send nothing more"
	}
	ev.OccurredAt = p.Timestamp.Time
}

// unwrapPayload returns the data object of a payload and the logger that came with it.
func unwrapPayload(raw []byte) (data json.RawMessage, logger string, err error) {
	data = raw
	for range 2 {
		var e envelope
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, "", invalidJSON("payload", err)
		}
		switch {
		case isPresent(e.Params):
			data = e.Params
			continue
		case isPresent(e.Data):
			data, logger = e.Data, e.Logger
		}
		break
	}
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, "", nightcrier.Errorf(nightcrier.Invalid, "field data is not a JSON object")
	}
	return data, logger, nil
}

func isPresent(m json.RawMessage) bool { return len(m) > 0 && !bytes.Equal(m, []byte("null")) }

func invalidJSON(what string, err error) error {
	var typeErr *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &typeErr):
	case typeErr.Field == "":
		return nightcrier.Errorf(nightcrier.Invalid, "%s is a JSON %s; it must be an object", what, typeErr.Value)
	default:
		return nightcrier.Errorf(nightcrier.Invalid, "field %s is a JSON %s, which it must not be", text.CutLine(text.MarkHidden(typeErr.Field), maxLine), typeErr.Value)
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%s is not readable JSON: %w", what, err)
}

// malformedEvent keeps what came, quoted, because Raw must be JSON.
func malformedEvent(raw []byte) nightcrier.Event {
	if json.Valid(raw) {
		return nightcrier.Event{Raw: raw}
	}
	quoted, err := json.Marshal(string(cutHead(raw)))
	if err != nil { // a string always marshals
		return nightcrier.Event{}
	}
	return nightcrier.Event{Raw: quoted}
}
