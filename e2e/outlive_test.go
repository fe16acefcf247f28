package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/face/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// newSiteWaiting is a site whose agent waits for release before it reports.
func newSiteWaiting(t *testing.T, dsn string) *site {
	t.Helper()
	s := newSite(t, dsn)
	s.script(waits + reports)
	return s
}

// workerPID is the process of an attempt's worker.
func (s *site) workerPID(run string, attempt int) int {
	s.Helper()
	var p struct{ Worker struct{ PID int } }
	raw, err := os.ReadFile(filepath.Join(s.root, ".workers", fmt.Sprintf("%s-%d", run, attempt), "pid"))
	s.must(err)
	s.must(json.Unmarshal(raw, &p))
	return p.Worker.PID
}

// wantEnd fails unless the incident ended so, with its agents started so often
// and its people told once.
func (s *site) wantEnd(inc nightcrier.Incident, status nightcrier.IncidentStatus, class nightcrier.FailureClass, started int) record {
	s.Helper()
	r := s.recordOf(inc)
	if inc.Status != status || inc.FailureClass != class || r.Started != started || r.Posts != 1 {
		s.Errorf("incident %s/%s (%s), agent started %d times, %d posts; want %s/%s, %d, 1",
			inc.Status, inc.FailureClass, inc.FailureReason, r.Started, r.Posts, status, class, started)
	}
	return r
}

func TestAgentOutlivesItsServer(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*server){"killed": (*server).kill, "terminated": (*server).term}
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				s := newSiteWaiting(t, dsn(t))
				v := s.serve(nil).ready()
				s.push(cluster, fault(t, oom))
				inc := s.working()
				pid := s.workerPID(inc.RunID, 1)
				end(v)
				v = s.serve(nil).ready()
				if now := s.workerPID(inc.RunID, 1); now != pid {
					t.Errorf("the worker is process %d now, it was %d", now, pid)
				}
				s.release(inc.ID)
				r := s.wantEnd(s.ended(), nightcrier.Resolved, "", 1)
				if r.Attempts != 1 || r.Report.Source != "agent" {
					t.Errorf("%d attempts, report by %s", r.Attempts, r.Report.Source)
				}
				v.term()
			})
		}
	})
}

// The agent ends while there is no server at all.
func TestAgentEndsWithoutServer(t *testing.T) {
	t.Parallel()
	s := newSiteWaiting(t, "")
	v := s.serve(nil).ready()
	s.push(cluster, fault(t, oom))
	inc := s.working()
	v.kill()
	s.release(inc.ID)
	s.noneLeft()
	v = s.serve(nil).ready()
	s.wantEnd(s.ended(), nightcrier.Resolved, "", 1)
	v.term()
}

// A second SIGTERM ends the agents too; the next server says how.
func TestSecondSignalEndsAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.script(stubborn + waits + reports)
	log, err := os.Create(s.logFile)
	s.must(err)
	defer log.Close()
	cmd := exec.Command(binary(t), "serve")
	cmd.Env = append(s.order().Env, "K8S_CLUSTER_MCP_ENDPOINT="+s.peer.URL(cluster), "NIGHTCRIER_CLUSTER_NAME="+cluster)
	cmd.Stderr = log
	s.must(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	s.push(cluster, fault(t, oom))
	inc := s.working()
	s.must(cmd.Process.Signal(syscall.SIGTERM))
	s.eventually(func() string {
		if said, _ := os.ReadFile(s.logFile); !containsAll(string(said), "a second signal") {
			return "the server does not tell of a second signal"
		}
		return ""
	})
	s.must(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("the server ended before its agents: %v", left)
	}
	s.look(func(st *store.Store) {
		if leased, _ := st.LeasedRuns(t.Context()); len(leased) != 1 {
			t.Errorf("%d leases before the next server; want that of the agent", len(leased))
		}
	})
	v := s.serve(nil).ready()
	end := s.ended()
	s.wantEnd(end, nightcrier.Failed, nightcrier.FailCancelled, 1)
	if end.ID != inc.ID {
		t.Errorf("incident %s ended, not %s", end.ID, inc.ID)
	}
	v.term()
}

// A worker that is killed takes its agent with it; the run is tried once more.
func TestKilledWorkerIsTriedOnceMore(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newSiteWaiting(t, dsn(t))
		v := s.serve(nil).ready()
		s.push(cluster, fault(t, oom))
		inc := s.working()
		starts := func(want int) func() string {
			return func() string {
				if n := s.started(inc.ID); n < want {
					return fmt.Sprintf("the agent was started %d times", n)
				}
				return ""
			}
		}
		s.eventually(starts(1)) // what it said first is spooled
		s.must(syscall.Kill(s.workerPID(inc.RunID, 1), syscall.SIGKILL))
		s.eventually(starts(2))
		s.release(inc.ID)
		r := s.wantEnd(s.ended(), nightcrier.Resolved, "", 2)
		if r.Report.Source != "agent" || !r.Report.Valid {
			t.Errorf("the report is %+v", r.Report)
		}
		v.term()
	})
}

