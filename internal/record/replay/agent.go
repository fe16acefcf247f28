package replay

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
	"nightcrier.dev/nightcrier/internal/text"
)

// AgentTape reads, from the workspace in dir, the tape of what was answered to an agent in
// this attempt, or, where that has none, in the first attempt that has one. A question that
// is asked more often than it was then gets the last answer again. It is a NotFound error
// when no attempt has a tape.
func AgentTape(dir string, attempt int) (*Player, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "the record in %s cannot be opened: %w", dir, err)
	}
	r := &Record{dir: dir, root: root}
	defer r.Close()
	p, err := r.Tape(Agent(attempt))
	for n := 1; nightcrier.CodeOf(err) == nightcrier.NotFound && n <= MaxAttempts; n++ {
		p, err = r.Tape(Agent(n))
	}
	if err == nil {
		p.stays = true
	}
	return p, err
}

// Again replays from then and records in r, so that a replayed run has a tape of its own.
// It never asks.
func (r *Recorder) Again(then *Player) tape.Take {
	return func(name string, into any, _ func() error) error {
		return r.Take(name, into, func() error {
			return then.Take(name, into, func() error { return errNotRecorded })
		})
	}
}

// errNotRecorded is what an agent is told.
var errNotRecorded = nightcrier.Errorf(nightcrier.NotFound, "not recorded: nobody asked for this when the incident was investigated, which says nothing about what the answer would be")

// HasAnswers reports whether what others answered to an agent is on tape. It is an Invalid
// error when a tape of that cannot be read.
func (r *Record) HasAnswers() (has bool, err error) {
	for n := 1; n <= MaxAttempts; n++ {
		_, one := r.Tape(Agent(n))
		if nightcrier.CodeOf(one) != nightcrier.NotFound {
			has, err = true, errors.Join(err, one)
		}
	}
	return has, err
}

// Answered compares what agents asked of others then and now: missed are the questions
// that were not answered then, or not as often, left those that were not asked now.
func (r *Record) Answered(now *Record) (missed, left []string) {
	before, after := r.agentQuestions(), now.agentQuestions()
	return listFewer(before, after), listFewer(after, before)
}

// agentQuestions counts what agents asked of others, by name.
func (r *Record) agentQuestions() map[string]int {
	all := map[string]int{}
	for n := 1; n <= MaxAttempts; n++ {
		p, err := r.Tape(Agent(n))
		if err != nil {
			continue // which HasAnswers tells
		}
		for name, list := range p.entries {
			all[name] += len(slices.DeleteFunc(list, func(e entry) bool { return e.Dropped }))
		}
	}
	return all
}

// listFewer names what one has less of than another.
func listFewer(one, other map[string]int) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(other)) {
		switch n := other[name] - one[name]; {
		case n > 0 && one[name] > 0:
			names = append(names, fmt.Sprintf("%s (%d times more)", text.CutBytes(name, maxNamed), n))
		case n > 0:
			names = append(names, text.CutBytes(name, maxNamed))
		}
	}
	return names
}
