package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// fillFlat reads the shapes that name a fault type and a resource.
func (p *payload) fillFlat(ev *nightcrier.Event) error {
	ev.Dialect = Faults
	if p.FaultID == "" {
		ev.Dialect = ResourceFaults
	}
	if p.Resource == nil {
		return nightcrier.Errorf(nightcrier.Invalid, "field resource is missing")
	}
	if err := p.Resource.Check(); err != nil {
		return err
	}
	ev.Resource = *p.Resource
	if err := checkFaultType(p.FaultType); err != nil {
		return err
	}
	known := classifyReason(p.FaultType, "")
	ev.FaultType, ev.Severity = known.faultType, known.severity
	if p.Severity != "" {
		ev.Severity, _ = nightcrier.ParseSeverity(p.Severity)
	}
	if known.benign {
		ev.FaultType, ev.Severity, ev.Reason = p.FaultType, nightcrier.Info, nightcrier.NotAFault
		ev.Detail = p.FaultType + " says that reporting works, or that nothing is wrong"
	}
	if err := p.readContext(ev); err != nil {
		return err
	}
	ev.Logs = append(ev.Logs, cleanLogs(p.Logs)...)
	if ev.Container = containerName(p.Container); ev.Container == "" {
		ev.Container = containerOf(ev.Context, ev.Logs)
	}
	if err := p.readOwner(ev); err != nil {
		return err
	}
	ev.Cleared = p.Condition == string(nightcrier.ConditionCleared)
	ev.OccurredAt = p.Timestamp.Time
	p.setFaultID(ev)
	return nil
}

// readOwner reads the owner, which only senders that see the cluster know.
func (p *payload) readOwner(ev *nightcrier.Event) error {
	if p.Owner == nil {
		return nil
	}
	if err := p.Owner.Check(); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "field owner: %w", err)
	}
	ev.Owner = *p.Owner
	return nil
}

// readContext reads the context, which is prose, or log excerpts as a JSON
// array that some builds put into a string.
func (p *payload) readContext(ev *nightcrier.Event) error {
	raw := bytes.TrimSpace(p.Context)
	if !isPresent(raw) {
		return nil
	}
	var prose string
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &prose); err != nil {
			return invalidJSON("field context", err)
		}
		raw = []byte(prose)
	}
	var logs []logExcerpt
	if len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &logs) == nil {
		ev.Logs = cleanLogs(logs)
		return nil
	}
	if prose == "" && len(raw) > 0 {
		return nightcrier.Errorf(nightcrier.Invalid, "field context is neither a string nor a list of log excerpts")
	}
	ev.Context = text.CutWords(text.MarkHidden(prose), maxContext)
	return nil
}

// setFaultID keeps the sender's id, or computes one in the same way.
func (p *payload) setFaultID(ev *nightcrier.Event) {
	if ev.FaultID = tokenOrEmpty(p.FaultID); ev.FaultID == "" {
		ev.FaultID = FaultID(ev.Cluster, ev.FaultType, ev.Resource, ev.Container)
	}
}

// FaultID identifies a fault as the servers that send one do: the first eight
// bytes, in hex, of the SHA-256 of cluster, fault type, the resource's UID and
// the container. Where the UID is unknown the resource's kind and name stand in.
func FaultID(cluster, faultType string, res nightcrier.Resource, container string) string {
	uid := res.UID
	if uid == "" {
		uid = res.String()
	}
	sum := sha256.Sum256([]byte(cluster + ":" + faultType + ":" + uid + ":" + container))
	return hex.EncodeToString(sum[:8])
}

func checkFaultType(s string) error {
	switch {
	case s == "":
		return nightcrier.Errorf(nightcrier.Invalid, "field faultType is missing")
	case tokenOrEmpty(s) == "":
		return nightcrier.Errorf(nightcrier.Invalid, "field faultType %q is not a word of letters, digits and ._/- of at most %d bytes", text.CutLine(text.MarkHidden(s), 64), maxToken)
	}
	return nil
}
