package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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

// A call has its key evaluated and its policy kept, and is refused where it could never end well.
func TestCallsKeepTheirPipelinesPolicy(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]string{
		"p": "name: p\non: manual\nconcurrency: {key: input.app, policy: cancel-previous}\nsteps:\n  - skill: dev/walker\n",
		"l": "name: l\non: manual\nsteps:\n  - skill: dev/none\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := callee(t, dir, time.Now)
	defer a.store.Close()
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
		{"k8s-incident-triage", `{}`, nightcrier.Conflict, "nightcrier triage"},
		{"p", `{}`, nightcrier.Invalid, "concurrency.key"},
		{"p", `[]`, nightcrier.Invalid, "no JSON object"},
	} {
		if _, err := call(c.pipeline, c.input); nightcrier.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %s %v", c.pipeline, c.input, nightcrier.CodeOf(err), err)
		}
	}
}
