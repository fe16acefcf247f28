package replay

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
)

// AgentTape reads, from the workspace in dir, the tape of what was answered to an agent in
// this attempt, or, where that has none, in the first attempt that has one. It is a NotFound
// error when no attempt has a tape.
func AgentTape(dir string, attempt int) (*Player, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "the record in %s cannot be opened: %w", dir, err)
	}
	r := &Record{dir: dir, root: root}
	defer r.Close()
	p, err := r.Tape(Agent(attempt))
	if steps := r.agents(); nightcrier.CodeOf(err) == nightcrier.NotFound && len(steps) > 0 {
		p, err = r.Tape(steps[0])
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

// agents are the attempts that have a tape.
func (r *Record) agents() (steps []string) {
	files, _ := fs.Glob(r.root.FS(), File("agent-*")) // a directory that cannot be read has none
	for _, f := range files[:min(len(files), maxAgents)] {
		steps = append(steps, strings.TrimSuffix(path.Base(f), tapeSuffix))
	}
	return steps
}

// maxAgents bounds the attempts of a record, far above those of any run.
const maxAgents = 20

// errNotRecorded is the answer to what was not asked then. It is no NotFound error, from
// which somebody would conclude that there is no such thing.
var errNotRecorded = nightcrier.Errorf(nightcrier.Refused, "not recorded: nobody asked for this when the incident was investigated, which says nothing about what the answer would be")

// HasAnswers reports whether what others answered to an agent is on tape. It is an Invalid
// error when a tape of that cannot be read.
func (r *Record) HasAnswers() (has bool, err error) {
	for _, step := range r.agents() {
		_, one := r.Tape(step)
		has, err = true, errors.Join(err, one)
	}
	return has, err
}
