package replay

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/demo"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	oneshot "nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage"
)

// defaults is a configuration of which nothing is set.
func defaults(t *testing.T) *config.Config {
	t.Helper()
	cfg, _, err := config.Load(config.Options{Env: []string{"NIGHTCRIER_WORKSPACE_ROOT=" + t.TempDir(), "PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// workspaceIn is where a one-shot command left the incident's workspace.
func workspaceIn(dir, id string) string { return filepath.Join(dir, "incident-"+id) }

// Every embedded scenario, investigated by the rules, comes to the same from its record
// alone: the cluster that it was read from is gone by then.
func TestReplayOfTheRulesComesToTheSame(t *testing.T) {
	scenarios, err := demo.Load(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			was, err := oneshot.Run(t.Context(), oneshot.Options{
				Config: defaults(t), Logger: slog.New(slog.DiscardHandler), Version: "test", Executor: config.Builtin, Out: dir,
				Event: sc.Notifications[0], Snapshot: sc.Snapshot, Cluster: sc.Cluster,
			})
			if err != nil {
				t.Fatal(err)
			}
			again, err := Replay(t.Context(), Options{
				Config: defaults(t), Logger: slog.New(slog.DiscardHandler), Version: "test", Workspace: workspaceIn(dir, was.Incident.ID), Out: t.TempDir(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(again.Aspects, func(a Aspect) bool { return a.Name == "cost" || a.Name == "tokens" || a.Name == "time" }) {
				t.Errorf("what it took is compared: %+v", again.Aspects)
			}
			if !again.Same || len(again.NotAsked)+len(again.NotRecorded) > 0 {
				t.Errorf("%+v", again)
			}
		})
	}
}

// A record that is not what was recorded is not replayed as if it were.
func TestReplayOfChangedRecords(t *testing.T) {
	scenarios, err := demo.Load(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sc, dir := scenarios[0], t.TempDir()
	was, err := oneshot.Run(t.Context(), oneshot.Options{
		Config: defaults(t), Logger: slog.New(slog.DiscardHandler), Version: "test", Executor: config.Builtin, Out: dir,
		Event: sc.Notifications[0], Snapshot: sc.Snapshot, Cluster: sc.Cluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	ws := workspaceIn(dir, was.Incident.ID)
	again := func(force bool) (Result, error) {
		return Replay(t.Context(), Options{Config: defaults(t), Logger: slog.New(slog.DiscardHandler), Version: "test", Workspace: ws, Force: force})
	}
	edit := func(name, from, to string) {
		raw, err := os.ReadFile(filepath.Join(ws, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(ws, name), bytes.Replace(raw, []byte(from), []byte(to), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	blobs, err := filepath.Glob(filepath.Join(ws, "output", "evidence", "*.blob"))
	if err != nil || len(blobs) == 0 {
		t.Fatal("no evidence", err)
	}
	for _, path := range blobs {
		was, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(bytes.Clone(was), ' '), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again(false); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "evidence E") || !strings.Contains(err.Error(), "--force") {
			t.Errorf("%s was changed: %v", filepath.Base(path), err)
		}
		if path == blobs[0] {
			if got, err := again(true); err != nil || got.Same || len(got.Doubts) == 0 {
				t.Errorf("evidence that was changed, forced: same %v, doubts %v, %v", got.Same, got.Doubts, err)
			}
		}
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edit(replay.ReportFile, `"verdict": "fault`, `"verdict": "healthy`)
	got, err := again(false)
	if err != nil || got.Same || len(got.Differences) != 1 || got.Differences[0] != (replay.Difference{Where: "verdict", Then: "healthy", Now: "fault"}) {
		t.Errorf("a report that was changed: %+v, %v", got, err)
	}
	edit("output/audit.jsonl", `"decision":"allow"`, `"decision":"deny"`)
	if _, err := again(false); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "--force") {
		t.Errorf("an audit that was changed: %v", err)
	}
	if got, err := again(true); err != nil || len(got.Doubts) == 0 || got.Same {
		t.Errorf("forced: %+v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(ws, replay.File(replay.Prepare))); err != nil {
		t.Fatal(err)
	}
	if _, err := again(true); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), replay.File(replay.Prepare)) {
		t.Errorf("without its first tape: %v", err)
	}
	for name, change := range map[string]func() error{
		"is damaged": func() error { return os.WriteFile(filepath.Join(ws, triage.BegunFile), []byte("{"), 0o600) },
		"is missing": func() error { return os.Remove(filepath.Join(ws, triage.BegunFile)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := again(true); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), triage.BegunFile) {
			t.Errorf("what it began with %s: %v", name, err)
		}
	}
	begun, tape := filepath.Join(ws, triage.BegunFile), replay.File(replay.Prepare)
	for name, text := range map[string]string{"of nothing": "{}", "of no run": `{"incident":{"id":"` + was.Incident.ID + `"},"run":{"id":"../.."}}`} {
		if err := os.WriteFile(begun, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := again(true); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), begun+" is damaged") || strings.Contains(err.Error(), tape) {
			t.Errorf("it began with a document %s: %v", name, err)
		}
	}
	if err := os.RemoveAll(ws); err != nil {
		t.Fatal(err)
	}
	if _, err := again(false); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("without a workspace: %v", err)
	}
}

// A skill is one that is configured or a directory, and stands beside those of the record or
// in the place of one of its name.
func TestReplayWithAnotherSkill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), skill.Troubleshooter)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: x\ndescription: y\n---\nLook elsewhere.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := defaults(t)
	own, _, err := cfg.Skills.Find()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		skill  string
		digest bool // is that of our own
		wrong  string
	}{
		"a name": {skill.Troubleshooter, true, ""}, "a directory": {dir, false, ""}, "none of this name": {"nowhere", false, "nowhere"},
		"no skill": {filepath.Dir(dir) + "/", false, "SKILL.md"}, "no directory": {dir + "/nothing", false, "SKILL.md"},
	} {
		s, err := otherSkill(Options{Config: cfg, Skill: tt.skill})
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all := skill.Put(slices.Clone(own), s)
		if len(all) != len(own) || all[0] != s || (s.Ref() == own[0].Ref()) != tt.digest {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// A record does not choose what is replaced in the answers of its model, but for the path of
// its own workspace.
func TestTheWorkspaceOfARecord(t *testing.T) {
	rec := &replay.Record{}
	for said, want := range map[string]string{"/srv/w/incident-1": "/srv/w/incident-1", "e": "incident-1", "": "incident-1", "/": "incident-1", "incident-1": "incident-1"} {
		r := &replayer{rec: rec, begun: triage.Begun{Workspace: said, Incident: nightcrier.Incident{ID: "1"}}}
		if got := r.workspaceThen(); got != want {
			t.Errorf("%q: %q", said, got)
		}
	}
}

// The servers of a record have names and patterns, and no way to them; what is none is left out.
func TestRecordedServersLeadNowhere(t *testing.T) {
	hostile := toolserver.Server{Name: "far", URL: "http://169.254.169.254/", Command: []string{"/bin/sh", "-c", "touch /tmp/outside"}, TokenEnv: "ANTHROPIC_API_KEY",
		Env: []string{"HOME"}, Read: []string{"/etc"}, Ports: []int{22}, Tools: []string{"*"}, Timeout: time.Second}
	all := []toolserver.Server{hostile, hostile, {Name: "../x", Timeout: 1}, {Name: "list", Timeout: 1}, {Name: "slow"}, {Name: "wild", Tools: []string{"["}, Timeout: 1}}
	for range 100 {
		all = append(all, toolserver.Server{Name: "many", Timeout: 1})
	}
	want := []toolserver.Server{{Name: "far", Tools: []string{"*"}, Timeout: time.Second}, {Name: "many", Timeout: 1}}
	if got := recordedServers(all); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// A script is run by the path that is configured here, or not at all.
func TestAScriptOfTheRecordIsNotRun(t *testing.T) {
	cfg := defaults(t)
	r := &replayer{o: Options{Config: cfg}, tapes: map[string]*replay.Player{replay.Prepare: replay.Blank()}}
	r.begun.Order = run.Order{Agent: agent.Spec{Executor: config.Script, ScriptPath: "evil.sh"}}
	if err := r.boundOrder(); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("without a script of ours: %v", err)
	}
	cfg.Agent.ScriptPath = "/opt/agent.sh"
	if err := r.boundOrder(); err != nil || r.begun.Order.Agent.ScriptPath != "/opt/agent.sh" {
		t.Errorf("%v, %s", err, r.begun.Order.Agent.ScriptPath)
	}
}

// An executor is one that there is: what it is called is printed, and finds a program.
func TestTheExecutorOfARecord(t *testing.T) {
	id := nightcrier.NewID()
	for who, ok := range map[string]bool{config.Builtin: true, "codex": true, "": false, "x": false, "codex\x1b]0;owned\a": false} {
		r := &replayer{rec: &replay.Record{}, begun: triage.Begun{Incident: nightcrier.Incident{ID: id}, Run: nightcrier.Run{ID: id}, Order: run.Order{RunID: id, Subject: nightcrier.Subject{Kind: nightcrier.SubjectIncident, ID: id}, Agent: agent.Spec{Executor: who}}}}
		if err := r.checkRecord(); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", who, err)
		}
	}
}

// A record is not obeyed where it would ask others, spend, or have its agent confined
// less than is configured.
func TestReplayIsNotLedByTheRecord(t *testing.T) {
	for _, tt := range []struct{ recorded, configured, want string }{
		{"none", "best-effort", "best-effort"}, {"none", "strict", "strict"}, {"strict", "best-effort", "strict"}, {"", "strict", "strict"}, {"none", "none", "none"},
		{"whatever", "strict", "strict"},
	} {
		cfg := defaults(t)
		cfg.Agent.Require, cfg.Agent.UIDBase, cfg.ToolServers = tt.configured, 70000, []config.ToolServer{{Name: "tickets"}}
		cfg.Agent.Shell = false
		limit := budget.Limit{Tokens: 9}
		r := &replayer{o: Options{Config: cfg}, tapes: map[string]*replay.Player{replay.Prepare: replay.Blank()}}
		cfg.Agent.SystemPromptFile, cfg.Agent.Timeout = "/etc/nightcrier/system.md", 7*time.Minute
		r.begun.Order = run.Order{Agent: agent.Spec{Executor: "codex", Shell: true,
			Command: "/tmp/codex", ScriptPath: "evil.sh", CLI: "evil", SkillsDir: "/root", SystemPromptFile: "/root/.ssh/id_ed25519", TriageScript: "evil.sh",
			Timeout: 24 * time.Hour, Grace: -1, MaxWorkspaceBytes: 1 << 50,
			Require: tt.recorded, UIDBase: 1, ReadPaths: []string{"/root/.ssh"}, ToolServers: []toolserver.Server{{Name: "tickets", Command: []string{"/bin/sh"}}},
			Budget: budget.Limits{Run: limit, Incident: limit, ClusterDay: limit, Day: limit},
		}}
		if err := r.boundOrder(); err != nil {
			t.Fatal(err)
		}
		a := r.begun.Order.Agent
		if a.Command+a.ScriptPath+a.SkillsDir+a.TriageScript != "" || a.CLI == "evil" || a.SystemPromptFile != "/etc/nightcrier/system.md" {
			t.Errorf("paths of the record: %+v", a)
		}
		if a.Timeout != 7*time.Minute || a.Grace != cfg.Agent.Grace || a.MaxWorkspaceBytes != cfg.Agent.MaxWorkspaceBytes {
			t.Errorf("limits of the record: %+v", a)
		}
		if a.Shell {
			t.Error("it has a shell, which is configured away")
		}
		if a.Require != tt.want || a.UIDBase != 70000 || len(a.ReadPaths)+len(a.ToolServers) > 0 || a.Budget != (budget.Limits{Run: limit}) {
			t.Errorf("%+v: %+v", tt, a)
		}
		if len(r.unserved) != 1 || !strings.Contains(r.unserved[0], "tickets") || len(r.replayConfig(t.TempDir()).ToolServers) > 0 {
			t.Errorf("not served: %q", r.unserved)
		}
	}
}
