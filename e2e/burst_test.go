package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// burst is a set of faults: so many, of so many clusters, of which some report a
// fault that another one reports as well.
type burst struct {
	deliveries []nightcrier.Delivery
	distinct   int
}

var severities = []string{"warning", "error", "critical"}

func newBurst(clusters, faults, duplicates int) burst {
	b := burst{distinct: faults - duplicates}
	for i := range faults {
		n := i
		if i >= b.distinct {
			n = (i * 7) % b.distinct
		}
		name := fmt.Sprintf("c%03d", n%clusters)
		b.deliveries = append(b.deliveries, delivery(name, fmt.Sprintf("d%d", n), severities[n%len(severities)]))
	}
	return b
}

// deliver hands the burst over from many goroutines. A delivery that fails, as it
// does when the app stops in between, is handed to the next app: apps returns the
// one of the moment. tick is called after each.
func (b burst) deliver(tb testing.TB, apps func() *app.App, tick func(n int64, d store.Decision)) {
	const senders = 16
	todo := make(chan nightcrier.Delivery)
	var done atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for d := range todo {
				dec, err := apps().Deliver(context.Background(), d)
				for deadline := time.Now().Add(patience); err != nil; dec, err = apps().Deliver(context.Background(), d) {
					if time.Now().After(deadline) {
						tb.Errorf("a delivery is refused: %v", err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				tick(done.Add(1), dec)
			}
		})
	}
	for _, d := range b.deliveries {
		todo <- d
	}
	close(todo)
	wg.Wait()
}

// ledger checks what a burst has left: an outcome for every event, an end for
// every incident, one run for each, and no two runs of a cluster at a time. It
// returns the runs by incident.
func (s *site) ledger(st *store.Store, events, incidents int) map[string]nightcrier.Run {
	s.Helper()
	c, err := st.Counts(s.Context())
	s.must(err)
	if c.Events[nightcrier.Opened] != incidents || c.Events[nightcrier.Opened]+c.Events[nightcrier.Joined]+c.Events[nightcrier.Suppressed] < events {
		s.Errorf("%d events of %d incidents were counted as %v", events, incidents, c.Events)
	}
	runs := map[string]nightcrier.Run{}
	byCluster := map[string][]nightcrier.Run{}
	prints := map[string]bool{}
	for _, inc := range s.incidents(st) {
		if inc.Status.Open() || prints[inc.Fingerprint] {
			s.Errorf("incident %s of %s is %s", inc.ID, inc.Fingerprint, inc.Status)
		}
		prints[inc.Fingerprint] = true
		list, err := st.Runs(s.Context(), inc.ID)
		s.must(err)
		if len(list) != 1 {
			s.Fatalf("incident %s has %d runs", inc.ID, len(list))
		}
		runs[inc.ID] = list[0]
		if !list[0].AdmittedAt.IsZero() {
			byCluster[inc.Cluster] = append(byCluster[inc.Cluster], list[0])
		}
	}
	if len(prints) != incidents {
		s.Errorf("%d incidents, want %d", len(prints), incidents)
	}
	for name, list := range byCluster {
		slices.SortFunc(list, func(a, b nightcrier.Run) int { return a.AdmittedAt.Compare(b.AdmittedAt) })
		for i := range list[1:] {
			if list[i+1].AdmittedAt.Before(list[i].EndedAt) {
				s.Errorf("two runs of %s at once: %+v and %+v", name, list[i], list[i+1])
			}
		}
	}
	return runs
}

// newBurstSite is a site without sources that takes everything. It is kept in
// memory where that can be had: what a kill leaves does not hang on the disk, and
// thousands of syncs take minutes.
func newBurstSite(t *testing.T, dsn string) *site {
	t.Helper()
	s := newSite(t, dsn)
	if err := s.mount("1g"); err != nil {
		t.Logf("on the disk, not in memory: %v", err)
	}
	s.clusters = nil
	for k, v := range map[string]string{
		"NIGHTCRIER_STORM_FINGERPRINTS": "10000", "NIGHTCRIER_QUEUE_MAX": "10000", "NIGHTCRIER_LOG_LEVEL": "warn",
		"NIGHTCRIER_MAX_CONCURRENT_AGENTS": "16", "NIGHTCRIER_AGENT_EXECUTOR": "script", "AGENT_SCRIPT_PATH": "/bin/true",
		"SLACK_WEBHOOK_URL": "",
	} {
		s.env[k] = v
	}
	return s
}

