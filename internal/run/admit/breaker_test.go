package admit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// memory keeps breakers the way a store does.
type memory struct {
	states map[string]store.BreakerState
	err    error
}

func (m *memory) Breakers(context.Context) (list []store.BreakerState, err error) {
	for _, s := range m.states {
		list = append(list, s)
	}
	return list, nil
}

func (m *memory) SaveBreaker(_ context.Context, s store.BreakerState) error {
	if m.err == nil {
		m.states[s.Executor] = s
	}
	return m.err
}

func failed(class nightcrier.FailureClass) nightcrier.AgentResult {
	return nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: class, FailureReason: "because of " + string(class)}
}

var succeeded = nightcrier.AgentResult{State: nightcrier.StateSuccess}

func newBreaker(t *testing.T, m *memory, now func() time.Time) *Breaker {
	t.Helper()
	b, err := OpenBreaker(t.Context(), m, now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func report(t *testing.T, b *Breaker, r nightcrier.AgentResult) Transition {
	t.Helper()
	tr, err := b.Report(t.Context(), "claude-code", r)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	auth, quota, start := failed(nightcrier.FailAuth), failed(nightcrier.FailQuota), failed(nightcrier.FailStart)
	tests := []struct {
		name    string
		results []nightcrier.AgentResult
		want    []Transition // the last ones
	}{
		{"three in a row", []nightcrier.AgentResult{auth, quota, start}, []Transition{"", "", BreakerOpened}},
		{"told once", []nightcrier.AgentResult{auth, auth, auth, auth}, []Transition{"", "", BreakerOpened, ""}},
		{"a success between", []nightcrier.AgentResult{auth, auth, succeeded, auth, auth}, []Transition{"", "", "", "", ""}},
		{"an agent that worked badly", []nightcrier.AgentResult{auth, auth, failed(nightcrier.FailInvalidOutput), auth}, []Transition{"", "", "", ""}},
		{"a cancel shows nothing", []nightcrier.AgentResult{auth, auth, failed(nightcrier.FailCancelled), auth}, []Transition{"", "", "", BreakerOpened}},
		{"a crash shows nothing", []nightcrier.AgentResult{auth, failed(nightcrier.FailCrash), auth, failed(nightcrier.FailLost), auth}, []Transition{"", "", "", "", BreakerOpened}},
		{"up again", []nightcrier.AgentResult{auth, auth, auth, failed(nightcrier.FailTimeout), succeeded, succeeded}, []Transition{"", "", BreakerOpened, "", BreakerClosed, ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBreaker(t, &memory{states: map[string]store.BreakerState{}}, nil)
			var got []Transition
			for _, r := range tt.results {
				got = append(got, report(t, b, r))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("transitions %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBreakerProbes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := &memory{states: map[string]store.BreakerState{}}
	clock := func() time.Time { return now }
	b := newBreaker(t, m, clock)
	if wait, ok := b.NextProbe(); ok || len(b.Held()) != 0 {
		t.Errorf("a new breaker holds %v, probes in %s", b.Held(), wait)
	}
	for range tripAfter {
		report(t, b, failed(nightcrier.FailAuth))
	}
	held := func(want ...string) {
		t.Helper()
		if !slices.Equal(b.Held(), want) {
			t.Errorf("held %v, want %v", b.Held(), want)
		}
	}
	held("claude-code")
	if wait, ok := b.NextProbe(); !ok || wait != probeEvery {
		t.Errorf("the next probe is in %s (%t)", wait, ok)
	}
	now = now.Add(probeEvery)
	held()
	b.Admitted("claude-code")
	held("claude-code")
	report(t, b, failed(nightcrier.FailAuth))
	held("claude-code")

	again := newBreaker(t, m, clock) // a restart
	if s := again.States(); len(s) != 1 || !s[0].Open || s[0].LastError == "" {
		t.Errorf("after a restart: %+v", s)
	}
	if tr := report(t, again, succeeded); tr != BreakerClosed || len(again.Held()) != 0 || m.states["claude-code"].Open {
		t.Errorf("a success gave %q, held %v, stored %+v", tr, again.Held(), m.states)
	}
}

func TestBreakerNotRecordedNotTold(t *testing.T) {
	t.Parallel()
	m := &memory{states: map[string]store.BreakerState{}}
	b := newBreaker(t, m, nil)
	report(t, b, failed(nightcrier.FailAuth))
	report(t, b, failed(nightcrier.FailAuth))
	m.err = errors.New("disk full")
	if tr, err := b.Report(t.Context(), "claude-code", failed(nightcrier.FailAuth)); err == nil || tr != "" {
		t.Errorf("transition %q, error %v", tr, err)
	}
	m.err = nil
	if tr := report(t, b, failed(nightcrier.FailAuth)); tr != BreakerOpened {
		t.Errorf("transition %q once the store works", tr)
	}
}
