package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
)

// callee is a server that queues runs, and admits none by itself.
func callee(t *testing.T, dir string, now func() time.Time) *App {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	cfg := &config.Config{PipelinesDir: dir}
	cfg.Agent.Executor = "claude-code"
	a, err := New(Options{Config: cfg, Logger: quiet, Now: now, WorkerCommand: []string{"worker"}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "skills", "dev", "walker", "SKILL.md")
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("---\nname: walker\ndescription: walks\n---\n# Walk\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if a.skillLibrary, err = skill.Open(skill.Options{CacheDir: filepath.Join(dir, "skills")}); err != nil {
		t.Fatal(err)
	}
	if a.root, err = workspace.OpenRoot(filepath.Join(dir, "workspaces")); err != nil {
		t.Fatal(err)
	}
	if a.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(dir, store.FileName), Logger: quiet, Now: now}); err != nil {
		t.Fatal(err)
	}
	a.housekeeper = &housekeeper{log: quiet, ctx: t.Context()}
	t.Cleanup(a.housekeeper.wg.Wait)
	a.masker, a.skills = mask.New(nil), []*skill.Skill{{Name: "k8s-troubleshooter"}}
	a.openPipelines()
	return a
}

// runsOf lists the runs, the oldest first: about what they are, and how they stand.
func runsOf(t *testing.T, a *App) (all []string) {
	t.Helper()
	list, _, err := a.store.ListRuns(t.Context(), store.RunFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		all = append([]string{r.Subject.Title + " " + string(r.Status)}, all...)
	}
	return all
}

