package agent

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// gooseParser reads goose's JSON lines. What the model says comes in pieces, which
// are put together. What the CLI says itself, it says in the assistant's name, and
// exits with 0 after it: the run succeeded if the model had the last word.
type gooseParser struct {
	verdict Verdict
	before  nightcrier.Usage
	calls   openCalls

	id   string // of the message that text is of
	text strings.Builder
	said strings.Builder // what of text is not journaled yet

	named     bool // a message named the model that said it
	completed bool
}

func newGooseParser() *gooseParser {
	return &gooseParser{verdict: Verdict{Unstarted: true}, calls: openCalls{}}
}

// Resumed implements Resumed: the CLI tells what the whole session has used.
func (p *gooseParser) Resumed(before nightcrier.Usage) { p.before = before }

// Abort implements Parser: after an error that does not pass the CLI ends at once.
func (p *gooseParser) Abort() bool { return false }

// Verdict implements Parser.
func (p *gooseParser) Verdict() Verdict {
	v := p.verdict.heldToLastWord()
	if p.completed && !v.Failed && v.Usage.OutputTokens == 0 {
		v.Failed, v.Class, v.Terminal = true, nightcrier.FailAgent, "incomplete"
		v.Reason = "the model's answer broke off: its end, which counts the tokens, did not come"
	}
	if text := strings.TrimSpace(p.text.String()); text != "" {
		v.FinalMessage = text
	}
	return v
}

// End implements Ender.
func (p *gooseParser) End() []journal.Item { return p.flushText() }

// gooseLine is the union of the lines that matter.
type gooseLine struct {
	Type    string `json:"type"`
	Message struct {
		ID       string            `json:"id"`
		Role     string            `json:"role"`
		Content  []json.RawMessage `json:"content"`
		Metadata struct {
			Inference json.RawMessage `json:"inference"`
		} `json:"metadata"`
	} `json:"message"`
	Error string `json:"error"` // of an error

	// of complete
	Input   int64   `json:"input_tokens"`
	Output  int64   `json:"output_tokens"`
	CostUSD float64 `json:"cost_usd"`
}

// goosePart is one piece of a message's content.
type goosePart struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Text    string `json:"text"`
	Kind    string `json:"kind"`    // of an error
	Message string `json:"message"` // of an error
	Notice  string `json:"notificationType"`
	Msg     string `json:"msg"` // of a notification
	// A call and its result: the value, or the error that it became.
	ToolCall   gooseOutcome `json:"toolCall"`
	ToolResult gooseOutcome `json:"toolResult"`
}

type gooseOutcome struct {
	Status string          `json:"status"`
	Value  json.RawMessage `json:"value"`
	Error  string          `json:"error"`
}

// Stdout reads one line.
func (p *gooseParser) Stdout(line []byte, cut bool) []journal.Item {
	if isBlank(line) {
		return nil
	}
	if cut {
		return []journal.Item{newUnreadItem(line)}
	}
	var items []journal.Item
	if plain, event := splitGluedLine(line); len(plain) > 0 {
		items = append(p.flushText(), PlainLine("stdout", plain, false))
		line = event
	}
	var l gooseLine
	// A field of a type that we do not expect leaves the others readable.
	_ = json.Unmarshal(line, &l)
	switch l.Type {
	case "message":
		p.verdict.Unstarted, p.verdict.SessionID = false, gooseSession
		return append(items, p.parseMessage(l)...)
	case "error":
		p.verdict.Unstarted = false
		return append(items, p.parseFailed("error", l.Error)...)
	case "complete":
		return append(items, p.parseComplete(l)...)
	case "":
		if len(line) > 0 {
			items = append(append(items, p.flushText()...), PlainLine("stdout", line, false))
		}
	}
	return items
}

// splitGluedLine splits a line that begins as plain text and ends with an error event,
// which is how an interrupt looks. A line of JSON is all event.
func splitGluedLine(line []byte) (plain, event []byte) {
	i := bytes.LastIndex(line, []byte(`{"type":"error",`))
	if line[0] == '{' || i <= 0 {
		return nil, line
	}
	return line[:i], line[i:]
}

