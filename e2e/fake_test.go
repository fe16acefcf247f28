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
	"nightcrier.dev/nightcrier/internal/agent/worker"
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
	agents  map[string]*fakeAgent // by directory
	busy    map[string]string     // cluster → run
	order   []backend.Spec         // in the order of their start
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
	return &fakeWorkers{TB: tb, takes: 2 * time.Millisecond, agents: map[string]*fakeAgent{}, busy: map[string]string{}}
}

// Launch implements run.Workers.
func (f *fakeWorkers) Launch(_ context.Context, dir string, spec backend.Spec, _ *backend.Credential, _ []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.agents[dir] != nil {
		return nil
	}
	if other := f.busy[spec.Cluster]; other != "" {
		f.Errorf("runs %s and %s work on cluster %s at once", other, spec.RunID, spec.Cluster)
	}
	f.busy[spec.Cluster] = spec.RunID
	f.order = append(f.order, spec)
	f.running++
	f.most = max(f.most, f.running)
	a := &fakeAgent{cancel: make(chan struct{}), done: make(chan struct{})}
	f.agents[dir] = a
	go f.work(a, spec)
	return nil
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

func (f *fakeWorkers) agent(dir string) *fakeAgent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[dir]
}

// Learned implements run.Workers.
func (*fakeWorkers) Learned(string) ([]byte, error) { return nil, nil }

// Follow implements run.Workers.
func (f *fakeWorkers) Follow(ctx context.Context, dir string, _ int64, _ func(nightcrier.JournalEntry) error) (nightcrier.AgentResult, error) {
	a := f.agent(dir)
	if a == nil {
		return nightcrier.AgentResult{}, fmt.Errorf("no agent was launched in %s", dir)
	}
	select {
	case <-a.done:
		return a.result, nil
	case <-ctx.Done():
		return nightcrier.AgentResult{}, nightcrier.Errorf(nightcrier.Interrupted, "follow: %w", ctx.Err())
	}
}

// Cancel implements run.Workers.
func (f *fakeWorkers) Cancel(_ context.Context, dir, _ string) error {
	if a := f.agent(dir); a != nil {
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
