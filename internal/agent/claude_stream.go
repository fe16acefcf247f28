package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/hook"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// claudeParser reads claude's JSON lines. Unknown types are passed over: the
// CLI grows new ones. The last result wins: there can be several.
type claudeParser struct {
	verdict Verdict
	abort   bool
	calls   openCalls
	before  nightcrier.Usage // of the session, before this invocation
	answer  string           // the id of the model's last answer, which can be several lines
	answers int
}

func newClaudeParser() *claudeParser {
	return &claudeParser{verdict: Verdict{Unstarted: true}, calls: openCalls{}}
}

func (p *claudeParser) Abort() bool { return p.abort }

// Verdict implements Parser.
func (p *claudeParser) Verdict() Verdict { return p.verdict.heldToLastWord() }

// Resumed implements Resumed: of a session that is gone on with, the CLI tells the
// tokens and the cost since it began.
func (p *claudeParser) Resumed(before nightcrier.Usage) { p.before = before }

// claudeLine is the union of the lines that matter.
type claudeLine struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`
	// Message is an object, or a text in a permission_denied.
	Message json.RawMessage `json:"message"`

	// system: api_retry, permission_denied, init
	Attempt     int    `json:"attempt"`
	ErrorStatus int    `json:"error_status"`
	Error       string `json:"error"`
	ToolName    string `json:"tool_name"`
	ToolUseID   string `json:"tool_use_id"`

	claudeResult
}

// claudeResult is the last word.
type claudeResult struct {
	IsError        bool     `json:"is_error"`
	Result         string   `json:"result"`
	Errors         []string `json:"errors"`
	APIErrorStatus int      `json:"api_error_status"`
	TerminalReason string   `json:"terminal_reason"`
	DurationMS     int64    `json:"duration_ms"`
	CostUSD        float64  `json:"total_cost_usd"`
	ModelUsage     map[string]struct {
		Input         int64 `json:"inputTokens"`
		Output        int64 `json:"outputTokens"`
		CacheRead     int64 `json:"cacheReadInputTokens"`
		CacheCreation int64 `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
}

// Stdout reads one line.
func (p *claudeParser) Stdout(line []byte, cut bool) []journal.Item {
	if isBlank(line) {
		return nil
	}
	if cut {
		return []journal.Item{newUnreadItem(line)}
	}
	var l claudeLine
	// A field of a type that we do not expect leaves the others readable.
	if _ = json.Unmarshal(line, &l); l.Type == "" {
		return []journal.Item{PlainLine("stdout", line, false)}
	}
	p.verdict.Unstarted = false
	if l.SessionID != "" {
		p.verdict.SessionID = l.SessionID
	}
	switch l.Type {
	case "assistant", "user":
		return p.parseMessage(l)
	case "system":
		return p.parseSystem(l)
	case "result":
		return p.parseResult(l)
	}
	return nil
}

func (p *claudeParser) parseSystem(l claudeLine) []journal.Item {
	switch l.Subtype {
	case "api_retry":
		return p.parseRetry(l)
	case "permission_denied":
		var why string
		_ = json.Unmarshal(l.Message, &why) // no text, no harm
		call := p.calls.waitingCall(l.ToolUseID)
		call.Tool = cutWord(l.ToolName)
		return []journal.Item{NewDenialItem(call, why)}
	}
	return nil
}

// parseRetry stops an agent whose key is refused: it would try for minutes.
func (p *claudeParser) parseRetry(l claudeLine) []journal.Item {
	e := journal.Error{Text: fmt.Sprintf("the model's API failed (%s); attempt %d is next", l.Error, l.Attempt+1), HTTPStatus: l.ErrorStatus, Attempt: l.Attempt}
	if StatusClass(l.ErrorStatus) == nightcrier.FailAuth {
		e.FailureClass = nightcrier.FailAuth
		p.abort, p.verdict.Failed = true, true
		p.verdict.Class = nightcrier.FailAuth
		p.verdict.Reason = fmt.Sprintf("the model's API refused the key (HTTP %d)", l.ErrorStatus)
	}
	return []journal.Item{journal.OfError(e)}
}