func (p *gooseParser) parseMessage(l gooseLine) []journal.Item {
	p.named = p.named || len(l.Message.Metadata.Inference) > 0
	var items []journal.Item
	for _, raw := range l.Message.Content {
		var part goosePart
		_ = json.Unmarshal(raw, &part) // what is readable of it counts
		switch part.Type {
		case "text":
			items = append(items, p.addText(l, part.Text)...)
		case "toolRequest":
			items = append(append(items, p.flushText()...), p.parseCall(part)...)
		case "toolResponse":
			items = append(append(items, p.flushText()...), p.parseResult(part)...)
		case "error":
			items = append(items, p.ownFailure(part.Kind+" "+part.Message, part.Message)...)
		case "systemNotification":
			items = append(items, p.parseNotice(part)...)
		}
	}
	return items
}

// addText takes a piece of text: the model's, or a word of the CLI's own.
func (p *gooseParser) addText(l gooseLine, piece string) []journal.Item {
	if l.Message.Role == "assistant" && p.isOwn(l, piece) {
		return p.ownFailure(piece, piece)
	}
	var items []journal.Item
	if l.Message.ID != p.id || p.text.Len() == 0 {
		items = p.flushText()
		p.id = l.Message.ID
		p.text.Reset()
	}
	if l.Message.Role != "assistant" {
		return append(items, NewMessageItem(l.Message.Role, piece))
	}
	p.verdict.Failed, p.verdict.Class, p.verdict.Reason, p.verdict.Terminal = false, "", "", ""
	kept := text.KeepBytes(piece, maxFinal-p.text.Len())
	p.text.WriteString(kept)
	p.said.WriteString(kept)
	if p.said.Len() >= maxText {
		items = append(items, p.drainSaid()...)
	}
	return items
}

// flushText ends the message whose pieces are collected. What comes after it, of the
// same id or not, is another.
func (p *gooseParser) flushText() []journal.Item {
	items := p.drainSaid()
	if text := strings.TrimSpace(p.text.String()); text != "" {
		p.verdict.FinalMessage = text
	}
	p.text.Reset()
	return items
}

// drainSaid returns the entries of what was collected since the last.
func (p *gooseParser) drainSaid() (items []journal.Item) {
	for rest := p.said.String(); rest != ""; {
		piece := text.KeepBytes(rest, maxText)
		items = append(items, journal.OfMessage(journal.Message{Role: "assistant", Text: piece}))
		rest = rest[len(piece):]
	}
	p.said.Reset()
	return items
}

// gooseWords begin what the CLI says in the assistant's name.
var gooseWords = []string{gooseError, "Network error: ", gooseOutOfTurns}

const (
	gooseError      = "Ran into this error: "
	gooseOutOfTurns = "I've reached the maximum number of actions"
)

// isOwn tells the CLI's own words from the model's, which name the model that said
// them. Where no message does, their beginning has to tell.
func (p *gooseParser) isOwn(l gooseLine, text string) bool {
	begins := func(word string) bool { return strings.HasPrefix(text, word) }
	return len(l.Message.Metadata.Inference) == 0 && (p.named || slices.ContainsFunc(gooseWords, begins))
}

func (p *gooseParser) parseNotice(part goosePart) []journal.Item {
	switch part.Notice {
	case "creditsExhausted":
		return p.ownFailure("credits "+part.Msg, part.Msg)
	case "inlineMessage":
		if strings.HasPrefix(part.Msg, "Unable to continue") {
			return p.ownFailure(part.Msg, part.Msg)
		}
	}
	return append(p.flushText(), PlainLine("stdout", []byte(part.Msg), false))
}

