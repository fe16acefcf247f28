package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// A mask removes secrets from a text before it is shown or written; nil means
// that nothing needs removing.
type mask = func(string) string

const stamp = "2006-01-02T15:04:05.000Z"

// AgentLog renders an entry as the lines of agent.log, each ending in a newline.
func AgentLog(e nightcrier.JournalEntry, m mask) []byte {
	label, said := describeEntry(e)
	head := e.Time.UTC().Format(stamp) + " " + label + " "
	var b bytes.Buffer
	for line := range strings.Lines(text.MaskClean(said, m, text.MarkHidden)) {
		b.WriteString(head)
		b.WriteString(strings.TrimSuffix(line, "\n"))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Command renders a tool call, or a refusal of one, as the line of
// agent-commands-executed.log; "" for every other entry.
func Command(e nightcrier.JournalEntry, m mask) string {
	at := e.Time.UTC().Format(stamp)
	switch e.Type {
	case nightcrier.EntryToolCall:
		if c, err := Decode[ToolCall](e); err == nil {
			return at + " " + text.MaskClean(callText(c), m, markLine) + "\n"
		}
	case nightcrier.EntryDenial:
		if d, err := Decode[Denial](e); err == nil {
			return at + " DENIED " + text.MaskClean(denialText(d), m, markLine) + "\n"
		}
	}
	return ""
}

// tailWidth bounds a line for a person, in runes.
const tailWidth = 200

// Line is an entry as one line, for a person who watches.
type Line struct{ At, Label, Text string }

// String returns the line without a newline, "" for the zero Line.
func (l Line) String() string {
	if l.Text == "" {
		return ""
	}
	return fmt.Sprintf("%s %-8s %s", l.At, l.Label, l.Text)
}

// Tail renders an entry as one short line; the zero Line for entries not worth one.
func Tail(e nightcrier.JournalEntry, m mask) Line {
	label, said := inShort(e)
	said = text.CutRunes(text.MaskClean(said, m, text.FoldLine), tailWidth)
	if said == "" {
		return Line{}
	}
	return Line{e.Time.UTC().Format(time.TimeOnly), label, said}
}

// inShort is describeEntry for one line: of what is long, what it is.
func inShort(e nightcrier.JournalEntry) (label, text string) {
	switch e.Type {
	case nightcrier.EntryState:
		return renderEntry(e, "state", func(s State) string {
			if n := len(s.Layers); n > 0 {
				s.Layers = []string{fmt.Sprintf("%d layers", n)}
			}
			return stateText(s)
		})
	case nightcrier.EntryToolCall:
		return renderEntry(e, "tool", func(c ToolCall) string {
			if c.Command != "" {
				return callText(c)
			}
			return c.Tool + " " + formatArguments(c.Input)
		})
	case nightcrier.EntryToolResult:
		return renderEntry(e, "result", shortResult)
	}
	return describeEntry(e)
}

// longValue is how long an argument may be, in runes, to be shown in a line.
const longValue = 80

// formatArguments shows a call's input as name=value, in order of their names; of a long
// value only how long it is. What is no object is shown as it is.
func formatArguments(raw json.RawMessage) string {
	var in map[string]any
	if json.Unmarshal(raw, &in) != nil {
		return compactJSON(raw)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(in)) {
		value, ok := in[name].(string)
		if !ok {
			value = fmt.Sprint(in[name])
		}
		if n := utf8.RuneCountInString(value); n > longValue || strings.Contains(value, "\n") {
			value = fmt.Sprintf("(%d characters)", n)
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, " ")
}

// shortResult is the first line of a result that says something, and how much more
// there is.
func shortResult(r ToolResult) string {
	first, rest, more := strings.Cut(strings.TrimSpace(r.Text), "\n")
	if r.Error {
		first = "error: " + first
	}
	if !more && !r.Truncated {
		return first
	}
	first = text.CutRunes(first, tailWidth-longValue)
	if r.Truncated {
		return fmt.Sprintf("%s (%d bytes in all)", first, r.Bytes)
	}
	return fmt.Sprintf("%s (and %d lines more)", first, strings.Count(rest, "\n")+1)
}

// describeEntry returns a short label and the text of an entry. Payloads that do not
// decode are shown as they are: a log must not hide what it cannot read.
func describeEntry(e nightcrier.JournalEntry) (label, text string) {
	switch e.Type {
	case nightcrier.EntryState:
		return renderEntry(e, "state", stateText)
	case nightcrier.EntryMessage:
		return renderEntry(e, "agent", func(m Message) string { return m.Text })
	case nightcrier.EntryToolCall:
		return renderEntry(e, "tool", callText)
	case nightcrier.EntryToolResult:
		return renderEntry(e, "result", resultText)
	case nightcrier.EntryEvidence:
		return renderEntry(e, "evidence", evidenceText)
	case nightcrier.EntryDenial:
		return renderEntry(e, "DENIED", denialText)
	case nightcrier.EntryUsage:
		return renderEntry(e, "usage", usageText)
	case nightcrier.EntryLog:
		return logLabel(e)
	case nightcrier.EntryError:
		return renderEntry(e, "error", errorText)
	case nightcrier.EntryApproval:
		return renderEntry(e, "approval", approvalText)
	case nightcrier.EntryPhase:
		return renderEntry(e, "gate", func(p Phase) string { return strconv.Itoa(p.Number) + ": " + p.Gate })
	}
	return string(e.Type), string(e.Data)
}

// logLabel says who wrote a line: what an agent prints must not pass for our word.
func logLabel(e nightcrier.JournalEntry) (label, text string) {
	l, err := Decode[Log](e)
	switch {
	case err != nil:
		return "log", string(e.Data)
	case l.Stream == "run" || l.Stream == "worker" || l.Stream == "stdout" || l.Stream == "stderr":
		return l.Stream, l.Text
	}
	return "log", l.Text
}

func renderEntry[T any](e nightcrier.JournalEntry, label string, text func(T) string) (string, string) {
	v, err := Decode[T](e)
	if err != nil {
		return label, string(e.Data)
	}
	return label, text(v)
}

func stateText(s State) string {
	text := string(s.To)
	if s.From != "" {
		text = string(s.From) + " -> " + text
	}
	if s.AfterMS > 0 {
		text += " after " + formatMilliseconds(s.AfterMS)
	}
	if s.FailureClass != "" {
		text += " [" + string(s.FailureClass) + "]"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	if s.ExitCode != nil {
		text += fmt.Sprintf(" (exit code %d)", *s.ExitCode)
	}
	if len(s.Layers) > 0 {
		text += " (sandbox: " + strings.Join(s.Layers, ", ")
		if len(s.Missing) > 0 {
			text += "; without " + strings.Join(s.Missing, ", ")
		}
		text += ")"
	}
	return text
}

func callText(c ToolCall) string {
	if c.Command != "" {
		return c.Tool + ": " + c.Command
	}
	return c.Tool + " " + compactJSON(c.Input)
}

func denialText(d Denial) string {
	text := d.Tool
	if d.Command != "" {
		text += ": " + d.Command
	}
	if d.Message != "" {
		text += " (" + d.Message + ")"
	}
	return text
}

func resultText(r ToolResult) string {
	text := r.Text
	if r.Truncated {
		text += fmt.Sprintf("\n[cut; %d bytes in all]", r.Bytes)
	}
	if r.Error {
		return "error: " + text
	}
	return text
}

func usageText(u nightcrier.Usage) string {
	text := fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
	if u.APIRequests > 0 {
		text = fmt.Sprintf("%d requests, ", u.APIRequests) + text
	}
	if u.CostUSD > 0 { // else it is not known, or nothing
		text += fmt.Sprintf(", $%.4f", u.CostUSD)
	}
	if u.DurationMS > 0 {
		text += ", " + formatMilliseconds(u.DurationMS)
	}
	return text
}

// formatMilliseconds writes a time in milliseconds, as a person says it.
func formatMilliseconds(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > time.Minute {
		d = d.Round(time.Second)
	} else {
		d = d.Round(100 * time.Millisecond)
	}
	return max(d, 100*time.Millisecond).String()
}

func errorText(e Error) string {
	text := e.Text
	if e.HTTPStatus != 0 {
		text = fmt.Sprintf("HTTP %d: %s", e.HTTPStatus, text)
	}
	if e.FailureClass != "" {
		text = "[" + string(e.FailureClass) + "] " + text
	}
	return text
}

func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// markLine is a text on one line, with marks where something is hidden.
func markLine(s string) string { return text.FoldLine(text.MarkHidden(s)) }
