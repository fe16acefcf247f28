package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// The second server is refused and leaves everything to the first.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newSiteWaiting(t, dsn(t))
		first := s.serve(nil).ready()
		s.push(cluster, fault(t, oom))
		inc := s.working()
		second := s.serve(nil)
		if w := second.word(); !containsAll(w, "failed: conflict", fmt.Sprint("pid ", first.cmd.Process.Pid), "owns this store") {
			t.Errorf("the second server said %q", w)
		}
		second.gone()
		s.look(func(st *store.Store) { // as the commands do when they cannot ask the server
			run, err := st.Run(t.Context(), inc.RunID)
			s.must(err)
			if run.Status != nightcrier.Admitted {
				t.Errorf("the run is %s", run.Status)
			}
			if _, err := st.RequestCancel(t.Context(), inc.ID, "x"); nightcrier.CodeOf(err) != nightcrier.Refused {
				t.Errorf("a reader cancels: %v", err)
			}
		})
		s.release(inc.ID)
		r := s.wantEnd(s.ended(), nightcrier.Resolved, "", 1)
		if r.Attempts != 1 {
			t.Errorf("%d attempts", r.Attempts)
		}
		first.term()
	})
}

// Input that is no fault is kept with its reason, and what comes after it is
// worked on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	a := s.app(nil)
	hostile := delivery(cluster, "x", "critical")
	hostile.Raw = bytes.Replace(hostile.Raw, []byte(`"name":"x"`), []byte(`"name":"../../../../etc/cron.d/x"`), 1)
	cases := []struct {
		name   string
		raw    []byte
		reason nightcrier.Reason
	}{
		{"not JSON", []byte("{nope"), nightcrier.Malformed},
		{"not UTF-8", []byte("{\"data\":\"\xff\xfe\x00\"}"), nightcrier.Malformed},
		{"nothing of ours", []byte(`{"data":{"hello":"world"}}`), nightcrier.Malformed},
		{"deeply nested", bytes.Repeat([]byte("["), 100_000), nightcrier.Malformed},
		{"too large", bytes.Repeat([]byte("x"), 2<<20), nightcrier.Oversized},
		{"hostile name", hostile.Raw, nightcrier.Malformed},
	}
	for _, c := range cases {
		d, err := a.Deliver(t.Context(), nightcrier.Delivery{Source: "mcp", Cluster: cluster, Raw: c.raw})
		if err != nil || d.Outcome != nightcrier.Suppressed || d.Reason != c.reason || d.Detail == "" {
			t.Errorf("%s: %s, %s %q, %v; want %s", c.name, d.Outcome, d.Reason, d.Detail, err, c.reason)
		}
	}
	// The same over the wire, where the peer can send what is no JSON either.
	for _, frame := range []string{"data: {nope\n\n", "data: \xff\n\n", "nothing\n\n"} {
		s.must(s.peer.AwaitSubscribed(t.Context(), cluster))
		_, err := s.peer.PushFrame(cluster, []byte(frame))
		s.must(err)
	}
	s.push(cluster, fault(t, oom))
	inc := s.ended()
	if inc.Status != nightcrier.Resolved || inc.Fingerprint != "demo-east/shop/Deployment/cart/workload" {
		t.Errorf("the fault after them ended as %s (%s)", inc.Status, inc.Fingerprint)
	}
	if n := len(s.incidents(a.Store())); n != 1 {
		t.Errorf("%d incidents, want 1", n)
	}
	if _, err := os.Stat("/etc/cron.d/x"); err == nil {
		t.Error("a name became a path")
	}
}

// A root that cannot be written is said at once, with its name.
func TestUnwritableRoot(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.must(os.WriteFile(s.root, nil, 0o600)) // a file in its place: root may write anywhere else
	_, err := s.tryApp(nil)
	if err == nil || !containsAll(err.Error(), "start workspace root", s.root) {
		t.Errorf("the start says %v", err)
	}
}

// mount mounts a file system in memory at the site's root; it takes root.
func (s *site) mount(size string) error {
	s.Helper()
	s.must(os.Mkdir(s.root, 0o700))
	if err := syscall.Mount("tmpfs", s.root, "tmpfs", syscall.MS_NOSUID, "mode=0700,size="+size); err != nil {
		return err
	}
	s.Cleanup(func() { s.must(syscall.Unmount(s.root, syscall.MNT_DETACH)) })
	return nil
}