// Hundreds of clusters report at once, some are cancelled, and the server is
// stopped and started anew in the middle of it.
func TestBurst(t *testing.T) {
	t.Parallel()
	if testproc.Raced() {
		testproc.Rerun(t) // at full size
	}
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newBurstSite(t, dsn(t))
		b := newBurst(200, 600, 180)
		switch {
		case testproc.Raced():
			b = newBurst(20, 60, 18)
		case s.dsn != "":
			b = newBurst(60, 180, 54) // PostgreSQL is the same code but for the store, whose suite has bursts of its own
		}
		workers := newFakeWorkers(t)
		var current atomic.Pointer[app.App]
		start := func() {
			current.Store(s.app(func(o *app.Options) { o.Runs = func(c *run.Config) { c.Workers = workers } }))
		}
		start()
		var restart sync.Once
		var cancelled sync.Map
		b.deliver(t, current.Load, func(n int64, d store.Decision) {
			if n >= int64(len(b.deliveries)/2) {
				restart.Do(func() {
					s.must(current.Load().Stop(context.Background()))
					start()
				})
			}
			if d.NewIncident && n%20 == 0 {
				switch _, err := current.Load().Cancel(context.Background(), d.Incident.ID, "sprinkled in"); nightcrier.CodeOf(err) {
				case "":
					cancelled.Store(d.Incident.ID, true)
				case nightcrier.Conflict, nightcrier.Unreachable, nightcrier.Internal: // it had ended, or the app is being restarted
				default:
					t.Errorf("cancel: %v", err)
				}
			}
		})
		s.ended()
		st := current.Load().Store()
		s.ledger(st, len(b.deliveries), b.distinct)
		for _, inc := range s.incidents(st) {
			_, was := cancelled.Load(inc.ID)
			if inc.Status != nightcrier.Resolved && !(was && inc.FailureClass == nightcrier.FailCancelled) {
				t.Errorf("incident %s ended as %s/%s: %s", inc.ID, inc.Status, inc.FailureClass, inc.FailureReason)
			}
		}
		if workers.most > 16 {
			t.Errorf("%d agents at once; 16 are allowed", workers.most)
		}
		t.Logf("%d agents, at most %d at once", len(workers.launched()), workers.most)
	})
}

// While the slot is taken faults queue up. What is admitted then is the most
// severe, and among equals the oldest.
func TestMostSevereFirst(t *testing.T) {
	t.Parallel()
	s := newBurstSite(t, "")
	s.env["NIGHTCRIER_MAX_CONCURRENT_AGENTS"] = "1"
	workers := newFakeWorkers(t)
	workers.gate = make(chan struct{})
	a := s.app(func(o *app.Options) { o.Runs = func(c *run.Config) { c.Workers = workers } })
	_, err := a.Deliver(t.Context(), delivery("first", "web", "warning"))
	s.must(err)
	s.eventually(func() string {
		if len(workers.launched()) == 0 {
			return "the first agent does not start"
		}
		return ""
	})
	newBurst(16, 24, 8).deliver(t, func() *app.App { return a }, func(int64, store.Decision) {})
	close(workers.gate)
	s.ended()
	runs := slices.Collect(maps.Values(s.ledger(a.Store(), 25, 17)))
	slices.SortFunc(runs, func(a, b nightcrier.Run) int { return a.AdmittedAt.Compare(b.AdmittedAt) })
	if !slices.IsSortedFunc(runs[1:], func(a, b nightcrier.Run) int {
		return cmp.Or(-cmp.Compare(a.Severity, b.Severity), a.QueuedAt.Compare(b.QueuedAt))
	}) {
		for _, r := range runs {
			t.Errorf("admitted: %s, queued %s", r.Severity, r.QueuedAt)
		}
	}
	for i, spec := range workers.launched() {
		if spec.RunID != runs[i].ID {
			t.Errorf("agent %d is of run %s, admitted was %s", i, spec.RunID, runs[i].ID)
		}
	}
}

