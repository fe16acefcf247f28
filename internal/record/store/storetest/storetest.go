// Package storetest is the conformance suite of the store: what every database
// under it must do, written once and run on each.
package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Exercise runs the suite. fresh returns the options of a new, empty database
// each time it is called.
func Exercise(t *testing.T, fresh func(testing.TB) store.Options) {
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			o := fresh(t)
			o.Now = clock.Now
			test(t, &bench{Store: openStore(t, o), options: o, clock: clock})
		})
	}
}

// suite is every test, by name.
var suite = map[string]func(*testing.T, *bench){
	"accept/opens":              acceptOpens,
	"accept/joins":              acceptJoins,
	"accept/dedupe window":      acceptDedupeWindow,
	"accept/same event twice":   acceptTwice,
	"accept/many events":        manyEvents,
	"condition/nothing":         clearNothing,
	"condition/waiting":         clearWaiting,
	"condition/marked":          clearByAPerson,
	"incidents/searched":        searchIncidents,
	"condition/stranger":        strangersWord,
	"condition/stale alerts":    staleAlerts,
	"condition/closed":          clearClosed,
	"condition/look again":      looksAgain,
	"condition/retry in vain":   retriesInVain,
	"condition/still there":     stillThere,
	"condition/not the same":    notStillThere,
	"condition/many sources":    manySources,
	"condition/many alerts":     lastAlertEnds,
	"alerts/late ends":          lateEnds,
	"accept/again, unseen":      repeatedUnseen,
	"admit/order":               admitOrder,
	"admit/rise in severity":    admitRise,
	"admit/limits":              admitLimits,
	"admit/closed executors":    admitClosed,
	"queue/bound":               queueBound,
	"queue/expiry":              queueExpiry,
	"storm/begins":              stormBegins,
	"storm/admitted ones count": stormCountsAdmitted,
	"storm/window":              stormNeedsTheWindow,
	"storm/ends":                stormEnds,
	"storm/ends by itself":      stormEndsByItself,
	"storm/spares retries":      stormSparesRetries,
	"run/life":                  runLife,
	"run/fails":                 runFails,
	"run/adopted":               runAdopted,
	"run/cancel queued":         cancelQueued,
	"run/cancel admitted":       cancelAdmitted,
	"run/retry":                 testRetry,
	"run/limits of skills":      limitsOfSkills,
	"subject/life":              subjectLife,
	"subject/json":              subjectJSON,
	"subject/refuses":           enqueueRefuses,
	"subject/twice":             enqueueTwice,
	"subject/call-twice":        callTwice,
	"subject/keys":              keysOfAll,
	"subject/past":              importRuns,
	"subject/queue":             queueOfAll,
	"subject/cancel previous":   cancelPrevious,
	"subject/cancel for none":   cancelForNone,
	"subject/deadline":          deadlinePasses,
	"subject/cancel":            cancelAnyRun,
	"subject/retry":             retryAnyRun,
	"subject/prune":             pruneRuns,
	"runs/list":                 listRuns,
	"runs/waits":                whatRunsWaitFor,
	"runs/waits and admission":  waitsMatchAdmission,
	"schedule/ticks":            scheduleTicks,
	"schedule/missed":           scheduleMissed,
	"schedule/at once":          scheduleAtOnce,
	"steps/life":                stepLife,
	"steps/refuses":             stepRefuses,
	"steps/retry":               retryFromStep,
	"steps/retry refused":       retryFromStepRefused,
	"approval/life":             approvalLife,
	"approval/refuses":          approvalRefuses,
	"approval/expires":          approvalExpires,
	"approval/parks":            approvalParks,
	"journal":                   testJournal,
	"journal/refuses":           journalRefuses,
	"events/suppress":           testSuppress,
	"events/prune":              testPrune,
	"events/joined payloads":    joinedPayloadsAreBounded,
	"lists":                     testLists,
	"not found":                 notFound,
	"notifications":             testNotifications,
	"posts":                     testPosts,
	"told/retry":                toldAgain,
	"told/rise":                 riseTold,
	"told/same cause":           sameCauseTold,
	"told/same cause not told":  sameCauseNotTold,
	"told/in doubt":             toldInDoubt,
	"told/by hand":              toldByHand,
	"cause/links":               causeLinks,
	"cause/older is the root":   olderIsTheRoot,
	"cause/not related":         notRelated,
	"cause/changes":             causeChanges,
	"cause/at once":             causesAtOnce,
	"over/told":                 overTold,
	"over/flaps":                overFlaps,
	"over/with its cause":       overWithItsCause,
	"breakers":                  testBreakers,
	"memory/notes":              testNotes,
	"memory/recall":             testRecall,
	"questions/life":            questionLife,
	"questions/bounds":          questionBounds,
	"memory/retried":            recallRetried,
	"concurrent/accept":         concurrentAccept,
	"concurrent/admit":          concurrentAdmit,
	"concurrent/follow":         concurrentFollow,
}

