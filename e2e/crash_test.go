package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// record is what an investigation leaves for people, without its times and ids.
type record struct {
	Status nightcrier.IncidentStatus
	State  nightcrier.State
	Reason string
	// Journal are the entries' keys with the states that they enter.
	Journal []string
	Report  findings
	// Told are the states of the messages about it.
	Told []store.NotificationState
	// Attempts are runs begun, Started agents started, Posts messages received.
	Attempts, Started, Posts int
}

// findings are what a report says.
type findings struct {
	Source    string
	Valid     bool
	Verdict   nightcrier.Verdict
	RootCause nightcrier.RootCause
	Checked   float64
	Facts     []string
	// Tests are the outcomes of the hypotheses' own tests.
	Tests []string
}

// instant is a time of the cluster, which is another one at each site.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

func findingsOf(raw []byte) (f findings, err error) {
	var rep nightcrier.Report
	err = json.Unmarshal(raw, &rep)
	f = findings{Source: rep.Source, Valid: rep.Valid, Verdict: rep.Verdict, Checked: rep.CheckedShare}
	if rep.RootCause != nil {
		f.RootCause = *rep.RootCause
	}
	for _, fact := range rep.Facts {
		f.Facts = append(f.Facts, instant.ReplaceAllString(fmt.Sprint(fact.Text, fact.Evidence, fact.Check), "then"))
	}
	for _, h := range rep.Hypotheses {
		f.Tests = append(f.Tests, fmt.Sprintf("%s %s %s", h.ID, h.Falsification.Outcome, h.Falsification.Evidence))
	}
	return f, err
}

// recordOf waits until the incident's people were told, and reads the record.
// The journal's chain must hold.
func (s *site) recordOf(inc nightcrier.Incident) record {
	s.Helper()
	r := record{Status: inc.Status, State: inc.State, Reason: inc.FailureReason, Attempts: inc.Attempts, Started: s.started(inc.ID)}
	s.eventually(func() (missing string) {
		s.look(func(st *store.Store) { r.Told, missing = s.told(st, inc.ID) })
		return missing
	})
	s.look(func(st *store.Store) {
		r.Journal = s.journal(st, inc.RunID)
		raw, err := st.Report(s.Context(), inc.ID)
		if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport {
			return
		}
		s.must(err)
		r.Report, err = findingsOf(raw)
		s.must(err)
	})
	r.Posts = len(s.slack.got())
	return r
}

// told returns the states of an incident's messages when all have one.
func (s *site) told(st *store.Store, incident string) (states []store.NotificationState, missing string) {
	s.Helper()
	list, err := st.Notifications(s.Context(), incident)
	s.must(err)
	if len(list) == 0 {
		return nil, "no message"
	}
	for _, n := range list {
		if n.State == store.NotificationPending {
			return nil, "message " + n.Key + " is pending"
		}
		states = append(states, n.State)
	}
	return states, ""
}

// journal checks a run's journal and returns its keys, with the states.
func (s *site) journal(st *store.Store, run string) []string {
	s.Helper()
	entries, err := st.Journal(s.Context(), run, 0, 10000)
	s.must(err)
	var keys []string
	prev := ""
	for i, e := range entries {
		if e.Seq != int64(i+1) || e.Prev != prev || e.Hash != e.ChainHash(prev) {
			s.Errorf("journal entry %d (%s): seq %d, prev %q after %q: the chain is broken", i+1, e.Key, e.Seq, e.Prev, prev)
		}
		prev = e.Hash
		key := e.Key
		if e.Type == nightcrier.EntryState {
			var to struct{ To nightcrier.State }
			s.must(json.Unmarshal(e.Data, &to))
			key += "=" + string(to.To)
		}
		if slices.Contains(keys, key) {
			s.Errorf("the journal holds %s twice", key)
		}
		keys = append(keys, key)
	}
	return keys
}

// same fails when two records differ, and says in what.
func (s *site) same(got, want record) {
	s.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			s.Errorf("%s:\n got %v\nwant %v", g.Type().Field(i).Name, g.Field(i), w.Field(i))
		}
	}
}