// tmpfs makes the site's disk a small one.
func (s *site) tmpfs(size string) {
	s.Helper()
	if err := s.mount(size); err != nil {
		s.Skipf("SKIPPED ALOUD: a full disk: this test needs root to mount a small file system: %v", err)
	}
}

// fill leaves no room on the site's file system, and returns how to make room.
func (s *site) fill() (free func()) {
	s.Helper()
	path := filepath.Join(s.root, "ballast")
	f, err := os.Create(path)
	s.must(err)
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	s.must(f.Close())
	return func() { s.must(os.Remove(path)) }
}

// On a full disk nothing is acknowledged that is not stored; with room again
// everything goes on by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.tmpfs("24m")
	a := s.app(nil)
	s.push(cluster, fault(t, oom))
	s.ended()
	free := s.fill()
	_, err := a.Deliver(t.Context(), delivery(cluster, "full", "critical"))
	if code := nightcrier.CodeOf(err); code != nightcrier.Exhausted && code != nightcrier.Unreachable {
		t.Errorf("a delivery on a full disk: %s, %v; want a typed error", code, err)
	}
	s.push(cluster, delivery(cluster, "pushed", "critical").Raw)
	s.eventually(func() string {
		if st := states(a)[cluster]; !strings.Contains(st.LastError, "storing an event") {
			return fmt.Sprintf("the source shows %q", st.LastError)
		}
		return ""
	})
	free()
	s.eventually(func() string {
		if n := len(s.incidents(a.Store())); n != 2 {
			return fmt.Sprintf("%d incidents; the pushed fault is not stored", n)
		}
		return ""
	})
	if inc := s.ended(); inc.Status != nightcrier.Resolved {
		t.Errorf("with room again it ended as %s: %s", inc.Status, inc.FailureReason)
	}
}

// The disk is full while an agent works, so that neither the worker's spool, the
// journal nor a checkpoint can be written, nor perhaps the agent's report. Whatever comes
// first, that is why the run ends; with room again it comes to its end, its report says so,
// and the cluster's slot is free.
func TestDiskIsFullWhileAnAgentWorks(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"when its report is written":         reports + waits + "echo done\n",
		"while its report is written":        "echo half a report > \"$OUTPUT_DIR/investigation.md\"\n" + waits + reports + "echo done\n",
		"and it says nothing, and ends well": waits + reports + "exit 0\n",
		"and it fails":                       waits + reports + `[ -s "$OUTPUT_DIR/investigation.md" ] || exit 3` + "\n",
	} {
		t.Run(name, func(t *testing.T) { diskIsFullWhileAnAgentWorks(t, script) })
	}
}

func diskIsFullWhileAnAgentWorks(t *testing.T, script string) {
	s := newSite(t, "")
	s.tmpfs("24m")
	s.script(script)
	a := s.app(nil)
	s.push(cluster, fault(t, oom))
	inc := s.working()
	ws := filepath.Join(s.root, "incident-"+inc.ID)
	s.eventually(func() string {
		log, _ := os.ReadFile(filepath.Join(ws, "output", "agent.log"))
		if !strings.Contains(string(log), agentMark) {
			return "the agent has not begun"
		}
		return ""
	})
	witness := filepath.Join(ws, "tmp", "witness")
	s.must(os.WriteFile(witness, nil, 0o600))
	free := s.fill()
	_ = os.WriteFile(filepath.Join(ws, "tmp", "go"), nil, 0o600) // an agent that was ended already needs none
	s.eventually(func() string {                                 // the worker has noticed, before there is room again
		if _, err := os.Stat(witness); err == nil {
			return "the agent's files are still there"
		}
		return ""
	})
	free()
	inc = s.ended()
	if inc.FailureClass != nightcrier.FailDisk || s.started(inc.ID) != 1 {
		t.Errorf("it ended as %s/%s (%s), its agent started %d times", inc.Status, inc.FailureClass, inc.FailureReason, s.started(inc.ID))
	}
	raw, err := a.Store().Report(t.Context(), inc.ID)
	if err != nil {
		t.Fatalf("no report, not even of the facts: %v", err)
	}
	var rep nightcrier.Report
	s.must(json.Unmarshal(raw, &rep))
	if !containsAll(strings.Join(rep.Problems, "; "), "script delivered no valid report", "disk") {
		t.Errorf("the facts do not say that the disk was full: %q", rep.Problems)
	}
	_, err = a.Deliver(t.Context(), delivery(cluster, "next", "critical"))
	s.must(err)
	s.eventually(func() string {
		if n := len(s.incidents(a.Store())); n != 2 {
			return fmt.Sprintf("%d incidents", n)
		}
		return ""
	})
	s.releaseSoon(s.incidents(a.Store())[0].ID)
	if inc := s.ended(); inc.Status != nightcrier.Resolved {
		t.Errorf("the next one ended as %s: %s", inc.Status, inc.FailureReason)
	}
}