// Each tick runs once, also when the server was down; of those that it missed, the newest.
func TestSchedulesFireOnce(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 5, 1, 10, 0, 30, 0, time.UTC)
	clock := func() time.Time { return now }
	file := "name: nightly\non: {type: cron, schedule: '0 * * * *'}\nsteps:\n  - skill: dev/walker\n"
	if err := os.WriteFile(filepath.Join(dir, "n.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a := callee(t, dir, clock)
	fire := func(ahead time.Duration, want string) {
		t.Helper()
		now = now.Add(ahead)
		for range 2 {
			if err := a.fireSchedules(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(runsOf(t, a), ", "); got != want {
			t.Errorf("at %s: %s, want %s", now, got, want)
		}
	}
	fire(0, "")
	fire(time.Hour, "2026-05-01T11:00:00Z queued")
	fire(-30*time.Minute, "2026-05-01T11:00:00Z queued") // a clock that was put back
	fire(31*time.Minute, "2026-05-01T11:00:00Z queued")
	if err := a.store.Close(); err != nil {
		t.Fatal(err)
	}
	a = callee(t, dir, clock)
	defer a.store.Close()
	fire(3*time.Hour, "2026-05-01T11:00:00Z queued, 2026-05-01T14:00:00Z queued")
	triggers, err := a.Triggers(t.Context())
	if err != nil || len(triggers.List) != 1 || triggers.List[0].Missed != 2 || triggers.List[0].Skill != "pipeline:nightly" || !triggers.List[0].NextRun.Equal(time.Date(2026, 5, 1, 15, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", triggers, err)
	}
}

// scheduled is a server with one pipeline file, whose clock goes as the test says.
type scheduled struct {
	*App
	t   *testing.T
	now time.Time
	dir string
}

func openScheduled(t *testing.T, start time.Time) *scheduled {
	t.Helper()
	s := &scheduled{t: t, now: start, dir: t.TempDir()}
	s.App = callee(t, s.dir, func() time.Time { return s.now })
	t.Cleanup(func() { s.store.Close() })
	return s
}

// write has the file say a trigger, "" for a mistake; remove takes the file away.
func (s *scheduled) write(on string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "n.yaml"), []byte("name: nightly\non: "+on+"\nsteps:\n  - skill: dev/walker\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scheduled) remove() {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, "n.yaml")); err != nil {
		s.t.Fatal(err)
	}
}

// pass lets time pass in even parts, and looks after each of them.
func (s *scheduled) pass(d time.Duration, parts int) {
	s.t.Helper()
	for range parts {
		s.now = s.now.Add(d / time.Duration(parts))
		if err := s.fireSchedules(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// wantTicks takes the times of the runs, as they are called.
func (s *scheduled) wantTicks(want ...string) {
	s.t.Helper()
	got := runsOf(s.t, s.App)
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], " ")
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("at %s there are the runs of %q, want %q", s.now.Format(time.RFC3339), got, want)
	}
}

// A schedule that was taken out and is put back begins then. A file that is away for a moment, or
// has a mistake for hours, loses no tick.
func TestSchedulesArePutBack(t *testing.T) {
	const hourly = "{type: cron, schedule: '0 * * * *'}"
	s := openScheduled(t, time.Date(2026, 5, 1, 10, 30, 0, 0, time.UTC))
	s.write(hourly)
	s.pass(0, 1)
	s.remove()
	s.pass(5*time.Hour, 300)
	s.write(hourly)
	s.pass(10*time.Minute, 10)
	s.wantTicks()
	s.pass(30*time.Minute, 30)
	s.wantTicks("2026-05-01T16:00:00Z")

	s.now = time.Date(2026, 5, 1, 16, 59, 50, 0, time.UTC)
	s.remove()
	s.pass(20*time.Second, 10)
	s.write(hourly)
	s.pass(10*time.Second, 5)
	s.wantTicks("2026-05-01T16:00:00Z", "2026-05-01T17:00:00Z")

	s.write("{type: cron, schedule: 'never'}")
	s.pass(3*time.Hour, 180)
	s.write(hourly)
	s.pass(time.Minute, 1)
	s.wantTicks("2026-05-01T16:00:00Z", "2026-05-01T17:00:00Z", "2026-05-01T20:00:00Z")

	s.write("{type: cron, schedule: '30 * * * *'}") // it changes, and begins then
	s.pass(40*time.Minute, 40)
	s.wantTicks("2026-05-01T16:00:00Z", "2026-05-01T17:00:00Z", "2026-05-01T20:00:00Z", "2026-05-01T20:30:00Z")
	if known, err := s.store.Schedules(t.Context()); err != nil || len(known) != 1 {
		t.Errorf("followed are %+v, %v", known, err)
	}
}

// A clock that was wrong for a while neither repeats a tick nor silences the schedule.
func TestSchedulesOutliveWrongClocks(t *testing.T) {
	right := time.Date(2026, 5, 1, 10, 30, 0, 0, time.UTC)
	s := openScheduled(t, right)
	s.write("{type: cron, schedule: '0 * * * *'}")
	s.pass(0, 1)
	s.now = right.AddDate(1, 0, 0) // a year ahead: one run, and the others are said to be missed
	s.pass(0, 1)
	s.wantTicks("2027-05-01T10:00:00Z")
	if known, err := s.store.Schedules(t.Context()); err != nil || len(known) != 1 || known[0].Missed != 999 {
		t.Errorf("%+v, %v", known, err)
	}
	s.now = right
	s.pass(2*time.Hour, 120)
	s.wantTicks("2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z", "2027-05-01T10:00:00Z")
	s.now = s.now.Add(-2 * time.Hour) // and back by what has passed
	s.pass(3*time.Hour, 180)
	s.wantTicks("2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z", "2026-05-01T13:00:00Z", "2027-05-01T10:00:00Z")
}

// Where the clock on the wall is put forward or back, each tick comes once: what the schedule names
// by the hour and is left out ticks then, and of an hour that comes twice the first counts.
func TestSchedulesKeepToTheWall(t *testing.T) {
	for on, want := range map[string]map[string][]string{
		"2026-03-28T22:00:00Z": { // in the night, 02:00 becomes 03:00 in Berlin
			"30 2 * * *": {"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
			"0 */6 * * *": {"2026-03-28T23:00:00Z", "2026-03-29T04:00:00Z", "2026-03-29T10:00:00Z", "2026-03-29T16:00:00Z", "2026-03-29T22:00:00Z",
				"2026-03-30T04:00:00Z"},
		},
		"2026-10-24T22:30:00Z": { // 03:00 becomes 02:00
			"30 2 * * *":  {"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
			"0 */6 * * *": {"2026-10-25T05:00:00Z", "2026-10-25T11:00:00Z", "2026-10-25T17:00:00Z", "2026-10-25T23:00:00Z"},
		},
	} {
		for cron, ticks := range want {
			start, err := time.Parse(time.RFC3339, on)
			if err != nil {
				t.Fatal(err)
			}
			s := openScheduled(t, start)
			s.write("{type: cron, schedule: '" + cron + "', timezone: Europe/Berlin}")
			s.pass(0, 1)
			s.pass(30*time.Hour, 180)
			s.wantTicks(ticks...)
		}
	}
}

// A call has its key evaluated and its policy kept, and is refused where it could never end well.
func TestCallsKeepTheirPipelinesPolicy(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]string{
		"p": "name: p\non: manual\nconcurrency: {key: input.app, policy: cancel-previous}\nsteps:\n  - skill: dev/walker\n",
		"l": "name: l\non: manual\nsteps:\n  - skill: dev/none\n",
		"b": "name: b\nsteps:\n  - skil: dev/walker\n",
		"h": "name: h\nsteps: [{action: health}]\n",
		"c": "name: c\nsteps: [{action: health}, {skill: dev/coder}, {skill: dev/walker}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := callee(t, dir, time.Now)
	defer a.store.Close()
	coder := filepath.Join(dir, "skills", "dev", "coder")
	if err := errors.Join(os.MkdirAll(coder, 0o700), os.WriteFile(filepath.Join(coder, "SKILL.md"), []byte("# Code\n"), 0o600),
		os.WriteFile(filepath.Join(coder, "agentura.config.yaml"), []byte("skills: [{name: coder, role: agent}]\nagent: {executor: codex, max_iterations: 3}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	call := func(pipeline, input string) (nightcrier.Run, error) {
		return a.StartRun(context.Background(), api.Call{Pipeline: pipeline, Input: []byte(input), By: "ann", Priority: nightcrier.Critical, Deadline: time.Hour})
	}
	for _, input := range []string{`{"app":"a"}`, `{"app":"b"}`, `{"app":"a"}`} {
		r, err := call("p", input)
		if err != nil || r.Status != nightcrier.Queued || r.Key == r.ID || r.TriggeredBy != "ann" || r.Severity != nightcrier.Critical || r.Deadline.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if got := strings.Join(runsOf(t, a), ", "); got != "ann dropped, ann queued, ann queued" {
		t.Error(got)
	}
	for _, c := range []struct {
		pipeline, input string
		code            nightcrier.Code
		says            string
	}{
		{"none", `{}`, nightcrier.NotFound, "(looked in"},
		{"l", `{}`, nightcrier.Conflict, "dev/none"},
		{"b", `{}`, nightcrier.Conflict, "/b.yaml:3: steps[0].skil: is not a key: did you mean skill?"},
		{"k8s-incident-triage", `{}`, nightcrier.Conflict, "nightcrier triage"},
		{"p", `{}`, nightcrier.Invalid, "concurrency.key: the input has no app: give it, as with --input app=…"},
		{"p", `[]`, nightcrier.Invalid, "no JSON object"},
	} {
		if _, err := call(c.pipeline, c.input); nightcrier.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %s %v", c.pipeline, c.input, nightcrier.CodeOf(err), err)
		}
	}
	// It waits for whoever does its work.
	for pipeline, executor := range map[string]string{"p": "claude-code", "h": "builtin", "c": "codex"} {
		if r, err := call(pipeline, `{"app":"c"}`); err != nil || r.Executor != executor {
			t.Errorf("%s is done by %s, %v", pipeline, r.Executor, err)
		}
	}
	if _, err := a.StartRun(t.Context(), api.Call{Skill: "dev/none", Input: []byte(`{}`)}); nightcrier.CodeOf(err) != nightcrier.NotFound || !strings.Contains(err.Error(), "dev/none") {
		t.Errorf("a skill that is not there: %v", err)
	}
	a.masker, a.cfg.Queue.Max = mask.New(nil, "hunter2-hunter2"), 1
	r, err := a.StartRun(t.Context(), api.Call{Skill: "dev/walker", Input: []byte(`{}`), By: "bob hunter2-hunter2\nof accounting"})
	if err != nil || r.Subject.Title != r.TriggeredBy || !strings.HasPrefix(r.TriggeredBy, "bob ") || !strings.HasSuffix(r.TriggeredBy, " of accounting") || strings.Contains(r.TriggeredBy, "hunter2") {
		t.Errorf("%q asked, %v", r.TriggeredBy, err)
	}
	if got := strings.Join(runsOf(t, a), ", "); strings.Count(got, "queued") != 1 {
		t.Errorf("one run may wait, and there are %s", got)
	}
	a.cfg.Queue.Max = 0
	if r, err := call("cluster-health", `{"cluster":"prod"}`); err != nil || r.Status != nightcrier.Queued {
		t.Errorf("what looks at no incident: %+v, %v", r, err)
	}
}

// A call that is made again is the run that it was, whatever became of the pipeline; the same key is for no
// other call, and is kept nowhere.
func TestACallIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, []byte("name: p\nsteps: [{action: health}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := callee(t, dir, time.Now)
	defer a.store.Close()
	call := api.Call{Pipeline: "p", Input: []byte(`{"app": 1}`), By: "ann", Deadline: time.Hour, Key: "order-of-ann-4711"}
	first, err := a.StartRun(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	call.Input = []byte(` {"app":1}`)
	if again, err := a.StartRun(t.Context(), call); err != nil || again.ID != first.ID {
		t.Errorf("again it is %+v, %v", again, err)
	}
	for name, change := range map[string]func(*api.Call){
		"pipeline": func(c *api.Call) { c.Pipeline = "q" }, "skill": func(c *api.Call) { c.Pipeline, c.Skill = "", "p" }, "input": func(c *api.Call) { c.Input = []byte(`{"app":2}`) },
		"none": func(c *api.Call) { c.Input = nil }, "by": func(c *api.Call) { c.By = "bob" }, "deadline": func(c *api.Call) { c.Deadline = 0 },
		"priority": func(c *api.Call) { c.Priority = nightcrier.Critical }, "model": func(c *api.Call) { c.Model = "m" },
	} {
		other := call
		change(&other)
		if run, err := a.StartRun(t.Context(), other); nightcrier.CodeOf(err) != nightcrier.Conflict || strings.Contains(err.Error(), "4711") || run.ID != "" {
			t.Errorf("another %s: %+v, %v", name, run, err)
		}
	}
	if kept, err := os.ReadFile(filepath.Join(dir, store.FileName)); err == nil && bytes.Contains(kept, []byte("4711")) {
		t.Error("the key is in the database")
	}
}

// Who calls a run gives it neither a cluster nor the tool servers of one, however its key is called.
func TestACallerChoosesNoToolServers(t *testing.T) {
	dir := t.TempDir()
	file := "name: keyed\nconcurrency: {key: input.app}\nsteps:\n  - skill: dev/%s\n"
	for _, skill := range []string{"walker", "dialer"} {
		if err := os.WriteFile(filepath.Join(dir, skill+".yaml"), fmt.Appendf(nil, strings.Replace(file, "keyed", skill, 1), skill), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := callee(t, dir, time.Now)
	defer func() {
		if err := a.store.Close(); err != nil {
			t.Error(err)
		}
	}()
	dialer := filepath.Join(dir, "skills", "dev", "dialer")
	if err := errors.Join(os.MkdirAll(dialer, 0o700), os.WriteFile(filepath.Join(dialer, "SKILL.md"), []byte("---\nname: dialer\ndescription: dials\n---\n# Dial\n"), 0o600),
		os.WriteFile(filepath.Join(dialer, "agentura.config.yaml"), []byte("domain: dev\nskills: [{name: dialer, role: agent}]\nagent: {max_iterations: 3}\nmcp_tools: [{server: of-prod}]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	a.cfg.ToolServers = []config.ToolServer{{Name: "of-prod", Clusters: []string{"prod"}, Tools: []string{"*"}}, {Name: "of-all", Tools: []string{"*"}}}
	order := func(pipeline string) (nightcrier.Run, run.Order) {
		t.Helper()
		called, err := a.StartRun(t.Context(), api.Call{Pipeline: pipeline, Input: []byte(`{"app": "prod"}`), By: "somebody"})
		if err != nil {
			t.Fatal(err)
		}
		o, err := a.newOrder(t.Context(), called)
		if err != nil {
			t.Fatal(err)
		}
		return called, o
	}
	called, o := order("walker")
	if called.Key != "prod" || o.Unready != "" || len(o.Agent.ToolServers) != 1 || o.Agent.ToolServers[0].Name != "of-all" {
		t.Errorf("key %s: %s, %+v", called.Key, o.Unready, o.Agent.ToolServers)
	}
	if _, o := order("dialer"); !strings.Contains(o.Unready, "of-prod, which is for incidents of some clusters") {
		t.Errorf("a skill that needs it: %q", o.Unready)
	}
	called.Pipeline = "gone"
	o, err := a.newOrder(t.Context(), called)
	data, failed := json.Marshal(o)
	var again run.Order
	if err := errors.Join(err, failed, json.Unmarshal(data, &again)); err != nil || !strings.Contains(again.Unready, "Pipeline not found: \"gone\"") {
		t.Errorf("of a pipeline that is gone: %q, %v", again.Unready, err)
	}
	called.Pipeline, called.Subject = "walker", nightcrier.Subject{Kind: nightcrier.SubjectIncident, ID: called.ID}
	if o, err := a.newOrder(t.Context(), called); err != nil || len(o.Agent.ToolServers) != 2 {
		t.Errorf("of an incident: %+v, %v", o.Agent.ToolServers, err)
	}
}
