// Package loop is our own agent: a model that is asked again and again, the tools of MCP servers
// that it calls, and nothing else. It has no shell, no files and no connection: the model and the
// tools are reached by the two functions that it is handed, which lead through the run's guards.
//
// A conversation is kept in the words of the model's API, so that what the model said goes back as
// it came. What differs between the APIs is a dialect, one a file.
package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/retry"
)

// Tool is a tool that the model is offered.
type Tool struct {
	Name, About string
	// Schema is the JSON Schema of its arguments.
	Schema any
}

// Answer is what the model's API answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Config is what a loop works with.
type Config struct {
	// Provider is whose API is spoken.
	Provider nightcrier.Provider
	// Model is asked, and each of Fallbacks in turn where the one before it cannot answer.
	Model     string
	Fallbacks []string
	// System and Prompt are what the model is told first.
	System, Prompt string
	// Session is an earlier conversation that Prompt goes on with, nil for none.
	Session []byte
	// Ask makes one call of the model's API, by its path.
	Ask func(ctx context.Context, path string, body []byte) (Answer, error)
	// Tools are called by Call, which is used from several goroutines and says what the
	// model is shown, and whether the call failed.
	Tools []Tool
	Call  func(ctx context.Context, name string, arguments json.RawMessage) (shown string, failed bool)
	// Denied is told of calls of tools that there are not.
	Denied func(tool, arguments, why string)
	// SingleCall has the model answer at once, without tools.
	SingleCall bool
	// MaxTurns bounds the answers of the model, MaxTokens one of them, and Thinking the part of
	// it that may be thoughts; 0 is a default, and no thoughts.
	MaxTurns, MaxTokens, Thinking int
	// Verify are criteria that the model holds its work against when it has ended.
	Verify []string
	// VerifyRetries is how often the model may mend what does not meet them.
	VerifyRetries int
	// Window is how many tokens a conversation may have; 0 is the provider's default.
	Window int
	// Pause spaces out calls of the model that fail.
	Pause retry.Backoff
	// Tell is told of what happens, in order. It is called from one goroutine at a time.
	Tell func(...journal.Item)
}

// Defaults of a Config.
const (
	DefaultMaxTurns = 50
	// mostTokens is the longest answer that is asked for at once: an API keeps no connection
	// open for a longer one that is not streamed. A longer answer is continued.
	mostTokens = 20_000
)

// windows are how long conversations may be where nothing else is said. Models that take more are
// asked for a summary earlier than they need.
var windows = map[nightcrier.Provider]int{nightcrier.Anthropic: 200_000, nightcrier.OpenAI: 128_000, nightcrier.OpenRouter: 128_000}

// End is how a loop ended.
type End struct {
	agent.Verdict
	// Rich is what the model handed in to be shown to people, as JSON; nil for nothing.
	Rich json.RawMessage
	// Session is the conversation, for another loop to go on with.
	Session []byte
}

// loop is one conversation under way.
type loop struct {
	Config
	dialect dialect
	conversation
	turns     int    // answers of the model so far, of those that MaxTurns bounds
	cutShort  int    // answers in a row that were cut or paused
	said      string // what the model has said of an answer that was cut
	used      int    // tokens of the conversation, as the model counted them last
	usedBytes int    // of the conversation then
	nudged    bool
	worked    bool // a tool was called
	verified  int  // times that the work was held against the criteria
}

// Check says what is wrong with a Config, before anything is spent.
func (c *Config) Check() error {
	switch {
	case c.Model == "":
		return nightcrier.Errorf(nightcrier.Invalid, "agent.model is empty: name a model of %s", c.Provider)
	case dialects[c.Provider] == nil:
		return nightcrier.Errorf(nightcrier.Invalid, "our own agents speak the APIs of anthropic, openai and openrouter, not of %q", c.Provider)
	case !c.SingleCall && len(c.Tools) == 0:
		return nightcrier.Errorf(nightcrier.Invalid, "No MCP tools discovered. The executor ptc works with tools alone: name servers in mcp_tools of the skill and in tool_servers of the configuration, or give the run a cluster")
	case c.Thinking > 0 && c.Thinking < 1024:
		return nightcrier.Errorf(nightcrier.Invalid, "agent.budget_tokens is %d; thoughts take at least 1024 tokens", c.Thinking)
	}
	return nil
}

// Run works until the model has ended, something keeps it from going on, or ctx ends.
func Run(ctx context.Context, c Config) (End, error) {
	l := &loop{Config: c.withDefaults()}
	if err := l.Check(); err != nil {
		return End{}, err
	}
	l.dialect = dialects[l.Provider]
	if err := l.conversation.restore(l.Provider, l.Session); err != nil {
		return End{}, err
	}
	l.worked = l.Session != nil
	l.conversation.ask(l.Prompt)
	end := l.work(ctx)
	end.Session = l.conversation.save(l.Provider)
	end.SessionID = SessionID
	return end, nil
}

