package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
)

// fakeWorkers are agents without processes, for hundreds at once. They outlive an
// app as workers do, and notice when two of them work on one cluster.
type fakeWorkers struct {
	testing.TB
	// gate, if not nil, holds every agent until it is closed.
	gate chan struct{}
	// takes is how long an agent works.
	takes time.Duration
	// badKey lets every agent fail for want of a valid key.
	badKey atomic.Bool

	mu      sync.Mutex
	agents  map[backend.Handle]*fakeAgent
	busy    map[string]string // cluster → run
	order   []backend.Spec    // in the order of their start
	running int
	most    int
}

type fakeAgent struct {
	cancel chan struct{}
	done   chan struct{}
	once   sync.Once
	result nightcrier.AgentResult // valid when done
}

func newFakeWorkers(tb testing.TB) *fakeWorkers {
	return &fakeWorkers{TB: tb, takes: 2 * time.Millisecond, agents: map[backend.Handle]*fakeAgent{}, busy: map[string]string{}}
}

// Launch implements run.Workers.
func (f *fakeWorkers) Launch(_ context.Context, spec backend.Spec, _ *backend.Credential, _ []byte) (backend.Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := backend.Handle{Backend: "fake", ID: spec.WorkerName()}
	if f.agents[h] != nil {
		return h, nil
	}
	if other := f.busy[spec.Cluster]; other != "" {
		f.Errorf("runs %s and %s work on cluster %s at once", other, spec.RunID, spec.Cluster)
	}
	f.busy[spec.Cluster] = spec.RunID
	f.order = append(f.order, spec)
	f.running++
	f.most = max(f.most, f.running)
	a := &fakeAgent{cancel: make(chan struct{}), done: make(chan struct{})}
	f.agents[h] = a
	go f.work(a, spec)
	return h, nil
}

func (f *fakeWorkers) work(a *fakeAgent, spec backend.Spec) {
	defer close(a.done)
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-a.cancel:
		}
	}
	a.result = nightcrier.AgentResult{State: nightcrier.StateSuccess, TerminalEvent: "success", StartedAt: time.Now(), EndedAt: time.Now().Add(f.takes)}
	select {
	case <-a.cancel:
		a.result.State, a.result.FailureClass, a.result.FailureReason = nightcrier.StateCancelled, nightcrier.FailCancelled, "cancelled"
	case <-time.After(f.takes):
		facts, err := os.ReadFile(filepath.Join(spec.Workspace, "context", "initial_triage_report.md"))
		if err == nil {
			err = os.WriteFile(filepath.Join(spec.Workspace, ".scratch", "investigation.md"), facts, 0o600)
		}
		if err != nil {
			a.result = nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailAgent, FailureReason: err.Error()}
		}
	}
	if f.badKey.Load() {
		a.result = nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailAuth, FailureReason: "401: the key is not valid"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, spec.Cluster)
	f.running--
}

func (f *fakeWorkers) agent(h backend.Handle) *fakeAgent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[h]
}

// List implements run.Workers: nothing is left of an agent without processes.
func (*fakeWorkers) List(context.Context) ([]backend.Owned, error) { return nil, nil }

// Follow implements run.Workers.
func (f *fakeWorkers) Follow(ctx context.Context, h backend.Handle, _ int64, _ func(nightcrier.JournalEntry) error) (backend.Ended, error) {
	a := f.agent(h)
	if a == nil {
		return backend.Ended{}, fmt.Errorf("no agent was launched as %v", h)
	}
	select {
	case <-a.done:
		return backend.Ended{Result: a.result}, nil
	case <-ctx.Done():
		return backend.Ended{}, nightcrier.Errorf(nightcrier.Interrupted, "follow: %w", ctx.Err())
	}
}

// Cancel implements run.Workers.
func (f *fakeWorkers) Cancel(_ context.Context, h backend.Handle, _ string) error {
	if a := f.agent(h); a != nil {
		a.once.Do(func() { close(a.cancel) })
	}
	return nil
}

// launched lists the agents in the order of their start.
func (f *fakeWorkers) launched() []backend.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]backend.Spec(nil), f.order...)
}
