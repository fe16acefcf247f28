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
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/guard/price"
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

// killPipeline has steps of ours and of agents, two of them beside each other: one is done again as
// it fails first, the other asked again for what it did not deliver.
const killPipeline = `
name: p
on: manual
budget: 1
phases:
  - name: first
    steps:
      - {id: collect, action: collect}
      - {id: plan, skill: x/plan, deliverable: {files: ['*.md']}}
  - name: look
    type: parallel
    steps:
      - {id: logs, skill: x/look, on_failure: retry}
      - {id: metrics, skill: x/look, agent_id: metrics, deliverable: {schema: {type: object, required: [p99]}}}
  - name: end
    fan_in_from: look
    steps:
      - {id: release, approval: {prompt: '"Sum up " + input.service + "?"', approvers: [bob]}}
      - {id: sum, skill: x/plan, agent_id: sum, if: steps.metrics.output.p99 > 1 && input.service == "cart"}
      - {id: notify, action: notify}
`

func killSite(dir, url string) *site {
	return &site{dir: dir, url: url, decides: byBob(true, "go"), admits: true, skills: SkillSteps{Copies: skill.Copies{Dir: filepath.Join(dir, "copies")}}, agents: map[string]script{
		"plan": spending(leaving("plan.md")), "logs": spending(failing(9)), "logs~2": spending(words("none")), "metrics": spending(words("no", `{"p99": 4}`)), "sum": spending(words("done")),
	}}
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
	if err := s.awaitSteps(ctx, o.RunID); err != nil {
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
			if points < 20 {
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
	s.library(t, map[string]string{"x/plan/SKILL.md": "# Plan it", "x/look/SKILL.md": "# Look"})
	must(s.open(t.Context()))
	o, err := s.admit(t.Context(), killPipeline, `{"service": "cart"}`)
	must(err)
	must(s.close())
	must(errors.Join(s.gone(), os.RemoveAll(filepath.Join(dir, "pipelines")))) // nothing of them is read again
	o.People = People{Approvers: []string{"ann", "bob"}}
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
	if run.Status != nightcrier.Finished || run.Outcome != nightcrier.StateSuccess || len(rows) != 8 {
		t.Errorf("killed at point %d: the run is %s, %s (%s), of %d steps", at, run.Status, run.Outcome, run.FailureReason, len(rows))
	}
	for _, row := range rows {
		if again := row.ID == "logs"; (row.State == nightcrier.StateSuccess) == (again && row.Attempt == 1) || row.Attempt > 1 && !again {
			t.Errorf("killed at point %d: step %s, attempt %d, is %s: %s", at, row.ID, row.Attempt, row.State, row.FailureReason)
		}
	}
	after := s.noted()[len(before):]
	for _, did := range after {
		if id, _, _ := strings.Cut(strings.Replace(did, "/", "#", 1), "#"); slices.Contains(ended, id) {
			t.Errorf("killed at point %d, with %v done, it did %s again", at, ended, did)
		}
	}
	for _, one := range []string{"collect", "plan#1", "logs#1", "logs~2#1", "metrics#1", "metrics/repair#3", "sum#1", "notify"} {
		if n := count(s.noted(), one); n < 1 || n > 2 {
			t.Errorf("killed at point %d: %s was begun %d times", at, one, n)
		}
	}
	list, _, err := s.store.Approvals(t.Context(), store.ApprovalFilter{RunID: o.RunID})
	must(err)
	if len(list) != 1 || list[0].Status != nightcrier.ApprovalGranted || len(list[0].Decisions) != 1 {
		t.Errorf("killed at point %d: people were asked %+v", at, list)
	}
	spent, err := spentOf(filepath.Join(s.root.Path(), BudgetDir), o.RunID)
	must(err)
	if spent.Spent.Money+spent.Held.Money > price.Dollar || run.CostUSD != spent.Spent.Money.Dollars() {
		t.Errorf("killed at point %d: it cost %v, by the record %+v", at, run.CostUSD, spent)
	}
	own := filepath.Join(s.root.Path(), "incident-"+o.RunID, ownDir, "incident-"+nightcrier.DerivedID(o.RunID, "sum"))
	for name, part := range map[string]string{"context/steps/plan/plan.md": "left", "context/system-instructions.txt": "# Plan it", InputFile: `"p99"`} {
		if raw, err := os.ReadFile(filepath.Join(own, name)); err != nil || !strings.Contains(string(raw), part) {
			t.Errorf("killed at point %d: %s is %q, %v", at, name, raw, err)
		}
	}
	return dies
}

// endedSteps are the attempts that were done when a server was killed.
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
			ids = append(ids, attemptName(row.ID, row.Attempt))
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