// claudeBlock is one block of a message's content.
type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (p *claudeParser) parseMessage(l claudeLine) []journal.Item {
	var said struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(l.Message, &said) // no content, no items
	p.countAnswer(l.Type, said.Model, cutWord(said.ID))
	var items []journal.Item
	for _, b := range parseBlocks(said.Content) {
		switch b.Type {
		case "text":
			items = append(items, NewMessageItem(l.Type, b.Text))
			if l.Type == "assistant" {
				p.verdict.FinalMessage = b.Text
			}
		case "tool_use":
			c := NewToolCall(b.ID, b.Name, b.Input)
			p.calls.addCall(c)
			items = append(items, journal.OfToolCall(c))
		case "tool_result":
			items = append(items, p.toolResult(b)...)
		}
	}
	return items
}

// countAnswer counts the answers of the model. The CLI's own number of turns counts each
// result of a tool, of which an answer can ask for many; and what it says itself, it
// says as a model of no such name.
func (p *claudeParser) countAnswer(role, model, id string) {
	if role == "assistant" && model != "<synthetic>" && (id == "" || id != p.answer) {
		p.answers++
		p.answer = id
	}
}

// parseBlocks reads a content that is a list of blocks or a plain string.
func parseBlocks(content json.RawMessage) []claudeBlock {
	var list []claudeBlock
	if json.Unmarshal(content, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(content, &text) == nil && text != "" {
		return []claudeBlock{{Type: "text", Text: text}}
	}
	return nil
}

// claudeNoTool begins the result of a call of a tool that is not offered.
const claudeNoTool = "<tool_use_error>Error: No such tool available"

// toolResult is what a tool said. The CLI has no event of its own for what our hook
// refuses, nor for a tool that is not offered: it stands in the result.
func (p *claudeParser) toolResult(b claudeBlock) (items []journal.Item) {
	var text strings.Builder
	for _, part := range parseBlocks(b.Content) {
		text.WriteString(part.Text)
	}
	call := p.calls.closeCall(b.ToolUseID)
	r := NewToolResult(call, text.String(), b.IsError)
	if _, why, refused := strings.Cut(r.Text, hook.Refusal); refused && b.IsError {
		items = append(items, NewDenialItem(call, why))
	} else if b.IsError && strings.HasPrefix(r.Text, claudeNoTool) {
		items = append(items, NewDenialItem(call, "the tool is not offered"))
	}
	return append(items, journal.OfToolResult(r))
}

func (p *claudeParser) parseResult(l claudeLine) []journal.Item {
	v := &p.verdict
	v.Terminal = l.Subtype
	v.Failed = l.IsError || l.Subtype != "success"
	p.abort, v.Class, v.Reason = false, "", ""
	v.Usage = nightcrier.Usage{APIRequests: p.answers, DurationMS: l.DurationMS, CostUSD: l.CostUSD}
	for _, m := range l.ModelUsage {
		v.Usage.InputTokens += boundCount(m.Input) + boundCount(m.CacheRead) + boundCount(m.CacheCreation)
		v.Usage.OutputTokens += boundCount(m.Output)
	}
	v.Usage = usageSince(p.before, v.Usage)
	items := []journal.Item{journal.OfUsage(v.Usage)}
	if !v.Failed {
		v.FinalMessage = l.Result
		return items
	}
	if v.Terminal == "success" {
		v.Terminal = l.TerminalReason // it says success of a failure too
	}
	v.Class = claudeClass(l)
	v.Reason = cutReason(claudeReason(l))
	return append(items, journal.OfError(journal.Error{FailureClass: v.Class, Text: v.Reason, HTTPStatus: l.APIErrorStatus}))
}

// claudeClass is the table from a failed result to a failure class.
func claudeClass(l claudeLine) nightcrier.FailureClass {
	text := strings.ToLower(l.Result)
	switch {
	case l.Subtype == "error_max_budget_usd":
		return nightcrier.FailBudget
	case strings.Contains(text, "not logged in"), strings.Contains(text, "invalid api key"):
		return nightcrier.FailAuth
	case strings.Contains(text, "credit balance"), strings.Contains(text, "usage limit"):
		return nightcrier.FailQuota
	}
	return StatusClass(l.APIErrorStatus)
}

func claudeReason(l claudeLine) string {
	switch {
	case l.Result != "":
		return l.Result
	case len(l.Errors) > 0:
		return strings.Join(l.Errors, "; ")
	case l.TerminalReason != "":
		return l.TerminalReason
	}
	return l.Subtype
}
