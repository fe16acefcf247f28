package loop

import (
	"context"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// A conversation that grows is written anew before it is longer than the model takes: the model
// sums it up, and goes on from its own notes. Results are bounded before, so that one turn does
// not fill what is left.

// bytesPerToken is how many bytes of text are one token at least, mostly.
const bytesPerToken = 3

// maxTurnResults bounds the results of one turn, in bytes.
func (l *loop) maxTurnResults() int { return l.Window / 2 }

// boundResults shortens the results of one turn where they are too much together.
func (l *loop) boundResults(results []result) {
	total := 0
	for _, r := range results {
		total += len(r.Text)
	}
	if total <= l.maxTurnResults() {
		return
	}
	each := max(l.maxTurnResults()/len(results), minResult)
	for i := range results {
		results[i].Text = text.CutMiddle(results[i].Text, each)
	}
}

// minResult is what is left of a result at least, in bytes.
const minResult = 1 << 10

// estimateTokens is how many tokens the next request has, about.
func (l *loop) estimateTokens() int {
	return l.used + max(0, l.countBytes()-l.usedBytes)/bytesPerToken
}

// makeRoom has the model sum up a conversation that nears its end.
func (l *loop) makeRoom(ctx context.Context) error {
	before := l.estimateTokens()
	if before < l.Window*7/10 || len(l.history) < 3 {
		return nil
	}
	l.ask("This conversation nears its end; what you write now is all that you will have of it. Write down for yourself what you need to go on: what was asked, what was found and in which evidence it stands, what was done, what is still to be done. Call nothing.")
	a, err := l.askModel(ctx, false)
	if err != nil {
		return err
	}
	notes := strings.TrimSpace(a.text)
	if notes == "" {
		l.shrinkResults()
		l.used = 0
		return nil
	}
	l.history = nil
	l.conversation.ask(l.Prompt + "\n\n---\n\nYou have worked on this already. The conversation was left out to make room; these are your notes of it:\n\n" + notes)
	l.used, l.usedBytes = 0, 0
	l.Tell(logItem("the conversation had about %d tokens: it goes on from notes of the model's, %d bytes", before, len(notes)))
	return nil
}

// shrinkResults shortens all results but those that came last. It reports whether that was any
// help.
func (l *loop) shrinkResults() (shorter bool) {
	before := l.countBytes()
	for i := range l.history {
		most := minResult
		if i == len(l.history)-1 {
			most = 8 * minResult
		}
		for j := range l.history[i].Results {
			r := &l.history[i].Results[j]
			r.Text = text.CutMiddle(r.Text, most)
		}
	}
	return l.countBytes() < before*9/10
}
