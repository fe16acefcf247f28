package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// What the parsers of the CLIs' JSON lines share. An agent writes what it likes, so
// whatever becomes an entry is bounded here.

const (
	// maxText bounds a text within one journal entry, in bytes.
	maxText = 64 << 10
	// maxReason bounds, in bytes, why something failed or was refused.
	maxReason = 2 << 10
	// maxOpenCalls bounds the calls that wait for a result.
	maxOpenCalls = 1024
	// maxRepeated bounds, in bytes, what of a command is told again with each result and
	// denial of its call: one that is long, refused often in few words, fills a disk.
	maxRepeated = 1 << 10
	// maxNesting bounds how deep a tool's input may be: whoever reads the journal takes
	// documents that are only so deep.
	maxNesting = 200
	// maxCount and maxCostUSD bound what one agent can have used, far above what it has:
	// what is over them is no count, and could not be added up.
	maxCount   = 1_000_000_000_000
	maxCostUSD = 1_000_000
)

// isBlank reports whether there is nothing on a line.
func isBlank(line []byte) bool { return len(bytes.TrimSpace(line[:min(len(line), 64)])) == 0 }

// newUnreadItem stands for a line that is too long to be read.
func newUnreadItem(line []byte) journal.Item {
	return journal.OfError(journal.Error{Text: fmt.Sprintf("a line of output over %d bytes was cut and not read", len(line))})
}

// cutWord bounds what should be a word: a name, an id.
func cutWord(s string) string { return text.KeepBytes(s, maxWord) }

// cutReason bounds why something failed or was refused.
func cutReason(s string) string { return text.KeepWords(s, maxReason) }

// NewMessageItem tells of what was said, by whom.
func NewMessageItem(role, said string) journal.Item {
	kept := text.KeepWords(said, maxText)
	return journal.OfMessage(journal.Message{Role: cutWord(role), Text: kept, Truncated: len(kept) < len(said)})
}

func logText(stream, said string) journal.Log {
	kept := text.KeepWords(said, maxText)
	return journal.Log{Stream: stream, Text: kept, Truncated: len(kept) < len(said)}
}

// NewToolCall is a call with the command that stands in its input; most tools have none.
func NewToolCall(id, tool string, input json.RawMessage) journal.ToolCall {
	var in struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(input, &in) // no object, no command
	return commandCall(id, tool, in.Command, input)
}

// commandCall is a call whose command is known apart from its input.
func commandCall(id, tool, command string, input json.RawMessage) journal.ToolCall {
	command = text.KeepWords(command, maxText)
	if len(input) > maxText || nestingDepth(input) > maxNesting {
		input = json.RawMessage(fmt.Sprintf(`{"omitted":"%d bytes"}`, len(input)))
	}
	return journal.ToolCall{ID: cutWord(id), Tool: cutWord(tool), Command: command, Input: input}
}

// NewToolResult is what a call came to.
func NewToolResult(call journal.ToolCall, said string, failed bool) journal.ToolResult {
	kept := text.KeepWords(said, maxText)
	return journal.ToolResult{ID: call.ID, Tool: call.Tool, Command: call.Command, Error: failed, Bytes: len(said), Text: kept, Truncated: len(kept) < len(said)}
}

// NewDenialItem tells of a call that was refused, for that reason.
func NewDenialItem(call journal.ToolCall, why string) journal.Item {
	return journal.OfDenial(journal.Denial{ID: call.ID, Tool: call.Tool, Command: call.Command, Message: cutReason(why)})
}

// openCalls are the calls that wait for their result, which names a call by its id
// alone.
type openCalls map[string]journal.ToolCall

func (o openCalls) addCall(c journal.ToolCall) {
	if len(o) < maxOpenCalls {
		o[c.ID] = journal.ToolCall{ID: c.ID, Tool: c.Tool, Command: text.KeepWords(c.Command, maxRepeated)}
	}
}

// waitingCall is the call of that id, with its id alone when it is not known.
func (o openCalls) waitingCall(id string) journal.ToolCall {
	if c, ok := o[cutWord(id)]; ok {
		return c
	}
	return journal.ToolCall{ID: cutWord(id)}
}

// closeCall returns the call of that id, which waits no more.
func (o openCalls) closeCall(id string) journal.ToolCall {
	c := o.waitingCall(id)
	delete(o, c.ID)
	return c
}

// StatusClass is what an HTTP status of the model's API says by itself.
func StatusClass(status int) nightcrier.FailureClass {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nightcrier.FailAuth
	case http.StatusTooManyRequests, http.StatusPaymentRequired:
		return nightcrier.FailQuota
	}
	return nightcrier.FailAgent
}

// heldToLastWord is the verdict on a CLI whose stream always ends with a last word:
// without it, what began has not come to its end.
func (v Verdict) heldToLastWord() Verdict {
	v.Unfinished = !v.Unstarted && v.Terminal == ""
	return v
}

// usageSince is what one invocation used of its session's totals. A total cannot be less
// than what it was: it is then that of the invocation alone.
func usageSince(before, u nightcrier.Usage) nightcrier.Usage {
	u = boundUsage(u)
	if u.InputTokens < before.InputTokens || u.OutputTokens < before.OutputTokens || u.CostUSD < before.CostUSD {
		return u
	}
	u.InputTokens -= before.InputTokens
	u.OutputTokens -= before.OutputTokens
	u.CostUSD -= before.CostUSD
	return u
}

// boundUsage is what an agent says that it used, within what can be.
func boundUsage(u nightcrier.Usage) nightcrier.Usage {
	return nightcrier.Usage{
		APIRequests: boundCount(u.APIRequests),
		DurationMS:  boundCount(u.DurationMS), InputTokens: boundCount(u.InputTokens), OutputTokens: boundCount(u.OutputTokens),
		CostUSD: min(max(u.CostUSD, 0), maxCostUSD),
	}
}

func boundCount[N int | int64](n N) N { return min(max(n, 0), maxCount) }

// nestingDepth is how many objects and lists stand one within the other in valid JSON.
func nestingDepth(raw []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