// ownFailure is a word of the CLI's own. It is a failure if it is the last.
func (p *gooseParser) ownFailure(hint, text string) []journal.Item {
	terminal := "error"
	if strings.HasPrefix(text, gooseOutOfTurns) {
		terminal, text = "max_turns", "goose reached its limit of turns (agent.max_turns)"
	}
	return p.recordFailure(terminal, gooseClass(hint), text)
}

// parseFailed reads the error event, the last line before a failing exit. It repeats what a
// message said, whose class was told better.
func (p *gooseParser) parseFailed(terminal, text string) []journal.Item {
	if p.verdict.Failed {
		p.verdict.Terminal = terminal
		return nil
	}
	return p.recordFailure(terminal, gooseClass(text), text)
}

func (p *gooseParser) recordFailure(terminal string, class nightcrier.FailureClass, text string) []journal.Item {
	v := &p.verdict
	v.Failed, v.Class, v.Terminal = true, class, terminal
	v.Reason = cutReason(gooseReason(text))
	return append(p.flushText(), journal.OfError(journal.Error{FailureClass: class, Text: v.Reason}))
}

// gooseReason leaves out what is said to somebody who sits before a terminal.
func gooseReason(text string) string {
	text = strings.TrimPrefix(text, gooseError)
	text, _, _ = strings.Cut(text, "\n\nPlease retry if")
	text, _, _ = strings.Cut(text, "\n\nPlease resend")
	return text
}

// gooseClass is the table from what the CLI says of a failure to its class; it has
// no other word for it.
func gooseClass(text string) nightcrier.FailureClass {
	text = strings.ToLower(strings.TrimPrefix(text, gooseError))
	switch {
	case strings.HasPrefix(text, "authentication"):
		return nightcrier.FailAuth
	case strings.HasPrefix(text, "rate limit"), strings.HasPrefix(text, "credits"):
		return nightcrier.FailQuota
	}
	return nightcrier.FailAgent
}

// gooseUnknown is how a call reads of a tool that is not offered.
var gooseUnknown = regexp.MustCompile(`Tool '([^']{1,200})' was not advertised`)

func (p *gooseParser) parseCall(part goosePart) []journal.Item {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(part.ToolCall.Value, &call) // nothing of a call that failed
	if m := gooseUnknown.FindStringSubmatch(part.ToolCall.Error); m != nil {
		call.Name = m[1]
	}
	c := NewToolCall(part.ID, call.Name, call.Arguments)
	p.calls.addCall(c)
	items := []journal.Item{journal.OfToolCall(c)}
	if part.ToolCall.Status == "error" && gooseUnknown.MatchString(part.ToolCall.Error) {
		items = append(items, NewDenialItem(c, part.ToolCall.Error))
	}
	return items
}

// gooseDeclined begins the result of a tool that its permissions do not allow.
const gooseDeclined = "The user has declined to run this tool."

func (p *gooseParser) parseResult(part goosePart) []journal.Item {
	text, failed := gooseResult(part.ToolResult)
	call := p.calls.closeCall(part.ID)
	if !strings.HasPrefix(text, gooseDeclined) {
		return []journal.Item{journal.OfToolResult(NewToolResult(call, text, failed))}
	}
	return []journal.Item{NewDenialItem(call, gooseDeclined), journal.OfToolResult(NewToolResult(call, text, true))}
}

func gooseResult(o gooseOutcome) (text string, failed bool) {
	if o.Status == "error" {
		return o.Error, true
	}
	var v struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	_ = json.Unmarshal(o.Value, &v) // no content, no text
	var b strings.Builder
	for _, c := range v.Content {
		b.WriteString(c.Text)
	}
	return b.String(), v.IsError
}

func (p *gooseParser) parseComplete(l gooseLine) []journal.Item {
	p.completed, p.verdict.Unstarted = true, false
	if !p.verdict.Failed {
		p.verdict.Terminal = "complete"
	}
	u := usageSince(p.before, nightcrier.Usage{InputTokens: l.Input, OutputTokens: l.Output, CostUSD: l.CostUSD})
	p.verdict.Usage = u
	return append(p.flushText(), journal.OfUsage(u))
}
