package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// The environment of a server that kills itself: where it is, and at which point.
const (
	killDir = "NIGHTCRIER_TEST_KILL_DIR"
	killURL = "NIGHTCRIER_TEST_KILL_URL"
	killAt  = "NIGHTCRIER_TEST_KILL_AT"
)

func TestMain(m *testing.M) {
	if os.Getenv(killDir) == "" {
		os.Exit(m.Run())
	}
	if err := serveUntilKilled(); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

// threeAndTwo is a pipeline of three steps, and two agents beside each other.
const threeAndTwo = `
name: p
on: manual
phases:
  - name: first
    steps:
      - {id: collect, action: collect}
  - name: look
    type: parallel
    steps:
      - {id: logs, skill: x/logs}
      - {id: metrics, skill: x/metrics, deliverable: {schema: {type: object, required: [p99]}}}
  - name: end
    fan_in_from: look
    steps:
      - {id: sum, skill: x/sum, if: steps.metrics.output.p99 > 1 && input.service == "cart"}
      - {id: notify, action: notify}
`

func killSite(dir, url string) *site {
	return &site{dir: dir, url: url, agents: map[string]script{"metrics": func(int, backend.Spec) nightcrier.AgentResult { return well(`{"p99": 4}`) }}}
}

// serveUntilKilled executes the run of the directory, and kills this process at a point.
func serveUntilKilled() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := killSite(os.Getenv(killDir), os.Getenv(killURL))
	at, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		return err
	}
	var points atomic.Int64
	s.point = func(string) {
		if points.Add(1) == int64(at) {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				panic(err)
			}
			select {} // until it is dead
		}
	}
	raw, err := os.ReadFile(filepath.Join(s.dir, "order"))
	if err != nil {
		return err
	}
	o, err := readOrder(raw)
	if err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.engine.Start(Workflow, o.RunID, o); err != nil {
		return err
	}
	if _, err := s.await(ctx, o.RunID); err != nil {
		return err
	}
	return s.close()
}

// killed runs a server in a process of its own, and reports whether it was killed.
func killed(t *testing.T, dir, url string, at int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+dir, killURL+"="+url, killAt+"="+strconv.Itoa(at))
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if err == nil || errors.As(err, &exit) && exit.ExitCode() != 1 && len(out) == 0 {
		return err != nil
	}
	t.Fatalf("the server ended with %v:\n%s", err, out)
	return false
}

// A server that is killed, wherever it is, is followed by one that goes on with its runs: what
// was done is not done again, and all comes to its end.
func TestKilledAtEveryPointOfAPipeline(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": pgtest.DSN} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points := 0
			for at := 1; ; at++ {
				if !killedAt(t, t.TempDir(), url(t), at) {
					break
				}
				points++
			}
			if points < 12 {
				t.Errorf("it was killed at %d points", points)
			}
		})
	}
}

func killedAt(t *testing.T, dir, url string, at int) bool {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("killed at point %d: %v", at, err)
		}
	}
	s := killSite(dir, url)
	must(s.open(t.Context()))
	o, err := s.admit(t.Context(), threeAndTwo, `{"service": "cart"}`)
	must(err)
	must(s.close())
	raw, err := json.Marshal(o)
	must(err)
	must(os.WriteFile(filepath.Join(dir, "order"), raw, 0o600))

	dies := killed(t, dir, url, at)
	before := s.noted()
	ended := endedSteps(t, dir, url, o.RunID)
	if dies && killed(t, dir, url, 0) {
		t.Fatal("it was killed without being asked to")
	}
	must(s.open(t.Context()))
	defer func() { must(s.close()) }()
	run, err := s.store.Run(t.Context(), o.RunID)
	must(err)
	rows, err := s.store.Steps(t.Context(), o.RunID)
	must(err)
	if run.Status != nightcrier.Finished || run.Outcome != nightcrier.StateSuccess || len(rows) != 4 {
		t.Errorf("killed at point %d: the run is %s, %s (%s), of %d steps", at, run.Status, run.Outcome, run.FailureReason, len(rows))
	}
	for _, row := range rows {
		if row.State != nightcrier.StateSuccess || row.Attempt != 1 {
			t.Errorf("killed at point %d: step %s, attempt %d, is %s: %s", at, row.ID, row.Attempt, row.State, row.FailureReason)
		}
	}
	after := s.noted()[len(before):]
	for _, did := range after {
		if id, _, _ := strings.Cut(did, "#"); slices.Contains(ended, id) {
			t.Errorf("killed at point %d, with %v done, it did %s again", at, ended, did)
		}
	}
	for _, one := range []string{"logs#1", "metrics#1", "sum#1", "notify", "collect"} {
		if n := count(s.noted(), one); n < 1 || n > 2 {
			t.Errorf("killed at point %d: %s was begun %d times", at, one, n)
		}
	}
	return dies
}

// endedSteps are those that were done when a server was killed.
func endedSteps(t *testing.T, dir, url, run string) (ids []string) {
	t.Helper()
	st, err := store.Open(t.Context(), store.Options{URL: url, Path: filepath.Join(dir, store.FileName), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	rows, err := st.Steps(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Ended() {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
