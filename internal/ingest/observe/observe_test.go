package observe_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// stand is an observer of a scripted API server.
type stand struct {
	*testing.T
	api    *apitest.Server
	ledger *ledger
	kinds  []detect.Watched
	o      *observe.Observer
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	faults []string
	broken error // of the sink
	tries  int
}

// followed are two that behave and one that a cluster may lack.
var followed = []detect.Watched{
	{Kind: detect.Pod, APIVersion: "v1"}, {Kind: detect.Node, APIVersion: "v1", Optional: true}, {Kind: detect.Event, APIVersion: "v1", Optional: true},
}

// quick are timings that a test can wait for.
func quick() observe.Timings {
	return observe.Timings{BackoffMin: 2 * time.Millisecond, BackoffMax: 20 * time.Millisecond, Denied: 50 * time.Millisecond,
		Brief: time.Nanosecond, Tick: 10 * time.Second, Probe: 20 * time.Millisecond}
}

func newStand(t *testing.T) *stand {
	s := &stand{T: t, api: apitest.New(t), ledger: newLedger(), kinds: followed}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.put("pods", name)
	}
	s.put("nodes", "n1")
	return s
}

func (s *stand) put(resource, name string) {
	s.api.Put(resource, "shop", name, fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"shop"}}`, name))
}

func (s *stand) start(timings observe.Timings) *stand {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.stop, s.done = cancel, make(chan struct{})
	s.o = observe.New(observe.Config{
		API: s.api.Client(s), Detector: s.ledger, Kinds: s.kinds, Sink: s.sink, Timings: timings,
		Logger: slog.New(slog.DiscardHandler),
	})
	go func() {
		defer close(s.done)
		s.o.Run(ctx)
	}()
	s.Cleanup(func() {
		cancel()
		<-s.done
		if s.ledger.overlap.Load() {
			s.Error("the detector was called by two at once")
		}
	})
	return s
}

func (s *stand) sink(_ context.Context, f detect.Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.broken != nil {
		return s.broken
	}
	s.faults = append(s.faults, f.Resource.Name)
	return nil
}

// eventually waits until a condition holds; what it returns says what is missing.
func (s *stand) eventually(missing func() string) {
	s.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		text := missing()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("still: %s; status %+v", text, s.o.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *stand) state(want nightcrier.SourceState) {
	s.Helper()
	s.eventually(func() string {
		if got := s.o.Status().State; got != want {
			return fmt.Sprintf("state %s, want %s", got, want)
		}
		return ""
	})
}

// sees waits until the detector knows that these kinds are followed, or missing,
// and no others.
func (s *stand) sees(want ...detect.Kind) {
	s.Helper()
	s.eventually(func() string {
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		for _, k := range followed {
			known := !s.ledger.blind[k.Kind] && s.ledger.ends[k.Kind] > 0
			if known != slices.Contains(want, k.Kind) {
				return fmt.Sprintf("%s followed: %t", k.Kind, known)
			}
		}
		return ""
	})
}

// pods waits until the ledger holds these and no others.
func (s *stand) pods(want ...string) {
	s.Helper()
	s.eventually(func() string {
		if got := s.ledger.has(detect.Pod); !slices.Equal(got, want) {
			return fmt.Sprintf("pods %v, want %v", got, want)
		}
		return ""
	})
}

func TestFollows(t *testing.T) {
	s := newStand(t)
	s.api.Behave("pods", apitest.Behaviour{PageSize: 2})
	s.put("events", "old")
	s.start(quick())
	<-s.o.Synced()
	s.state(nightcrier.SourceSubscribed)
	s.pods("a", "b", "c", "d")
	s.put("pods", "e")
	s.api.Remove("pods", "shop", "a")
	s.pods("b", "c", "d", "e")
	pods, events := s.api.Asked("pods"), s.api.Asked("events")
	if pods.Lists != 1 || pods.Pages != 2 || pods.Watches != 1 {
		t.Errorf("asked %+v", pods)
	}
	if !strings.Contains(events.ListQuery, "fieldSelector=type%3DWarning") || !strings.Contains(events.WatchQuery, "fieldSelector=type%3DWarning") {
		t.Errorf("asked for events %+v", events)
	}
	if st := s.o.Status(); len(st.Problems) > 0 || st.LastError != "" {
		t.Errorf("status %+v", st)
	}
}

// Each misbehaviour of a server, and what the observer knows when it is over:
// exactly what the server has.
func TestMisbehaviour(t *testing.T) {
	cases := map[string]struct {
		during func(*stand) // before it starts
		then   func(*stand) // while it is followed
		lists  bool         // the pods are listed again
	}{
		"the place in a list expires":       {during: func(s *stand) { s.api.Behave("pods", apitest.Behaviour{PageSize: 1, ExpirePages: 2}) }},
		"watches are dropped":               {then: func(s *stand) { s.api.Drop() }},
		"the version is too old":            {then: func(s *stand) { s.api.Expire() }, lists: true},
		"garbage in a list":                 {during: func(s *stand) { s.api.Behave("pods", apitest.Behaviour{Garbage: "<html>"}) }},
		"garbage in a watch":                {then: func(s *stand) { s.api.Behave("pods", apitest.Behaviour{Garbage: "<html>"}); s.api.Drop() }},
		"every request fails":               {during: func(s *stand) { s.api.Behave("", apitest.Behaviour{Status: 500}) }},
		"too many requests":                 {then: func(s *stand) { s.api.Behave("", apitest.Behaviour{Status: 429}); s.api.Drop() }},
		"the credential is not accepted":    {then: func(s *stand) { s.api.Behave("", apitest.Behaviour{Status: 401}); s.api.Drop() }},
		"watches end at once":               {then: func(s *stand) { s.api.Behave("pods", apitest.Behaviour{EndWatches: true}); s.api.Drop() }},
		"the credential may not, for a day": {during: func(s *stand) { s.api.Behave("pods", apitest.Behaviour{Status: 403}) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			if tc.during != nil {
				tc.during(s)
			}
			s.start(quick())
			if tc.then != nil {
				s.pods("a", "b", "c", "d")
				s.state(nightcrier.SourceSubscribed)
				tc.then(s)
			} else {
				s.eventually(func() string {
					if s.api.Asked("pods").Pages < 3 {
						return "pods are not asked for again"
					}
					return ""
				})
			}
			s.put("pods", "e")
			s.api.Remove("pods", "shop", "b")
			s.api.Behave("pods", apitest.Behaviour{})
			s.api.Behave("", apitest.Behaviour{})
			s.pods("a", "c", "d", "e")
			s.state(nightcrier.SourceSubscribed)
			if again := s.api.Asked("pods").Lists > 1; tc.then != nil && again != tc.lists {
				t.Errorf("listed again: %t, want %t", again, tc.lists)
			}
			if st := s.o.Status(); len(st.Problems) > 0 || tc.lists != (st.Relists > 0) && tc.then != nil {
				t.Errorf("status %+v", st)
			}
		})
	}
}

// What a cluster lacks or forbids is named and stops nothing else.
func TestDeniedKinds(t *testing.T) {
	s := newStand(t)
	s.api.Behave("nodes", apitest.Behaviour{Status: 403})
	s.api.Behave("events", apitest.Behaviour{Status: 404})
	s.start(quick())
	<-s.o.Synced()
	s.pods("a", "b", "c", "d")
	s.state(nightcrier.SourceSubscribed)
	st := s.o.Status()
	if len(st.Problems) != 2 || !strings.HasPrefix(st.Problems[0], "Node: ") || !strings.Contains(st.Problems[0], "may not") || !strings.HasPrefix(st.Problems[1], "Event: ") {
		t.Errorf("status %+v", st)
	}
	s.sees(detect.Pod, detect.Event)
	s.api.Behave("nodes", apitest.Behaviour{})
	s.eventually(func() string {
		if st := s.o.Status(); len(st.Problems) != 1 {
			return fmt.Sprintf("problems %v", st.Problems)
		}
		return ""
	})
	if got := s.ledger.has(detect.Node); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("nodes %v", got)
	}
}

// A kind whose requests hang holds nothing else up for longer than a call may take.
func TestHangs(t *testing.T) {
	s := newStand(t)
	s.api.Behave("pods", apitest.Behaviour{Hang: true})
	s.start(quick())
	s.sees(detect.Node, detect.Event)
	s.api.Behave("pods", apitest.Behaviour{})
	s.pods("a", "b", "c", "d")
	s.state(nightcrier.SourceSubscribed)
}

func TestStates(t *testing.T) {
	s := newStand(t)
	s.api.Behave("", apitest.Behaviour{Status: 503})
	s.start(quick())
	s.state(nightcrier.SourceDown)
	if st := s.o.Status(); st.LastError == "" || st.RetryAt.IsZero() {
		t.Errorf("status %+v", st)
	}
	s.api.Behave("", apitest.Behaviour{})
	s.state(nightcrier.SourceSubscribed)
	s.api.Behave("nodes", apitest.Behaviour{Status: 500})
	s.api.Drop()
	s.state(nightcrier.SourceStale)
	s.pods("a", "b", "c", "d")
	s.sees(detect.Pod, detect.Event)
	s.api.Behave("nodes", apitest.Behaviour{})
	s.state(nightcrier.SourceSubscribed)
	s.sees(detect.Pod, detect.Event, detect.Node)
	if st := s.o.Status(); !st.RetryAt.IsZero() || len(st.Problems) > 0 {
		t.Errorf("status %+v", st)
	}
}

// What a fault's sink cannot store now is stored later, once.
func TestSinkIsRetried(t *testing.T) {
	s := newStand(t)
	s.broken = nightcrier.Errorf(nightcrier.Unreachable, "the store is away")
	s.put("pods", "bad-1")
	s.start(quick())
	s.eventually(func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tries < 3 {
			return "the sink is not tried again"
		}
		return ""
	})
	if st := s.o.Status(); !strings.Contains(st.LastError, "the store is away") || st.Faults != 0 {
		t.Errorf("status %+v", st)
	}
	s.mu.Lock()
	s.broken = nil
	s.mu.Unlock()
	s.put("pods", "bad-2")
	s.eventually(func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Equal(s.faults, []string{"bad-1", "bad-2"}) {
			return fmt.Sprintf("faults %v", s.faults)
		}
		return ""
	})
	if st := s.o.Status(); st.Faults != 2 || st.LastFaultAt.IsZero() {
		t.Errorf("status %+v", st)
	}
}

func TestSinkRefuses(t *testing.T) {
	s := newStand(t)
	s.broken = nightcrier.Errorf(nightcrier.Invalid, "never")
	s.put("pods", "bad-1")
	s.start(quick())
	s.pods("a", "b", "bad-1", "c", "d")
	s.state(nightcrier.SourceSubscribed)
	if s.tries != 1 {
		t.Errorf("%d tries of what can never be stored", s.tries)
	}
}

// A sink that hangs holds up reading, not the status, and not the end.
func TestEndsWhileStoring(t *testing.T) {
	s := newStand(t)
	s.broken = nightcrier.Errorf(nightcrier.Unreachable, "the store is away")
	s.put("pods", "bad-1")
	s.start(quick())
	s.eventually(func() string {
		if s.o.Status().LastError == "" {
			return "no fault"
		}
		return ""
	})
	s.stop()
	<-s.done
}

func TestVitals(t *testing.T) {
	s := newStand(t)
	timings := quick()
	timings.Tick = 10 * time.Millisecond
	s.api.Unready("etcd failed: reason withheld")
	s.start(timings)
	s.eventually(func() string {
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		if s.ledger.ticks < 3 || !slices.Contains(s.ledger.ready, "false etcd failed: reason withheld") {
			return fmt.Sprintf("%d ticks, %d probes", s.ledger.ticks, len(s.ledger.ready))
		}
		return ""
	})
	s.api.Unready("")
	s.eventually(func() string {
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		if !slices.Contains(s.ledger.ready, "true ") {
			return fmt.Sprintf("%d probes", len(s.ledger.ready))
		}
		return ""
	})
}

// In some namespaces each is followed by itself: one that is forbidden is named
// and stops no other, and nothing else is asked for.
func TestSomeNamespaces(t *testing.T) {
	s := newStand(t)
	object := func(ns, name string) {
		s.api.Put("pods", ns, name, fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q}}`, name, ns))
	}
	object("bank", "z")
	object("elsewhere", "x")
	s.api.Behave("gone/pods", apitest.Behaviour{Status: 403})
	s.api.Behave("pods", apitest.Behaviour{Status: 403}) // of all namespaces
	s.api.Behave("shop/pods", apitest.Behaviour{})
	s.api.Behave("bank/pods", apitest.Behaviour{})
	s.kinds = []detect.Watched{{Kind: detect.Node, APIVersion: "v1"}}
	for _, ns := range []string{"shop", "bank", "gone"} {
		s.kinds = append(s.kinds, detect.Watched{Kind: detect.Pod, APIVersion: "v1", Namespace: ns})
	}
	s.start(quick())
	<-s.o.Synced()
	s.state(nightcrier.SourceSubscribed)
	object("bank", "bad")
	object("elsewhere", "bad2")
	s.pods("a", "b", "bad", "c", "d", "z")
	if st := s.o.Status(); len(st.Problems) != 1 || !strings.HasPrefix(st.Problems[0], "Pod in gone: ") || st.Faults != 1 {
		t.Errorf("status %+v", st)
	}
}
