package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"nightcrier.dev/nightcrier"
)

// A mask removes secrets from a text before it is shown or written; nil means
// that nothing needs removing.
type mask = func(string) string

const stamp = "2006-01-02T15:04:05.000Z"

// AgentLog renders an entry as the lines of agent.log, each ending in a newline.
func AgentLog(e nightcrier.JournalEntry, m mask) []byte {
	label, text := describe(e)
	head := e.Time.UTC().Format(stamp) + " " + label + " "
	var b bytes.Buffer
	for line := range strings.Lines(apply(m, text)) {
		b.WriteString(head)
		b.WriteString(printable(strings.TrimRight(line, "\r\n")))
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
			return at + " " + oneLine(apply(m, callText(c))) + "\n"
		}
	case nightcrier.EntryDenial:
		if d, err := Decode[Denial](e); err == nil {
			return at + " DENIED " + oneLine(apply(m, denialText(d))) + "\n"
		}
	}
	return ""
}

// tailWidth bounds a line for a person, in runes.
const tailWidth = 200

// Tail renders an entry as one short line without a newline, for a person who
// watches; "" for entries not worth a line.
func Tail(e nightcrier.JournalEntry, m mask) string {
	label, text := describe(e)
	line := oneLine(apply(m, text))
	if line == "" {
		return ""
	}
	if r := []rune(line); len(r) > tailWidth {
		line = string(r[:tailWidth]) + "…"
	}
	return fmt.Sprintf("%s %-8s %s", e.Time.UTC().Format(time.TimeOnly), label, line)
}

// describe returns a short label and the text of an entry. Payloads that do not
// decode are shown as they are: a log must not hide what it cannot read.
func describe(e nightcrier.JournalEntry) (label, text string) {
	switch e.Type {
	case nightcrier.EntryState:
		return render(e, "state", stateText)
	case nightcrier.EntryMessage:
		return render(e, "agent", func(m Message) string { return m.Text })
	case nightcrier.EntryToolCall:
		return render(e, "tool", callText)
	case nightcrier.EntryToolResult:
		return render(e, "result", resultText)
	case nightcrier.EntryEvidence:
		return render(e, "evidence", evidenceText)
	case nightcrier.EntryDenial:
		return render(e, "DENIED", denialText)
	case nightcrier.EntryUsage:
		return render(e, "usage", usageText)
	case nightcrier.EntryLog:
		return render(e, "log", func(l Log) string { return l.Text })
	case nightcrier.EntryError:
		return render(e, "error", errorText)
	}
	return string(e.Type), string(e.Data)
}

func render[T any](e nightcrier.JournalEntry, label string, text func(T) string) (string, string) {
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
		text += " (sandbox: " + strings.Join(s.Layers, ", ") + ")"
	}
	return text
}

func callText(c ToolCall) string {
	if c.Command != "" {
		return c.Tool + ": " + c.Command
	}
	return c.Tool + " " + compact(c.Input)
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
	return fmt.Sprintf("%d requests, %d tokens in, %d out, $%.4f", u.APIRequests, u.InputTokens, u.OutputTokens, u.CostUSD)
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

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func apply(m mask, s string) string {
	if m == nil {
		return s
	}
	return m(s)
}

// oneLine folds a text to one line without control characters.
func oneLine(s string) string { return printable(strings.Join(strings.Fields(s), " ")) }

// printable replaces control characters, so that an agent's output cannot move
// the cursor of the terminal that shows it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