// pushTo pushes a fault to a server that may die at any moment, and reports
// whether it reached it.
func (v *server) pushTo(to string, payload []byte) bool {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), patience)
	defer cancel()
	go func() {
		select {
		case <-v.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for v.peer.AwaitSubscribed(ctx, to) == nil {
		n, err := v.peer.Push(to, payload)
		v.must(err)
		if n > 0 {
			return true
		}
	}
	return false
}

// agents are the executors whose crashes are tried, with what their script does.
var agents = map[string]string{"builtin": "", "script": reports}

func newSiteWith(t *testing.T, dsn string, executor string) *site {
	t.Helper()
	s := newSite(t, dsn)
	s.when = time.Now().UTC() // Events are news for a quarter of an hour, and all these tests take longer
	if body := agents[executor]; body != "" {
		s.script(body)
	}
	return s
}

// undisturbed is the record of a run that nothing happens to.
func undisturbed(t *testing.T, dsn func(testing.TB) string, executor string) record {
	t.Helper()
	var r record
	t.Run("undisturbed", func(t *testing.T) {
		s := newSiteWith(t, dsn(t), executor)
		v := s.serve(nil).ready()
		s.push(cluster, faultAt(t, oom, s.when))
		r = s.recordOf(s.ended())
		v.term()
		if r.Status != nightcrier.Resolved || r.Posts != 1 || !r.Report.Valid || len(r.Report.Facts) == 0 {
			t.Errorf("undisturbed, it ends as %+v", r)
		}
		if i := slices.Index(r.Journal, "tested"); i < 1 || !strings.HasPrefix(r.Journal[i-1], "evidence:") || !slices.ContainsFunc(r.Report.Tests, func(s string) bool { return strings.Contains(s, "E") }) {
			t.Errorf("undisturbed, its report is not tested on the cluster: %v, %v", r.Report.Tests, r.Journal)
		}
	})
	return r
}

func TestKilledAtEveryJournalEntry(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		for executor := range agents {
			if executor == "builtin" && strings.HasSuffix(t.Name(), "/postgres") {
				continue // the same steps as with a script, and fewer
			}
			t.Run(executor, func(t *testing.T) {
				want := undisturbed(t, dsn, executor)
				for k := range want.Journal {
					if executor == "script" && k > 0 && strings.HasPrefix(want.Journal[k-1], "evidence:") && strings.HasPrefix(want.Journal[k], "evidence:") {
						continue // one piece of evidence is like the one before it; the rules alone are killed at each
					}
					t.Run(fmt.Sprintf("%02d-%s", k+1, want.Journal[k]), func(t *testing.T) {
						t.Parallel()
						s := newSiteWith(t, dsn(t), executor)
						v := s.serve(func(o *order) { o.DieAtEntry = int64(k + 1) }).ready()
						s.push(cluster, faultAt(t, oom, s.when))
						v.gone()
						v = s.serve(nil).ready()
						s.same(s.recordOf(s.ended()), want)
						v.term()
					})
				}
			})
		}
	})
}

// Log lines come between the checkpoints too: before the run is handed to the
// engine, before and after the lease goes, around the message.
func TestKilledAtEveryLogLine(t *testing.T) {
	t.Parallel()
	want := undisturbed(t, sqlite, "builtin")
	const lines = 10
	for k := int64(1); k <= lines; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			s := newSiteWith(t, "", "builtin")
			v := s.serve(func(o *order) { o.DieAtLog = k })
			if v.word() == "ready" && v.pushTo(cluster, faultAt(t, oom, s.when)) {
				select {
				case <-v.done:
				case <-s.toldSoon(v):
					v.kill() // it wrote fewer lines this time
				}
			}
			v.gone()
			v = s.serve(nil).ready()
			if !s.known() { // it died before it had stored anything
				s.push(cluster, faultAt(t, oom, s.when))
			}
			got := s.recordOf(s.ended())
			if got.Told[0] == store.NotificationUnknown && got.Posts <= 1 {
				got.Told, got.Posts = want.Told, want.Posts // it died between the intent and the result
			}
			s.same(got, want)
			v.term()
		})
	}
}