// The server is killed again and again while a burst is worked on.
func TestBurstKilled(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newBurstSite(t, dsn(t))
		s.env["NIGHTCRIER_AGENT_EXECUTOR"] = "builtin"
		b := newBurst(30, 90, 27)
		byCluster := map[string][]nightcrier.Delivery{}
		for _, d := range b.deliveries {
			byCluster[d.Cluster] = append(byCluster[d.Cluster], d)
		}
		s.clusters = slices.Sorted(maps.Keys(byCluster))
		for kill := range 4 {
			v := s.serve(func(o *order) {
				if kill < 3 {
					o.DieAtEntry = int64(40 + 35*kill)
				}
			})
			if w := v.word(); w != "ready" && w != "" {
				t.Fatalf("the server said %q", w)
			}
			for name, list := range byCluster {
				for _, d := range list {
					if !v.pushTo(name, d.Raw) {
						break
					}
				}
			}
			if kill < 3 {
				v.gone()
				continue
			}
			s.eventually(func() (missing string) {
				s.look(func(st *store.Store) {
					if n := len(s.incidents(st)); n != b.distinct {
						missing = fmt.Sprintf("%d incidents of %d", n, b.distinct)
					}
				})
				return missing
			})
			s.ended()
			v.term()
		}
		s.look(func(st *store.Store) {
			for id, run := range s.ledger(st, len(b.deliveries), b.distinct) {
				keys := s.journal(st, run.ID)
				if len(keys) == 0 || keys[len(keys)-1] != "finished" {
					t.Errorf("the journal of incident %s ends with %v", id, keys)
				}
			}
			for _, inc := range s.incidents(st) {
				if inc.Status != nightcrier.Resolved || inc.Attempts != 1 {
					t.Errorf("incident %s: %s after %d attempts: %s", inc.ID, inc.Status, inc.Attempts, inc.FailureReason)
				}
			}
		})
	})
}

// ofStorm reports whether a message lists the first and the last of a storm.
func ofStorm(post string) bool { return strings.Contains(post, "d00") && strings.Contains(post, "d11") }

// A storm: all is opened, the worst is investigated, one message lists all.
func TestStorm(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newBurstSite(t, dsn(t))
		s.env["NIGHTCRIER_STORM_FINGERPRINTS"], s.env["SLACK_WEBHOOK_URL"] = "10", s.slack.URL
		workers := newFakeWorkers(t)
		workers.gate = make(chan struct{})
		var later atomic.Int64 // how far the clock is ahead
		now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		a := s.app(func(o *app.Options) { o.Runs, o.Now = func(c *run.Config) { c.Workers = workers }, now })
		for i := range 12 {
			severity := "warning"
			if i >= 10 {
				severity = "critical" // the worst come last
			}
			_, err := a.Deliver(t.Context(), delivery("stormy", fmt.Sprintf("d%02d", i), severity))
			s.must(err)
		}
		later.Store(int64(15 * time.Second)) // no new one for long enough to tell of it
		close(workers.gate)
		s.ended()
		s.eventually(func() string {
			posts := s.slack.got()
			switch {
			case !slices.ContainsFunc(posts, ofStorm):
				return "no message lists the storm"
			case len(posts) < 4: // people are told after an incident has ended
				return fmt.Sprintf("%d messages", len(posts))
			}
			return ""
		})
		var looked, listed []nightcrier.Incident
		for _, inc := range s.incidents(a.Store()) {
			runs, err := a.Store().Runs(t.Context(), inc.ID)
			s.must(err)
			switch {
			case !inc.Storm:
				t.Errorf("%s is not part of the storm", inc.Owner)
			case inc.Status == nightcrier.Resolved:
				looked = append(looked, inc)
			case runs[0].Reason == nightcrier.StormListed:
				listed = append(listed, inc)
			}
		}
		critical := 0
		for _, inc := range looked {
			if inc.Severity == nightcrier.Critical {
				critical++
			}
		}
		if len(looked) != 3 || critical != 2 || len(listed) != 9 {
			t.Errorf("%d investigated, %d of them critical, %d listed; want 3, 2, 9", len(looked), critical, len(listed))
		}
		var storms int
		for _, post := range s.slack.got() {
			if ofStorm(post) {
				storms++
			}
		}
		if n := len(s.slack.got()); storms != 1 || n != 1+len(looked) {
			t.Errorf("%d posts, %d of the storm; want one of the storm and one for each that was investigated", n, storms)
		}
	})
}
