package agent

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// codexParser reads codex's JSON lines. Unknown types are passed over: the CLI grows
// new ones.
type codexParser struct {
	verdict Verdict
	abort   bool
	before  nightcrier.Usage
}

func newCodexParser() *codexParser { return &codexParser{verdict: Verdict{Unstarted: true}} }

// Resumed implements Resumed: the CLI tells what the whole session has used.
func (p *codexParser) Resumed(before nightcrier.Usage) { p.before = before }

func (p *codexParser) Abort() bool { return p.abort }

// Verdict implements Parser.
func (p *codexParser) Verdict() Verdict { return p.verdict.heldToLastWord() }

// codexLine is the union of the lines that matter.
type codexLine struct {
	Type     string    `json:"type"`
	ThreadID string    `json:"thread_id"`
	Item     codexItem `json:"item"`
	Message  string    `json:"message"`
	Usage    struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// codexItem is something that the agent said or did.
type codexItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Text    string `json:"text"`
	Message string `json:"message"`

	// mcp_tool_call
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`

	// command_execution
	Command  string `json:"command"`
	Output   string `json:"aggregated_output"`
	ExitCode *int   `json:"exit_code"`

	// file_change, web_search
	Changes json.RawMessage `json:"changes"`
	Query   string          `json:"query"`
}

// Stdout reads one line.
func (p *codexParser) Stdout(line []byte, cut bool) []journal.Item {
	if isBlank(line) {
		return nil
	}
	if cut {
		return []journal.Item{newUnreadItem(line)}
	}
	var l codexLine
	// A field of a type that we do not expect leaves the others readable.
	if _ = json.Unmarshal(line, &l); l.Type == "" {
		return []journal.Item{PlainLine("stdout", line, false)}
	}
	p.verdict.Unstarted = false
	switch l.Type {
	case "thread.started":
		p.verdict.SessionID = l.ThreadID
	case "item.started":
		return p.parseStarted(l.Item)
	case "item.completed":
		return p.parseCompleted(l.Item)
	case "error":
		return p.parseTrouble(l.Message)
	case "turn.completed":
		return p.parseDone(l)
	case "turn.failed":
		return p.parseFailed(l.Error.Message)
	}
	return nil
}

// codexUnknown is how a call reads of a tool that is not offered, such as its shell:
// nothing on stdout tells of it.
var codexUnknown = regexp.MustCompile(`error=(unsupported call: (\S{1,200}))$`)

// Stderr implements Complaining.
func (p *codexParser) Stderr(line []byte) []journal.Item {
	m := codexUnknown.FindSubmatch(line[max(0, len(line)-512):])
	if m == nil {
		return nil
	}
	return []journal.Item{journal.OfDenial(journal.Denial{Tool: string(m[2]), Message: string(m[1])})}
}

func (p *codexParser) parseStarted(i codexItem) []journal.Item {
	command, input := i.Command, i.Arguments
	switch i.Type {
	case "mcp_tool_call", "command_execution":
	case "file_change":
		input = i.Changes
	case "web_search":
		command = i.Query
	default:
		return nil
	}
	return []journal.Item{journal.OfToolCall(commandCall(i.ID, i.toolName(), command, input))}
}

// toolName is what the model calls the tool.
func (i codexItem) toolName() string {
	if i.Type != "mcp_tool_call" {
		return i.Type
	}
	return "mcp__" + i.Server + "__" + i.Tool
}

func (p *codexParser) parseCompleted(i codexItem) []journal.Item {
	switch i.Type {
	case "agent_message":
		p.verdict.FinalMessage = i.Text
		return []journal.Item{NewMessageItem("assistant", i.Text)}
	case "mcp_tool_call", "command_execution", "file_change":
		return i.itemsOfEnd()
	case "error": // a remark, such as that it does not know the model
		return []journal.Item{journal.OfLog(logText("stdout", i.Message))}
	}
	return nil
}

// itemsOfEnd is the end of a tool's call. What the CLI refused is a denial.
func (i codexItem) itemsOfEnd() []journal.Item {
	var text strings.Builder
	for _, part := range i.Result.Content {
		text.WriteString(part.Text)
	}
	text.WriteString(i.Output + i.Error.Message)
	call := commandCall(i.ID, i.toolName(), i.Command, nil)
	failed := i.Status == "failed" || i.Status == "declined" || i.ExitCode != nil && *i.ExitCode != 0
	items := []journal.Item{journal.OfToolResult(NewToolResult(call, text.String(), failed))}
	if i.Status == "declined" || strings.Contains(i.Error.Message, "requires approval") {
		items = append(items, NewDenialItem(call, i.Error.Message))
	}
	return items
}

// codexRetry is a call of the model that is tried again.
var codexRetry = regexp.MustCompile(`^Reconnecting\.\.\. (\d+)/\d+ \(([\s\S]*)\)$`)

// parseTrouble reads an error on the way. The last one is said again when the turn fails.
func (p *codexParser) parseTrouble(message string) []journal.Item {
	m := codexRetry.FindStringSubmatch(message)
	if m == nil {
		p.recordFailure(message)
		return nil
	}
	attempt, _ := strconv.Atoi(m[1]) // digits; a number without end counts as the first
	class, status := codexClass(m[2])
	e := journal.Error{HTTPStatus: status, Attempt: attempt}
	e.Text = text.KeepBytes("the model's API failed: "+m[2], maxText)
	if class == nightcrier.FailAuth {
		e.FailureClass = class
		p.abort = true
		p.recordFailure(m[2])
	}
	return []journal.Item{journal.OfError(e)}
}

func (p *codexParser) recordFailure(message string) {
	v := &p.verdict
	v.Failed = true
	v.Class, _ = codexClass(message)
	v.Reason = cutReason(codexReason(message))
}

func (p *codexParser) parseFailed(message string) []journal.Item {
	p.recordFailure(message)
	p.verdict.Terminal = "turn.failed"
	_, status := codexClass(message)
	return []journal.Item{journal.OfError(journal.Error{FailureClass: p.verdict.Class, Text: p.verdict.Reason, HTTPStatus: status})}
}

func (p *codexParser) parseDone(l codexLine) []journal.Item {
	v := &p.verdict
	v.Terminal, v.Failed, v.Class, v.Reason = "turn.completed", false, "", ""
	p.abort = false
	v.Usage = usageSince(p.before, nightcrier.Usage{InputTokens: l.Usage.Input, OutputTokens: l.Usage.Output})
	return []journal.Item{journal.OfUsage(v.Usage)}
}

// codexStatus is how the CLI words an HTTP status; of some it gives the body alone.
var codexStatus = regexp.MustCompile(`(?:unexpected|last) status:? (\d{3}) `)

// codexClass is the table from an error's text to its class and HTTP status, 0 where
// the text hides it. What our own guard refuses is not the provider's word on the key.
func codexClass(text string) (nightcrier.FailureClass, int) {
	status := 0
	if m := codexStatus.FindStringSubmatch(text); m != nil {
		status, _ = strconv.Atoi(m[1]) // three digits
	}
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(text, ": nightcrier: "):
		return nightcrier.FailAgent, status
	case strings.HasPrefix(lower, "quota exceeded"), strings.Contains(lower, "usage limit"):
		return nightcrier.FailQuota, status
	}
	return StatusClass(status), status
}

// codexReason is the text for a person: of an error that is the API's JSON document,
// the message in it.
func codexReason(text string) string {
	var document struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &document) == nil && document.Error.Message != "" {
		return document.Error.Message
	}
	if text == "" {
		return "the turn failed and codex does not say why"
	}
	return text
}