func TestWorkerKilledTwiceIsLost(t *testing.T) {
	t.Parallel()
	s := newSiteWaiting(t, "")
	v := s.serve(nil).ready()
	s.push(cluster, fault(t, oom))
	inc := s.working()
	for attempt := 1; attempt <= 2; attempt++ {
		s.eventually(func() string {
			if s.started(inc.ID) < attempt {
				return fmt.Sprintf("attempt %d does not begin", attempt)
			}
			return ""
		})
		s.must(syscall.Kill(s.workerPID(inc.RunID, attempt), syscall.SIGKILL))
	}
	r := s.wantEnd(s.ended(), nightcrier.Failed, nightcrier.FailLost, 2)
	if r.Report.Source != "builtin" || len(r.Report.Facts) == 0 {
		t.Errorf("instead of the agent's report there is %+v; want the facts", r.Report)
	}
	v.term()
}

// What an earlier attempt or run left is not taken for the report of a later one.
func TestLeftoversAreNoReport(t *testing.T) {
	t.Parallel()
	t.Run("attempt", func(t *testing.T) {
		s := newSite(t, "")
		s.script(reports + waits)
		v := s.serve(nil).ready()
		s.push(cluster, fault(t, oom))
		inc := s.working()
		s.eventually(func() string {
			if _, err := os.Stat(filepath.Join(s.root, "incident-"+inc.ID, ".scratch", "investigation.md")); err != nil {
				return err.Error()
			}
			return ""
		})
		s.script("") // the next one reports nothing
		s.must(syscall.Kill(s.workerPID(inc.RunID, 1), syscall.SIGKILL))
		s.wantEnd(s.ended(), nightcrier.AgentFailed, nightcrier.FailInvalidOutput, 2)
		v.term()
	})
	t.Run("run", func(t *testing.T) {
		s := newSite(t, "")
		s.script(reports)
		a := s.app(nil)
		s.push(cluster, fault(t, oom))
		inc := s.ended()
		if inc.Status != nightcrier.Resolved {
			t.Fatalf("the first run ended as %s: %s", inc.Status, inc.FailureReason)
		}
		s.script("")
		_, err := a.Retry(t.Context(), inc.ID, "")
		s.must(err)
		if inc = s.ended(); inc.Status != nightcrier.AgentFailed {
			t.Errorf("the second run, whose agent reports nothing, ended as %s", inc.Status)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("queued", func(t *testing.T) {
		s := newSiteWaiting(t, "")
		a := s.app(nil)
		s.push(cluster, fault(t, oom))
		first := s.working()
		d, err := a.Deliver(t.Context(), delivery(cluster, "other", "error"))
		s.must(err)
		if _, err := a.Cancel(t.Context(), d.Incident.ID, "not needed"); err != nil {
			t.Fatal(err)
		}
		inc, err := a.Store().Incident(t.Context(), d.Incident.ID)
		s.must(err)
		if inc.Status != nightcrier.Failed || inc.FailureClass != nightcrier.FailCancelled || !inc.StartedAt.IsZero() {
			t.Errorf("cancelled in the queue, it is %s/%s", inc.Status, inc.FailureClass)
		}
		s.release(first.ID)
		s.ended()
	})
	t.Run("stubborn agent", func(t *testing.T) {
		s := newSite(t, "")
		s.script(stubborn + waits)
		a := s.app(nil)
		s.push(cluster, fault(t, oom))
		inc := s.working()
		next, err := a.Deliver(t.Context(), delivery(cluster, "other", "error"))
		s.must(err)
		if _, err := a.Cancel(t.Context(), inc.ID, "enough"); err != nil {
			t.Fatal(err)
		}
		s.slotIsHeld(inc, next.Incident.ID)
		s.eventually(func() string {
			inc, err = a.Store().Incident(t.Context(), inc.ID)
			s.must(err)
			if inc.Status.Open() {
				return "it is " + string(inc.Status)
			}
			return ""
		})
		if inc.Status != nightcrier.Failed || inc.FailureClass != nightcrier.FailCancelled || inc.State != nightcrier.StateCancelled {
			t.Errorf("cancelled, it is %s/%s/%s", inc.Status, inc.FailureClass, inc.State)
		}
		s.eventually(func() string {
			if s.started(next.Incident.ID) == 0 {
				return "the next agent does not start"
			}
			return ""
		})
		s.release(next.Incident.ID)
		s.ended()
	})
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newSite(t, dsn(t))
		s.script(stubborn + waits)
		v := s.serve(nil).ready()
		s.push(cluster, fault(t, oom))
		inc := s.working()
		run, err := client.Unix(filepath.Join(s.root, api.SocketName)).Cancel(t.Context(), inc.ID)
		v.kill() // it has answered; whether it has told the worker is chance
		if err != nil || !run.CancelRequested {
			t.Errorf("the cancel was answered with %+v, %v", run, err)
		}
		v = s.serve(nil).ready()
		s.wantEnd(s.ended(), nightcrier.Failed, nightcrier.FailCancelled, 1)
		v.term()
	})
}

// slotIsHeld watches that the next agent of a cluster does not start before the
// first one is gone, and returns when it is.
func (s *site) slotIsHeld(first nightcrier.Incident, next string) {
	s.Helper()
	mark := "INCIDENT_ID=" + first.ID
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		gone := !marked(mark) // looked at first: what starts afterwards may start
		began := s.started(next) > 0
		switch {
		case gone:
			return
		case began:
			s.Error("the next agent started while the cancelled one lived")
			return
		case time.Now().After(deadline):
			s.Fatal("the cancelled agent does not end")
		}
	}
}
