package agent

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// geminiParser reads gemini's JSON lines. What the model says comes in pieces,
// which are put together. Its last word is a result; interrupted, it ends with
// code 0 and none.
type geminiParser struct {
	verdict Verdict
	calls   openCalls
	text    strings.Builder // said since the last tool
	told    int             // how much of text is journaled
	problem string          // the last error event's
	looped  bool            // the CLI ended it for repeating itself
}

func newGeminiParser() *geminiParser {
	return &geminiParser{verdict: Verdict{Unstarted: true, Unfinished: true}, calls: openCalls{}}
}

// Abort implements Parser: what does not pass, the CLI does not try again.
func (p *geminiParser) Abort() bool { return false }

// Verdict implements Parser.
func (p *geminiParser) Verdict() Verdict {
	v := p.verdict
	v.FinalMessage = p.text.String()
	return v
}

// geminiLine is the union of the lines that matter.
type geminiLine struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id"`

	// message
	Role    string `json:"role"`
	Content string `json:"content"`

	// tool_use, tool_result
	ToolName   string          `json:"tool_name"`
	ToolID     string          `json:"tool_id"`
	Parameters json.RawMessage `json:"parameters"`
	Output     string          `json:"output"`

	// error
	Message string `json:"message"`

	// tool_result, result
	Status string `json:"status"`
	Error  struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`

	// result
	Stats struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		Total      int64 `json:"total_tokens"`
		DurationMS int64 `json:"duration_ms"`
	} `json:"stats"`
}

// Stdout reads one line.
func (p *geminiParser) Stdout(line []byte, cut bool) []journal.Item {
	if isBlank(line) {
		return nil
	}
	var l geminiLine
	// A field of a type that we do not expect leaves the others readable.
	if !cut {
		_ = json.Unmarshal(line, &l)
	}
	if l.Type == "message" && l.Role == "assistant" {
		return p.addText(l.Content)
	}
	return append(p.End(), p.parseEvent(l, line, cut)...)
}

func (p *geminiParser) parseEvent(l geminiLine, line []byte, cut bool) []journal.Item {
	switch l.Type {
	case "init":
		p.verdict.Unstarted = false
		p.verdict.SessionID = l.SessionID
	case "tool_use":
		return []journal.Item{p.parseCall(l)}
	case "tool_result":
		return p.toolResult(l)
	case "error":
		p.problem = cutReason(l.Message)
		p.looped = p.looped || strings.HasPrefix(l.Message, "Loop detected")
		return []journal.Item{journal.OfError(journal.Error{Text: p.problem})}
	case "result":
		return p.parseResult(l)
	case "":
		if cut {
			return []journal.Item{newUnreadItem(line)}
		}
		return []journal.Item{PlainLine("stdout", line, false)}
	}
	return nil
}

// maxUntold bounds what is held back of a message that still grows.
const maxUntold = 4 << 10

// addText puts a piece behind what was said. The end of a message shows by what
// follows it.
func (p *geminiParser) addText(piece string) []journal.Item {
	if p.text.Len()+len(piece) > maxFinal {
		p.text.Reset()
		p.told = 0
	}
	piece = text.KeepBytes(piece, maxFinal)
	p.text.WriteString(piece)
	if p.text.Len()-p.told < maxUntold {
		return nil
	}
	return p.End()
}

// End implements Ender.
func (p *geminiParser) End() []journal.Item {
	if p.told == p.text.Len() {
		return nil
	}
	said := NewMessageItem("assistant", p.text.String()[p.told:])
	p.told = p.text.Len()
	return []journal.Item{said}
}

func (p *geminiParser) parseCall(l geminiLine) journal.Item {
	p.text.Reset()
	p.told = 0
	c := NewToolCall(l.ToolID, l.ToolName, l.Parameters)
	p.calls.addCall(c)
	return journal.OfToolCall(c)
}

// toolResult: of a tool that gave something back, the CLI tells no more than a
// person would be shown.
func (p *geminiParser) toolResult(l geminiLine) (items []journal.Item) {
	call := p.calls.closeCall(l.ToolID)
	if geminiDenied(l) {
		items = append(items, NewDenialItem(call, l.Error.Message))
	}
	text := l.Output
	text = cmp.Or(text, l.Error.Message)
	return append(items, journal.OfToolResult(NewToolResult(call, text, l.Status == "error")))
}

// geminiDenied tells a refusal from a tool that failed: by a rule, because the tool
// is not offered, or because a path leads out of the workspace.
func geminiDenied(l geminiLine) bool {
	switch l.Error.Type {
	case "policy_violation", "tool_not_registered":
		return true
	}
	return strings.HasPrefix(l.Error.Message, "Path not in workspace")
}

func (p *geminiParser) parseResult(l geminiLine) []journal.Item {
	v := &p.verdict
	v.Unfinished = false
	v.Terminal, v.Failed, v.Class, v.Reason = l.Status, l.Status != "success" || p.looped, "", ""
	// What a model thinks stands in the total alone, and is paid as output.
	v.Usage = boundUsage(nightcrier.Usage{InputTokens: l.Stats.Input, OutputTokens: max(l.Stats.Output, l.Stats.Total-l.Stats.Input), DurationMS: l.Stats.DurationMS})
	items := []journal.Item{journal.OfUsage(v.Usage)}
	if !v.Failed {
		return items
	}
	why := l.Error.Message
	why = cmp.Or(why, p.problem)
	switch {
	case p.looped:
		v.Terminal = "loop"
	case strings.HasPrefix(why, "Reached max session turns"):
		v.Terminal = "max_turns"
	}
	status := geminiStatus(why)
	v.Class = geminiClass(status, why)
	if v.Reason = cutReason(why); v.Reason == "" {
		v.Reason = "gemini ended with an error that it does not name"
	}
	return append(items, journal.OfError(journal.Error{FailureClass: v.Class, Text: v.Reason, HTTPStatus: status}))
}

var geminiCode = regexp.MustCompile(`"code":\s*([45][0-9]{2})\b`)

// geminiStatus is the HTTP status in the text of a failure, 0 when it has none.
func geminiStatus(why string) int {
	if m := geminiCode.FindStringSubmatch(why); m != nil {
		n, _ := strconv.Atoi(m[1]) // three digits
		return n
	}
	return 0
}

// geminiClass is the table from a failed result to a failure class. Google answers
// a wrong key with 400, and the CLI tells of 429 in words only.
func geminiClass(status int, why string) nightcrier.FailureClass {
	text := strings.ToLower(why)
	switch {
	case strings.Contains(text, "api key not valid"), strings.Contains(text, "api key expired"), strings.Contains(text, "api_key_invalid"):
		return nightcrier.FailAuth
	case strings.Contains(text, "request a quota increase"), strings.Contains(text, "exhausted your"), strings.Contains(text, "resource_exhausted"):
		return nightcrier.FailQuota
	}
	return StatusClass(status)
}