// known reports whether an event is stored, which outlives the pushing server.
func (s *site) known() (known bool) {
	s.Helper()
	s.look(func(st *store.Store) {
		list, _, err := st.Events(s.Context(), store.EventFilter{Limit: 1})
		s.must(err)
		known = len(list) > 0
	})
	return known
}

// toldSoon is closed when a post has come and its result is recorded, or the
// server is dead.
func (s *site) toldSoon(v *server) <-chan struct{} {
	told := make(chan struct{})
	go func() {
		defer close(told)
		for {
			select {
			case <-v.done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			log, _ := os.ReadFile(s.logFile)
			if strings.Contains(string(log), "notification_sent") {
				return
			}
		}
	}()
	return told
}

// Nobody can tell whether a message was taken whose answer was never read: it is
// not sent again, and its state says so.
func TestKilledWhileTelling(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newSite(t, dsn(t))
		v := s.serve(nil).ready()
		s.slack.whenPosted(v.kill)
		s.push(cluster, fault(t, oom))
		v.gone()
		s.slack.whenPosted(nil)
		v = s.serve(nil).ready()
		r := s.recordOf(s.ended())
		if r.Posts != 1 || !slices.Equal(r.Told, []store.NotificationState{store.NotificationUnknown}) {
			t.Errorf("%d posts, told %v; want 1, [unknown]", r.Posts, r.Told)
		}
		if r.Status != nightcrier.Resolved || !r.Report.Valid {
			t.Errorf("it ended as %s, %+v", r.Status, r.Report)
		}
		v.term()
	})
}

// A Slack that refuses a message for now is asked again, by the next server when
// this one is stopped in between.
func TestStoppedWhileSlackIsDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	v := s.serve(nil).ready()
	s.slack.refuse(true)
	s.push(cluster, fault(t, oom))
	s.eventually(func() string {
		if len(s.slack.got()) == 0 {
			return "Slack is not asked"
		}
		return ""
	})
	v.term()
	s.slack.refuse(false)
	v = s.serve(nil).ready()
	s.eventually(func() string {
		var states []store.NotificationState
		s.look(func(st *store.Store) { states, _ = s.told(st, s.incidents(st)[0].ID) })
		if len(states) == 0 || states[len(states)-1] != store.NotificationSent {
			return fmt.Sprintf("the messages are %v", states)
		}
		return ""
	})
	if n := s.slack.taken(); n != 1 {
		t.Errorf("Slack took %d messages", n)
	}
	v.term()
}

// A server is killed while faults come in. Whoever pushed them sends them again;
// each is one incident, whether it had been stored or not.
func TestKilledWhileTakingIn(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newSite(t, dsn(t))
		s.env["NIGHTCRIER_STORM_FINGERPRINTS"] = "1000"
		const faults = 12
		push := func(v *server) (reached int) {
			for i := range faults {
				if !v.pushTo(cluster, delivery(cluster, fmt.Sprintf("d%d", i), "critical").Raw) {
					return i
				}
			}
			return faults
		}
		v := s.serve(func(o *order) { o.DieAtLog = 8 })
		if w := v.word(); w != "ready" && w != "" { // it may have written so many lines before
			t.Fatalf("the server said %q", w)
		}
		push(v)
		v.gone()
		v = s.serve(nil).ready()
		if n := push(v); n != faults {
			t.Fatalf("the server died after %d faults", n)
		}
		s.eventually(func() (missing string) {
			s.look(func(st *store.Store) {
				if n := len(s.incidents(st)); n < faults {
					missing = fmt.Sprintf("%d incidents of %d", n, faults)
				}
			})
			return missing
		})
		s.ended()
		s.look(func(st *store.Store) {
			prints := map[string]int{}
			for _, inc := range s.incidents(st) {
				prints[inc.Fingerprint]++
			}
			if len(prints) != faults || len(s.incidents(st)) != faults {
				t.Errorf("%d incidents of %d faults: %v", len(s.incidents(st)), faults, prints)
			}
		})
		v.term()
	})
}
