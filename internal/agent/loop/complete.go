package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// completeTool is the tool by which a model ends.
const completeTool = "task_complete"

var statuses = []string{"healthy", "warning", "critical", "info"}

// completion is the tool as it is offered.
var completion = Tool{
	Name:  completeTool,
	About: "Ends the task. Call it once, when everything is done, with what came of it.",
	Schema: object{"type": "object", "properties": object{
		"summary": object{"type": "string", "description": "What came of it, in a few sentences"},
		"result":  object{"description": "What you were told to deliver, where that is one JSON document or your last message: all of it"},
		"rich_output": object{
			"type": "object", "description": "What people are shown", "required": []string{"title", "status", "summary"},
			"properties": object{
				"title": object{"type": "string"}, "status": object{"type": "string", "enum": statuses}, "summary": object{"type": "string"},
				"sections": object{"type": "array", "items": object{"type": "object", "required": []string{"heading", "body"}, "properties": object{"heading": object{"type": "string"}, "body": object{"type": "string"}}}},
				"footer":   object{"type": "string"},
			},
		},
		"fallback": object{"type": "string", "description": "The same in one line, for where only one fits"},
	}},
}

// rich is what people are shown.
type rich struct {
	Title    string    `json:"title"`
	Status   string    `json:"status"`
	Summary  string    `json:"summary"`
	Sections []section `json:"sections,omitempty"`
	Footer   string    `json:"footer,omitempty"`
}

type section struct {
	Heading string `json:"heading"`
	Body    string `json:"body"`
}

func (r *rich) wrong() string {
	switch {
	case r.Title == "" || r.Summary == "":
		return "rich_output needs a title and a summary"
	case !slices.Contains(statuses, r.Status):
		return "rich_output.status is none of " + text.JoinWords(statuses, "and")
	}
	return ""
}

// String is it as Markdown.
func (r *rich) String() string {
	said := fmt.Sprintf("# %s\n\n%s\n", r.Title, r.Summary)
	for _, s := range r.Sections {
		said += fmt.Sprintf("\n## %s\n\n%s\n", s.Heading, s.Body)
	}
	if r.Footer != "" {
		said += "\n" + r.Footer + "\n"
	}
	return said
}

// readComplete reads the model's last word. A result that failed says what is wrong with it.
func (l *loop) readComplete(c call) (End, result) {
	r := result{ID: c.id, Failed: true}
	var in struct {
		Summary  string          `json:"summary"`
		Fallback string          `json:"fallback"`
		Result   json.RawMessage `json:"result"`
		Rich     *rich           `json:"rich_output"`
	}
	err := json.Unmarshal(c.input, &in)
	final := lastWords(in.Result, in.Rich, in.Summary, in.Fallback)
	switch {
	case c.wrong != "":
		r.Text = "It is not ended: " + c.wrong + "."
	case err != nil:
		r.Text = "It is not ended, the arguments are not as the tool's schema says: " + text.CutLine(err.Error(), 200)
	case in.Rich != nil && in.Rich.wrong() != "":
		r.Text = "It is not ended: " + in.Rich.wrong() + "."
	case final == "":
		r.Text = "It is not ended: give at least a summary."
	default:
		r.Failed, r.Text = false, "Taken."
	}
	if r.Failed {
		return End{}, r
	}
	end := End{Verdict: agent.Verdict{Terminal: completeTool, FinalMessage: final}}
	if in.Rich != nil {
		end.Rich, _ = json.Marshal(in.Rich) // texts can be encoded
	}
	return end, r
}

// lastWords are what was delivered, or else the best of what is for people.
func lastWords(delivered json.RawMessage, r *rich, summary, fallback string) string {
	var plain string
	switch given := strings.TrimSpace(string(delivered)); {
	case json.Unmarshal(delivered, &plain) == nil && strings.TrimSpace(plain) != "":
		return strings.TrimSpace(plain)
	case given != "" && given != "null" && given != `""`:
		return given
	case strings.TrimSpace(summary) != "":
		return strings.TrimSpace(summary)
	case r != nil:
		return r.String()
	}
	return strings.TrimSpace(fallback)
}

// finish takes the model's last word, once its work holds against the criteria: what does not is
// to be mended, as often as is said.
func (l *loop) finish(ctx context.Context, end End) (End, bool) {
	if len(l.Verify) == 0 {
		return end, true
	}
	l.ask("Before this counts, hold it against these criteria, by what the tools answered and not by what you meant to do:\n\n- " + strings.Join(l.Verify, "\n- ") +
		"\n\nAnswer with VERIFIED and why, or with ISSUES: and one line for each criterion that is not met. Call nothing.")
	a, err := l.askModel(ctx, false)
	if err != nil {
		return l.whyFailed(err), true
	}
	l.tellAnswer(a)
	l.say(a.withoutCalls(l.dialect))
	l.verified++
	said := strings.TrimSpace(a.text)
	if a.stop == stopEnded && strings.HasPrefix(strings.ToUpper(strings.TrimLeft(said, "*# ")), "VERIFIED") {
		l.Tell(logItem("verified: %d criteria", len(l.Verify)))
		return end, true
	}
	l.Tell(logItem("not verified (%d of %d): %s", l.verified, l.VerifyRetries+1, text.CutLine(said, 500)))
	if l.verified > l.VerifyRetries {
		return failed(nightcrier.FailInvalidOutput, "the work does not meet its criteria: "+text.CutLine(said, 500)), true
	}
	l.ask("Mend what is not met, with the tools, and end again.")
	return End{}, false
}

func journalCall(c call) journal.Item {
	return journal.OfToolCall(agent.NewToolCall(c.id, c.name, c.input))
}

func journalResult(c call, r result) journal.Item {
	return journal.OfToolResult(agent.NewToolResult(agent.NewToolCall(c.id, c.name, nil), r.Text, r.Failed))
}
