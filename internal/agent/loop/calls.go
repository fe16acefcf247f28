package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier/internal/text"
)

// maxCalls is how many calls of one turn are made; a model that asks for more is told so.
const maxCalls = 64

// makeCalls makes the calls of one turn side by side, and answers them in their order. The last
// word of the model, where that is among them, comes behind the others.
func (l *loop) makeCalls(ctx context.Context, calls []call) (End, bool) {
	results := make([]result, len(calls))
	panics := make([]any, len(calls))
	var wait sync.WaitGroup
	last := -1
	for i, c := range calls {
		l.Tell(journalCall(c))
		if c.name == completeTool {
			last = i
			continue
		}
		wait.Go(func() {
			defer func() { panics[i] = recover() }() // whoever runs the loop shall meet it
			results[i] = l.makeCall(ctx, i, c)
		})
	}
	wait.Wait()
	if i := slices.IndexFunc(panics, func(p any) bool { return p != nil }); i >= 0 {
		panic(fmt.Sprintf("tool %.100q: %v", calls[i].name, panics[i]))
	}
	var end End
	var done bool
	if last >= 0 {
		end, results[last] = l.readComplete(calls[last])
		done = !results[last].Failed
	}
	for i, c := range calls {
		if c.name == completeTool && i != last { // it can end once
			results[i] = result{ID: c.id, Text: "It was called twice; the last call counts.", Failed: true}
		}
		l.Tell(journalResult(c, results[i]))
	}
	l.boundResults(results)
	l.answerCalls(results)
	if done {
		return l.finish(ctx, end)
	}
	if left := l.MaxTurns - l.turns; left == 1 {
		l.ask("You have one answer left: call " + completeTool + " now, with what you have.")
	}
	return End{}, false
}

// makeCall makes one call.
func (l *loop) makeCall(ctx context.Context, n int, c call) result {
	r := result{ID: c.id, Failed: true}
	switch {
	case n >= maxCalls:
		r.Text = fmt.Sprintf("At most %d calls are made in one turn; this one was not.", maxCalls)
	case !slices.ContainsFunc(l.Tools, func(t Tool) bool { return t.Name == c.name }):
		l.Denied(text.CutLine(c.name, 100), text.CutBytes(string(c.input), 512), "no tool of this name is allowed in this run")
		r.Text = fmt.Sprintf("There is no tool %.100q.", c.name)
	case c.wrong != "":
		r.Text = "It was not called: " + c.wrong + "."
	default:
		r.Text, r.Failed = l.Call(ctx, c.name, c.input)
	}
	if strings.TrimSpace(r.Text) == "" {
		r.Text = "(nothing)"
	}
	return r
}

// offered are the tools with our own.
func (l *loop) offered() []Tool {
	if l.SingleCall {
		return nil
	}
	return append(slices.Clone(l.Tools), completion)
}
