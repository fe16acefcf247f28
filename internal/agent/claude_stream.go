package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/journal"
)

// claudeParser reads claude's JSON lines. Unknown types are passed over: the
// CLI grows new ones. The last result wins: there can be several.
type claudeParser struct {
	verdict Verdict
	abort   bool
	calls   map[string]journal.ToolCall // by id, until their result comes
}

// maxOpenCalls bounds the calls that wait for a result.
const maxOpenCalls = 1024

func newClaudeParser() *claudeParser {
	return &claudeParser{verdict: Verdict{Unstarted: true}, calls: map[string]journal.ToolCall{}}
}

func (p *claudeParser) Abort() bool { return p.abort }

func (p *claudeParser) Verdict() Verdict { return p.verdict }

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
	NumTurns       int      `json:"num_turns"`
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
	if len(strings.TrimSpace(string(line[:min(len(line), 64)]))) == 0 {
		return nil
	}
	if cut {
		return []journal.Item{journal.OfError(journal.Error{Text: fmt.Sprintf("a line of output over %d bytes was cut and not read", len(line))})}
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
		return p.message(l)
	case "system":
		return p.system(l)
	case "result":
		return p.result(l)
	}
	return nil
}

func (p *claudeParser) system(l claudeLine) []journal.Item {
	switch l.Subtype {
	case "api_retry":
		return p.retry(l)
	case "permission_denied":
		var message string
		_ = json.Unmarshal(l.Message, &message) // no text, no harm
		call := p.calls[l.ToolUseID]
		return []journal.Item{journal.OfDenial(journal.Denial{ID: l.ToolUseID, Tool: l.ToolName, Command: call.Command, Message: message})}
	}
	return nil
}

// retry stops an agent whose key is refused: it would try for minutes.
func (p *claudeParser) retry(l claudeLine) []journal.Item {
	e := journal.Error{Text: fmt.Sprintf("the model's API failed (%s); attempt %d is next", l.Error, l.Attempt+1), HTTPStatus: l.ErrorStatus, Attempt: l.Attempt}
	if l.ErrorStatus == http.StatusUnauthorized || l.ErrorStatus == http.StatusForbidden {
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

func (p *claudeParser) message(l claudeLine) []journal.Item {
	var message struct {
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(l.Message, &message) // no content, no items
	var items []journal.Item
	for _, b := range blocks(message.Content) {
		switch b.Type {
		case "text":
			text, cut := journal.Clip(b.Text, maxText)
			items = append(items, journal.OfMessage(journal.Message{Role: l.Type, Text: text, Truncated: cut}))
			if l.Type == "assistant" {
				p.verdict.FinalMessage = b.Text
			}
		case "tool_use":
			items = append(items, p.call(b))
		case "tool_result":
			items = append(items, p.toolResult(b))
		}
	}
	return items
}

// blocks reads a content that is a list of blocks or a plain string.
func blocks(content json.RawMessage) []claudeBlock {
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

func (p *claudeParser) call(b claudeBlock) journal.Item {
	var input struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(b.Input, &input) // most tools have no command
	c := journal.ToolCall{ID: b.ID, Tool: b.Name, Command: input.Command, Input: b.Input}
	if len(c.Input) > maxText {
		c.Input = json.RawMessage(fmt.Sprintf(`{"omitted":"%d bytes"}`, len(b.Input)))
	}
	if len(p.calls) < maxOpenCalls {
		p.calls[b.ID] = journal.ToolCall{Tool: c.Tool, Command: c.Command}
	}
	return journal.OfToolCall(c)
}

func (p *claudeParser) toolResult(b claudeBlock) journal.Item {
	var text strings.Builder
	for _, part := range blocks(b.Content) {
		text.WriteString(part.Text)
	}
	call := p.calls[b.ToolUseID]
	delete(p.calls, b.ToolUseID)
	r := journal.ToolResult{ID: b.ToolUseID, Tool: call.Tool, Command: call.Command, Error: b.IsError, Bytes: text.Len()}
	r.Text, r.Truncated = journal.Clip(text.String(), maxText)
	return journal.OfToolResult(r)
}

func (p *claudeParser) result(l claudeLine) []journal.Item {
	v := &p.verdict
	v.Terminal = l.Subtype
	v.Failed = l.IsError || l.Subtype != "success"
	p.abort, v.Class, v.Reason = false, "", ""
	v.Usage = nightcrier.Usage{APIRequests: l.NumTurns, DurationMS: l.DurationMS, CostUSD: l.CostUSD}
	for _, m := range l.ModelUsage {
		v.Usage.InputTokens += m.Input + m.CacheRead + m.CacheCreation
		v.Usage.OutputTokens += m.Output
	}
	items := []journal.Item{journal.OfUsage(v.Usage)}
	if !v.Failed {
		v.FinalMessage = l.Result
		return items
	}
	if v.Terminal == "success" {
		v.Terminal = l.TerminalReason // it says success of a failure too
	}
	v.Class = claudeClass(l)
	v.Reason, _ = journal.Clip(claudeReason(l), 2<<10)
	return append(items, journal.OfError(journal.Error{FailureClass: v.Class, Text: v.Reason, HTTPStatus: l.APIErrorStatus}))
}

// claudeClass is the table from a failed result to a failure class.
func claudeClass(l claudeLine) nightcrier.FailureClass {
	text := strings.ToLower(l.Result)
	switch {
	case l.Subtype == "error_max_budget_usd":
		return nightcrier.FailBudget
	case l.APIErrorStatus == http.StatusUnauthorized, l.APIErrorStatus == http.StatusForbidden,
		strings.Contains(text, "not logged in"), strings.Contains(text, "invalid api key"):
		return nightcrier.FailAuth
	case l.APIErrorStatus == http.StatusTooManyRequests, l.APIErrorStatus == http.StatusPaymentRequired,
		strings.Contains(text, "credit balance"), strings.Contains(text, "usage limit"):
		return nightcrier.FailQuota
	}
	return nightcrier.FailAgent
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
