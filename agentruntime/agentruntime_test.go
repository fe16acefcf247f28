package agentruntime

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// patience bounds every wait for a real process.
const patience = 3 * time.Minute

const crash = `{"faultType":"CrashLoop","severity":"error","resource":{"apiVersion":"v1","kind":"Pod","name":"cart-0","namespace":"shop"},"context":"restart count: 4"}`

// bench is a Runtime with a shell script for an agent.
type bench struct {
	*testing.T
	*Runtime
	options Options
}

func newBench(t *testing.T, script string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{T: t, options: Options{WorkspaceRoot: filepath.Join(dir, "root"), Settings: map[string]string{
		"agent.executor": "builtin", "agent.graceful_shutdown": "200ms",
	}}}
	if script != "" {
		path := filepath.Join(dir, "agent.sh")
		b.must(os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
		b.options.Settings["agent.executor"], b.options.Settings["agent.script_path"] = "script", path
	}
	b.open()
	t.Cleanup(func() { b.must(b.Close()) })
	return b
}

func (b *bench) open() {
	b.Helper()
	var err error
	b.Runtime, err = New(b.options)
	b.must(err)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// start runs an incident in the background.
func (b *bench) start(ctx context.Context, inc *Incident) chan ended {
	done := make(chan ended, 1)
	go func() {
		res, err := b.RunAgent(ctx, inc)
		done <- ended{res, err}
	}()
	return done
}

type ended struct {
	result *AgentResult
	err    error
}

// await waits until an incident has a status.
func (b *bench) await(id string, want AgentStatus) {
	b.Helper()
	var got *AgentStatus
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if got, err = b.GetStatus(id); err == nil && *got == want {
			return
		}
	}
	b.Fatalf("incident %s is %v, never %s", id, got, want)
}

const (
	reports = `cp "$WORKSPACE_DIR/context/initial_triage_report.md" "$OUTPUT_DIR/investigation.md"; `
	waits   = `echo here; while [ ! -e "$TMPDIR/go" ]; do sleep 0.02; done; `
)

func TestHowAgentsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		status AgentStatus
		exit   int
		fails  string
	}{
		"no agent":  {status: StatusSuccess},
		"a report":  {script: reports, status: StatusSuccess},
		"no report": {script: "echo nothing found", status: StatusSuccess, fails: "invalid_output"},
		"a failure": {script: reports + "exit 3", status: StatusFailed, exit: 3, fails: "agent_error"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.script)
			id := nightcrier.NewID()
			res, err := b.RunAgent(t.Context(), &Incident{ID: id, Cluster: "prod", EventData: []byte(crash)})
			b.must(err)
			if res.IncidentID != id || res.Status != c.status || res.ExitCode != c.exit || res.StartTime.IsZero() || !res.EndTime.After(res.StartTime) {
				t.Errorf("%+v", res)
			}
			if (res.Error == nil) != (c.fails == "") || res.Error != nil && !strings.Contains(res.Error.Error(), c.fails) {
				t.Errorf("error %v, want %q", res.Error, c.fails)
			}
			if _, err := os.Stat(res.OutputLog); err != nil || len(res.Artifacts) < 2 {
				t.Errorf("log: %v; artifacts %v", err, res.Artifacts)
			}
			got, err := b.GetStatus(id)
			b.must(err)
			p, err := b.Status(id)
			b.must(err)
			if *got != c.status || p.Status != c.status || p.Duration != res.EndTime.Sub(res.StartTime) || p.WorkspaceDir != res.WorkspaceDir {
				t.Errorf("status %s, progress %+v", *got, p)
			}
			if err := b.Cancel(id); nightcrier.CodeOf(err) != nightcrier.Conflict {
				t.Errorf("cancel of what has ended: %v", err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	b := newBench(t, waits)
	id := nightcrier.NewID()
	done := b.start(t.Context(), &Incident{ID: id, EventData: []byte(crash)})
	b.await(id, StatusRunning)
	p, err := b.Status(id)
	b.must(err)
	if p.Duration <= 0 || p.WorkspaceDir == "" || p.StartTime.IsZero() {
		t.Errorf("progress of a running agent: %+v", p)
	}
	b.must(b.Cancel(id))
	if e := <-done; e.err != nil || e.result.Status != StatusCancelled || e.result.Error == nil {
		t.Errorf("%+v, %v", e.result, e.err)
	}
}

func TestContextEndsTheAgent(t *testing.T) {
	b := newBench(t, waits)
	ctx, cancel := context.WithCancel(t.Context())
	id := nightcrier.NewID()
	done := b.start(ctx, &Incident{ID: id, EventData: []byte(crash)})
	b.await(id, StatusRunning)
	cancel()
	if e := <-done; !errors.Is(e.err, context.Canceled) || e.result.Status != StatusCancelled {
		t.Errorf("%+v, %v", e.result, e.err)
	}
}

func TestTimeout(t *testing.T) {
	b := newBench(t, waits)
	b.must(b.Close())
	b.options.Settings["agent.timeout"] = "1s"
	b.open()
	res, err := b.RunAgent(t.Context(), &Incident{ID: nightcrier.NewID(), EventData: []byte(crash)})
	b.must(err)
	if res.Status != StatusTimeout || res.Error == nil {
		t.Errorf("%+v", res)
	}
}

// Two incidents of one fault are two investigations, one after the other.
func TestOneFaultTwice(t *testing.T) {
	b := newBench(t, waits+reports)
	first, second := nightcrier.NewID(), nightcrier.NewID()
	one := b.start(t.Context(), &Incident{ID: first, Cluster: "prod", EventData: []byte(crash)})
	b.await(first, StatusRunning)
	two := b.start(t.Context(), &Incident{ID: second, Cluster: "prod", EventData: []byte(crash)})
	p, err := b.Status(first)
	b.must(err)
	if _, err := b.RunAgent(t.Context(), &Incident{ID: first, EventData: []byte(crash)}); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("an id that runs: %v", err)
	}
	b.must(os.WriteFile(filepath.Join(p.WorkspaceDir, "tmp", "go"), nil, 0o600))
	if e := <-one; e.err != nil || e.result.IncidentID != first || e.result.Error != nil {
		t.Errorf("%+v, %v", e.result, e.err)
	}
	b.await(second, StatusRunning)
	p, err = b.Status(second)
	b.must(err)
	b.must(os.WriteFile(filepath.Join(p.WorkspaceDir, "tmp", "go"), nil, 0o600))
	if e := <-two; e.err != nil || e.result.IncidentID != second || e.result.Error != nil {
		t.Errorf("%+v, %v", e.result, e.err)
	}
	if _, err := b.RunAgent(t.Context(), &Incident{ID: first, EventData: []byte(crash)}); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("an id that has ended: %v", err)
	}
}

