package store

import (
	"context"
	"encoding/json"
	"errors"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// PastRun is a run that another program did: what it was called with, and its steps.
type PastRun struct {
	Run   nightcrier.Run
	Input json.RawMessage
	Steps []nightcrier.Step
}

// check refuses what is no run that has ended.
func (p *PastRun) check() error {
	n := NewRun{ID: p.Run.ID, Subject: p.Run.Subject, Pipeline: p.Run.Pipeline, Key: p.Run.Key, Executor: p.Run.Executor, TriggeredBy: p.Run.TriggeredBy, Input: p.Input}
	if err := n.check(); err != nil {
		return err
	}
	for i := range p.Steps {
		if err := checkStep(&p.Steps[i]); err != nil {
			return err
		}
	}
	p.Run.Subject.Title = text.CutLine(p.Run.Subject.Title, maxRunTitle)
	p.Run.FailureReason = text.CutBytes(p.Run.FailureReason, maxStepReason)
	if p.Run.ID == "" || !p.Run.Outcome.Terminal() || p.Run.QueuedAt.IsZero() || p.Run.EndedAt.Before(p.Run.QueuedAt) {
		return nightcrier.Errorf(nightcrier.Invalid, "a run of the past needs an id, how it ended, and when")
	}
	return nil
}

// ImportRuns keeps runs of the past, each once, all or none; it returns how many are new.
func (s *Store) ImportRuns(ctx context.Context, all []PastRun) (imported int, err error) {
	var wrong []error
	for i := range all {
		wrong = append(wrong, all[i].check())
	}
	if err := errors.Join(wrong...); err != nil {
		return 0, err
	}
	err = s.writeTransaction(ctx, "import runs", func(t *tx) error {
		imported = 0
		for _, p := range all {
			r := p.Run
			n, err := t.execStatement(`INSERT INTO runs (`+runColumns+`, storm_id, input)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'finished', '', ?, ?, ?, ?, ?, ?, ?, 0, '', '', ?, 0, '', '', '', 0, '', ?) ON CONFLICT (id) DO NOTHING`,
				r.ID, string(r.Subject.Kind), r.Subject.ID, r.Subject.Title, r.Pipeline, r.Key, r.Executor, r.Model, int(r.Severity),
				string(r.Outcome), string(r.FailureClass), r.FailureReason, r.CostUSD, toMicros(r.QueuedAt), toMicros(r.QueuedAt), toMicros(r.EndedAt), r.TriggeredBy, []byte(p.Input))
			if err != nil {
				return err
			}
			imported += int(n)
			for _, step := range p.Steps {
				if n == 0 {
					break
				}
				if err := t.addStep(step); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return imported, err
}
