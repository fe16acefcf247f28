package triage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/run"
)

// reads journals what the preparation asks of the cluster. What came of a read waits
// until it is known under which id it was kept. Reads are made at the same time, so
// that an answer and what is kept of it find each other by the source of the read.
type reads struct {
	note func(key string, it journal.Item) error
	rec  *evidence.Recorder
	// since is when the run began: what was kept before is an earlier run's.
	since time.Time
	// try keeps the entries of a repeated step apart: it asks again.
	try string

	mu       sync.Mutex
	answered map[string]journal.Request // by source, not journaled yet
	told     map[string]bool            // evidence ids that the journal has
	asked    int                        // how many were journaled
}

// newReads are those of a step. What the journal tells already, of earlier steps, of the
// agent, or of this step before a crash, is not told again.
func (s *session) newReads(ctx context.Context) *reads {
	return &reads{
		note: func(key string, it journal.Item) error { return s.AppendNote(ctx, key, it) },
		rec:  s.Evidence, since: s.Incident.StartedAt, try: nightcrier.NewID(), answered: map[string]journal.Request{}, told: maps.Clone(s.OfRun),
	}
}

// look is a step's look into the cluster of its incident.
type look struct {
	*reads
	View
	event nightcrier.Event // what led there
}

// lookIntoCluster opens a look, which is kept under the step's name.
func (s *session) lookIntoCluster(ctx context.Context, step string) (*look, error) {
	ev, err := s.Store.Event(ctx, s.Incident.EventID)
	if err != nil {
		return nil, err
	}
	return s.beginLook(ctx, step, ev)
}

// beginLook opens a look for an event.
func (s *session) beginLook(ctx context.Context, step string, ev nightcrier.Event) (*look, error) {
	r := s.newReads(ctx)
	view, err := s.Clusters.Look(Look{Cluster: s.Incident.Cluster, RunID: s.Order.RunID, Step: step, Workspace: s.Workspace, Mask: s.Mask, Audit: r.auditRequest})
	return &look{r, view, ev}, err
}

// diagnose applies the rules to what is seen now.
func (s *session) diagnose(ctx context.Context, l *look, sources *diagnose.Sources) (diagnose.Diagnosis, error) {
	return diagnose.Run(ctx, diagnose.Input{
		Incident: &s.Incident, Event: l.event, Evidence: l, Mask: s.Mask.String, Reader: l.Reader, Sources: sources, Now: l.clock,
	})
}

// clock stands still.
func (l *look) clock() time.Time { return l.Now }

func (l *look) close() error { return errors.Join(l.flushAnswers(), l.View.Close()) }

// auditRequest takes what the guard says of a request. A read may need more than one: the
// last of them has the answer.
func (l *reads) auditRequest(ctx context.Context, q journal.Request) error {
	source := diagnose.SourceOf(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.tellAnswer(source, ""); err != nil {
		return err
	}
	if q.Done {
		l.answered[source] = q
		return nil
	}
	return l.appendRequest(q)
}

// Record implements diagnose.Recorder.
func (l *reads) Record(kind, source string, body []byte) (string, error) {
	id, err := l.rec.Record(kind, source, body)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return id, l.tellAnswer(source, id)
}

// flushAnswers journals what still waits.
func (l *reads) flushAnswers() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(l.answered)) {
		if err := l.tellAnswer(source, ""); err != nil {
			return err
		}
	}
	return nil
}

// tellAnswer journals the answer that waits, with the evidence that it was kept as,
// "" for none. The caller holds mu.
func (l *reads) tellAnswer(source, id string) error {
	q, ok := l.answered[source]
	if !ok {
		return nil
	}
	delete(l.answered, source)
	if kept, ok := l.rec.Item(id); ok {
		q.Evidence, q.SHA256, l.told[id] = id, kept.SHA256, true
	}
	return l.appendRequest(q)
}

// appendRequest journals one entry. The caller holds mu.
func (l *reads) appendRequest(q journal.Request) error {
	l.asked++
	return l.note(fmt.Sprintf("read:%s/%d", l.try, l.asked), journal.OfRequest(q))
}

// untoldEvidence returns the entries for evidence that no request was told of: what came by
// another way, and what a crash kept from being told.
func (l *reads) untoldEvidence() []run.Remark {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []run.Remark
	for _, it := range l.rec.Items() {
		if !l.told[it.ID] && !it.At.Before(l.since) {
			list = append(list, run.Remark{Key: "evidence:" + it.ID, Item: journal.OfEvidence(journal.Evidence{
				ID: it.ID, Kind: it.Kind, Source: it.Source, Bytes: int(it.Bytes), SHA256: it.SHA256,
			})})
		}
	}
	return list
}