func TestAgentOutlivesTheRuntime(t *testing.T) {
	b := newBench(t, waits+reports)
	id := nightcrier.NewID()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b.start(ctx, &Incident{ID: id, EventData: []byte(crash)})
	b.await(id, StatusRunning)
	b.must(b.Close())
	b.open()
	p, err := b.Status(id)
	b.must(err)
	b.must(os.WriteFile(filepath.Join(p.WorkspaceDir, "tmp", "go"), nil, 0o600))
	b.await(id, StatusSuccess)
}

func TestRefusedIncidents(t *testing.T) {
	b := newBench(t, "")
	for name, inc := range map[string]*Incident{
		"none":               nil,
		"a path":             {ID: "../../etc/passwd", EventData: []byte(crash)},
		"no id":              {EventData: []byte(crash)},
		"capitals":           {ID: strings.ToUpper(nightcrier.NewID()), EventData: []byte(crash)},
		"a word":             {ID: nightcrier.NewID(), Severity: "terrible", EventData: []byte(crash)},
		"no JSON":            {ID: nightcrier.NewID(), EventData: []byte("{")},
		"no object":          {ID: nightcrier.NewID(), EventData: []byte("[1]")},
		"nothing to look at": {ID: nightcrier.NewID()},
		"an illegal name":    {ID: nightcrier.NewID(), Resources: []Resource{{Kind: "Pod", Name: "../x"}}},
	} {
		if res, err := b.RunAgent(t.Context(), inc); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	for name, err := range map[string]error{
		"GetStatus of a path": second(b.GetStatus("../x")), "Cancel of a path": b.Cancel("../x"),
	} {
		if nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown := nightcrier.NewID()
	if err := second(b.GetStatus(unknown)); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("status of an unknown incident: %v", err)
	}
	if err := b.Cancel(unknown); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("cancel of an unknown incident: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// What the caller says besides the event reaches the agent.
func TestIncidentReachesTheWorkspace(t *testing.T) {
	b := newBench(t, "")
	at := time.Date(2026, 11, 20, 3, 5, 0, 0, time.UTC)
	res, err := b.RunAgent(t.Context(), &Incident{
		ID: nightcrier.NewID(), Cluster: "prod", Namespace: "shop", Severity: "critical", Timestamp: at, Logs: []string{"one", "the second line"},
		Resources: []Resource{{Kind: "Pod", Name: "cart-0"}, {Kind: "Node", Name: "worker-1"}},
	})
	b.must(err)
	read := func(rel string) string {
		data, err := os.ReadFile(filepath.Join(res.WorkspaceDir, rel))
		b.must(err)
		return string(data)
	}
	var inc nightcrier.Incident
	b.must(json.Unmarshal([]byte(read("incident.json")), &inc))
	if inc.Resource.Namespace != "shop" || inc.Severity != nightcrier.Critical || !inc.Timestamp.Equal(at) || inc.Cluster != "prod" || !strings.Contains(inc.Context, "Node/worker-1") {
		t.Errorf("%+v", inc)
	}
	if !strings.Contains(read("context/logs.txt"), "the second line") {
		t.Errorf("logs.txt: %s", read("context/logs.txt"))
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no root":         {},
		"unknown setting": {WorkspaceRoot: t.TempDir(), Settings: map[string]string{"agent.excutor": "builtin"}},
		"wrong value":     {WorkspaceRoot: t.TempDir(), Settings: map[string]string{"agent.executor": "nobody"}},
		"no script":       {WorkspaceRoot: t.TempDir(), Settings: map[string]string{"agent.executor": "script"}},
	} {
		if _, err := New(o); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := newBench(t, "")
	if _, err := New(b.options); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("a second runtime on one directory: %v", err)
	}
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if _, err := (Options{}).workerCommand("script"); err == nil || !strings.Contains(err.Error(), "agentruntime.Main") {
		t.Errorf("a program that cannot be a worker: %v", err)
	}
}