// bench is one store under test with its clock.
type bench struct {
	*store.Store
	options store.Options
	clock   *Clock
	n       int
}

func openStore(tb testing.TB, o store.Options) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

// Clock is a clock that moves only when told to.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock that stands at a fixed time.
func NewClock() *Clock { return &Clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the time it stands at.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Advance moves it on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// Policy is the default policy without storms and without a bound.
func Policy() store.AcceptPolicy {
	return store.AcceptPolicy{DedupeWindow: 5 * time.Minute, Pipeline: "k8s-incident-triage", Executor: "script"}
}

// Event returns a warning about one Deployment of a cluster.
func Event(cluster, workload string) nightcrier.Event {
	return nightcrier.Event{
		ID: nightcrier.NewID(), Source: "mcp", Cluster: cluster, FaultType: "CrashLoop", Severity: nightcrier.Warning,
		Resource:    nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: workload + "-7d9f8b6c5d-x2x9z"},
		Owner:       nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: workload},
		Class:       nightcrier.ClassWorkload,
		Fingerprint: fmt.Sprintf("%s/shop/Deployment/%s/workload", cluster, workload),
		Raw:         []byte(`{"data":{"faultType":"CrashLoop"}}`),
	}
}

// newEvent is Event at the bench's time.
func (b *bench) newEvent(cluster, workload string, s nightcrier.Severity) nightcrier.Event {
	ev := Event(cluster, workload)
	ev.ReceivedAt, ev.Severity = b.clock.Now(), s
	return ev
}

// acceptEvent accepts ev, or ends the test.
func (b *bench) acceptEvent(t *testing.T, ev nightcrier.Event, p store.AcceptPolicy) store.Decision {
	t.Helper()
	d, err := b.Accept(t.Context(), ev, p)
	if err != nil {
		t.Fatalf("accept %s: %v", ev.Fingerprint, err)
	}
	return d
}

// admitRun admits the next run under generous limits, or ends the test.
func (b *bench) admitRun(t *testing.T) nightcrier.Run {
	t.Helper()
	run, err := b.AdmitNext(t.Context(), store.Limits{Total: 100, PerKey: 1})
	if err != nil || run == nil {
		t.Fatalf("admit: %v, %v", run, err)
	}
	return *run
}

// investigateNext takes the next run from admission to its end.
func (b *bench) investigateNext(t *testing.T, status nightcrier.IncidentStatus) nightcrier.Run {
	t.Helper()
	run := b.admitRun(t)
	if _, err := b.BeginRun(t.Context(), run.ID); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if err := b.FinishRun(t.Context(), store.Finish{RunID: run.ID, Status: status}); err != nil {
		t.Fatalf("finish: %v", err)
	}
	return run
}

func wantCode(t *testing.T, err error, code nightcrier.Code) {
	t.Helper()
	if got := nightcrier.CodeOf(err); got != code {
		t.Errorf("error %v has code %q, want %q", err, got, code)
	}
}