// SessionID is what a conversation is called: a workspace has one.
const SessionID = "conversation"

func (c Config) withDefaults() Config {
	if c.MaxTurns == 0 {
		c.MaxTurns = DefaultMaxTurns
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = agent.DefaultLoopTokens
	}
	c.MaxTokens = min(c.MaxTokens, mostTokens)
	if c.Thinking > 0 { // there must be room for an answer behind them
		c.Thinking = min(c.Thinking, max(1024, c.MaxTokens-1024))
		c.MaxTokens = max(c.MaxTokens, c.Thinking+1024)
	}
	if c.Window == 0 {
		c.Window = windows[c.Provider]
	}
	if c.Pause.Max == 0 {
		c.Pause = retry.Backoff{Min: time.Second, Max: 30 * time.Second}
	}
	if c.SingleCall {
		c.Tools = nil
	}
	return c
}

// work asks the model until it has ended.
func (l *loop) work(ctx context.Context) End {
	for {
		if l.turns >= l.MaxTurns {
			return failed(nightcrier.FailAgent, fmt.Sprintf("the agent did not end within agent.max_turns (%d)", l.MaxTurns))
		}
		l.turns++
		if err := l.makeRoom(ctx); err != nil {
			return l.whyFailed(err)
		}
		a, err := l.askModel(ctx, true)
		if err != nil {
			return l.whyFailed(err)
		}
		if end, done := l.takeAnswer(ctx, a); done {
			return end
		}
		if ctx.Err() != nil {
			return failed(nightcrier.FailAgent, "it was ended")
		}
	}
}

// maxContinued is how often in a row an answer is continued that was cut or paused.
const maxContinued = 5

// takeAnswer does what the model said. It reports whether that was the last word.
func (l *loop) takeAnswer(ctx context.Context, a answer) (End, bool) {
	l.tellAnswer(a)
	switch a.stop {
	case stopCut, stopPaused:
		return l.continueAnswer(a)
	case stopRefused:
		return failed(nightcrier.FailAgent, "the model refused to answer"), true
	case stopWindow:
		l.used = l.Window // makeRoom sees to it
		return l.continueAnswer(a)
	}
	l.cutShort = 0
	if len(a.calls) > 0 && !l.SingleCall {
		l.say(a)
		l.said, l.worked = "", true
		return l.makeCalls(ctx, a.calls)
	}
	text := strings.TrimSpace(l.said + a.text)
	l.said = ""
	if text == "" || !l.worked && !l.nudged && !l.SingleCall {
		return l.nudge(a, text)
	}
	l.say(a)
	return l.finish(ctx, End{Verdict: agent.Verdict{Terminal: string(a.reason), FinalMessage: text}})
}

// nudge asks a model, once, that ended before it did anything.
func (l *loop) nudge(a answer, text string) (End, bool) {
	if l.nudged {
		return failed(nightcrier.FailAgent, "the model ended without a word"), true
	}
	l.nudged = true
	l.say(a)
	switch {
	case l.SingleCall:
		l.ask("Your answer was empty. Answer now.")
	case text == "":
		l.ask("Your answer was empty. Go on with the tools, or call " + completeTool + ".")
	default:
		l.ask("You have used no tool yet. If something has to be looked at or done, do it with the tools now. If that was all, call " + completeTool + " with it.")
	}
	return End{}, false
}

// continueAnswer has the model go on where it was stopped.
func (l *loop) continueAnswer(a answer) (End, bool) {
	if l.cutShort++; l.cutShort > maxContinued {
		return failed(nightcrier.FailAgent, fmt.Sprintf("the model's answer did not end in %d parts of up to %d tokens", l.cutShort, l.MaxTokens)), true
	}
	cut := len(a.calls) > 0
	a.calls = nil
	l.say(a.withoutCalls(l.dialect))
	l.said += a.text
	switch {
	case a.stop == stopPaused && a.text != "":
		// it goes on by itself
	case cut:
		l.ask("Your answer was cut before the end of a call of a tool, so nothing was called. Call it again, with less text before it.")
	case a.text == "":
		l.ask("Your thoughts took the whole answer. Go on, and think less.")
	default:
		l.ask("Your answer was cut. Go on exactly where it stopped, and repeat nothing.")
	}
	l.Tell(logItem("the answer was cut (%s); the model goes on with it", a.reason))
	return End{}, false
}

// failed is the end of a loop that could not go on.
func failed(class nightcrier.FailureClass, reason string) End {
	return End{Verdict: agent.Verdict{Terminal: "error", Failed: true, Class: class, Reason: reason}}
}

func logItem(format string, args ...any) journal.Item {
	return journal.OfLog(journal.Log{Stream: "agent", Level: "info", Text: fmt.Sprintf(format, args...)})
}

// tellAnswer journals what the model said.
func (l *loop) tellAnswer(a answer) {
	if strings.TrimSpace(a.text) != "" {
		l.Tell(agent.NewMessageItem("assistant", a.text))
	}
}