// An agent that fills the disk keeps nobody else from working: what it wrote goes
// with it, whether it waits to be stopped or ends by itself.
func TestAgentFillsTheDisk(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]string{"and waits": "sleep 1000", "and ends": "exit 0"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "")
			s.tmpfs("24m")
			s.script(`[ "$KUBERNETES_CLUSTER" = other ] || { dd if=/dev/full of="$TMPDIR/fat" bs=1M count=64 2>/dev/null; ` + then + "; }\n" + reports)
			a := s.app(nil)
			s.push(cluster, fault(t, oom))
			if inc := s.ended(); inc.FailureClass != nightcrier.FailDisk {
				t.Errorf("it ended as %s/%s (%s)", inc.Status, inc.FailureClass, inc.FailureReason)
			}
			_, err := a.Deliver(t.Context(), delivery("other", "web", "critical"))
			s.must(err)
			if inc := s.ended(); inc.Cluster != "other" || inc.Status != nightcrier.Resolved {
				t.Errorf("the next one, of %s, ended as %s: %s", inc.Cluster, inc.Status, inc.FailureReason)
			}
		})
	}
}

// A PostgreSQL that goes away ends the server, whose ownership is gone with it,
// and leaves the agent working; the next server goes on when it is back.
func TestPostgresGoesAway(t *testing.T) {
	t.Parallel()
	dsn, proxy := proxied(t)
	s := newSite(t, dsn)
	s.script(waits + reports)
	v := s.serve(nil).ready()
	s.push(cluster, fault(t, oom))
	inc := s.working()
	proxy.cut()
	if w := v.word(); w != "lost" {
		t.Errorf("the server said %q, want that the store is lost", w)
	}
	v.gone()
	failed := s.serve(nil)
	if w := failed.word(); !containsAll(w, "failed: unreachable", "start store") {
		t.Errorf("without its database a server says %q", w)
	}
	failed.gone()
	proxy.mend()
	v = s.serve(nil).ready()
	s.release(inc.ID)
	s.wantEnd(s.ended(), nightcrier.Resolved, "", 1)
	v.term()
}

// A database that takes everything but checkpoints: the run cannot go on, so it
// ends, with its agent gone and its slot free, and nothing waits for a restart.
func TestCheckpointsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, pgtest.DSN(t))
	s.script(waits + reports)
	v := s.serve(nil).ready()
	s.push(cluster, fault(t, oom))
	inc := s.working()
	s.sql(`ALTER TABLE dbos.operation_outputs ADD CONSTRAINT refused CHECK (function_id < 0) NOT VALID`)
	s.release(inc.ID)
	inc = s.ended()
	r := s.recordOf(inc)
	if inc.Status != nightcrier.Failed || inc.FailureReason == "" || r.Started != 1 || r.Posts != 1 {
		t.Errorf("it ended as %s (%s), its agent started %d times, %d posts", inc.Status, inc.FailureReason, r.Started, r.Posts)
	}
	s.sql(`ALTER TABLE dbos.operation_outputs DROP CONSTRAINT refused`)
	v.kill()
	v = s.serve(nil).ready()
	s.push(cluster, delivery(cluster, "next", "critical").Raw)
	s.eventually(func() (missing string) {
		s.look(func(st *store.Store) {
			if list := s.incidents(st); len(list) != 2 {
				missing = fmt.Sprintf("%d incidents", len(list))
			} else {
				inc = list[0]
			}
		})
		return missing
	})
	s.releaseSoon(inc.ID)
	if inc := s.ended(); inc.Status != nightcrier.Resolved {
		t.Errorf("the next one ended as %s: %s", inc.Status, inc.FailureReason)
	}
	if n := len(s.slack.got()); n > 2 {
		t.Errorf("%d posts of two incidents", n)
	}
	v.term()
}

// sql runs a statement on the site's PostgreSQL.
func (s *site) sql(statement string) {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.dsn)
	s.must(err)
	defer conn.Close(s.Context())
	_, err = conn.Exec(s.Context(), statement)
	s.must(err)
}
