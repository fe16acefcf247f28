package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/testproc"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// A worker re-executes its own binary, whatever name that has.
	if code, ok := hiddenStage(os.Args); ok {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == "nightcrier" {
		main()
	}
	os.Exit(withProgram(m))
}

// withProgram runs the tests with the program in PATH.
func withProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nightcrier-path-")
	if err == nil {
		err = os.Symlink(testproc.Self(), filepath.Join(dir, "nightcrier"))
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.Run()
}

// TestScripts runs the real binary. A script makes a store with `world`, has it
// served with `server`, and checks exit codes with `exits`.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"world": world, "server": server, "toolserver": toolServer, "exits": exits, "json": checkJSON}})
}

// toolServer serves tools of somebody else at $TOOLS until the script ends: one that only reads, with
// the description that is given and characters that nobody sees, and one that writes.
func toolServer(ts *testscript.TestScript, _ bool, given []string) {
	s := sdk.NewServer(&sdk.Implementation{Name: "wiki", Version: "1"}, nil)
	for name, about := range map[string]string{"look": given[0] + "\x1b[2J\u202e", "write": "Writes a page"} {
		s.AddTool(&sdk.Tool{Name: name, Description: about, InputSchema: map[string]any{"type": "object"}, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: name == "look", DestructiveHint: new(name == "write")}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	ts.Setenv("TOOLS", web.URL)
	ts.Defer(web.Close)
}

// exits CODE PROGRAM ARGS… runs a program that must end with the code.
func exits(ts *testscript.TestScript, _ bool, given []string) {
	want, err := strconv.Atoi(given[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(given[1], given[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// checkJSON checks that stdout is exactly one JSON document.
func checkJSON(ts *testscript.TestScript, _ bool, _ []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
}

func openWorld(ts *testscript.TestScript) *store.Store {
	root := ts.MkAbs("incidents")
	ts.Check(os.MkdirAll(root, 0o700))
	s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(root, "nightcrier.db"), Logger: slog.New(slog.DiscardHandler)})
	ts.Check(err)
	return s
}

// world makes a store with an incident that has a report ($RESOLVED), one that
// waits ($WAITING), and a suppressed event; all with hostile names.
func world(ts *testscript.TestScript, _ bool, _ []string) {
	ctx := context.Background()
	s := openWorld(ts)
	defer s.Close()
	resolved := accept(ts, s, "CrashLoop", nightcrier.Critical, "one")
	_, err := s.AdmitNext(ctx, store.Limits{Total: 1, PerKey: 1})
	ts.Check(err)
	_, err = s.BeginRun(ctx, resolved.Run.ID)
	ts.Check(err)
	for key, text := range map[string]string{"a": "looking at the pod \x1b[2J", "b": "memory limit exceeded"} {
		item := journal.OfMessage(journal.Message{Text: text})
		data, err := json.Marshal(item.Data)
		ts.Check(err)
		_, err = s.AppendJournal(ctx, resolved.Run.ID, nightcrier.JournalEntry{Run: resolved.Run.ID, Time: time.Now(), Type: item.Type, Key: key, Data: data})
		ts.Check(err)
	}
	rep, err := json.Marshal(nightcrier.Report{Schema: nightcrier.ReportSchema, IncidentID: resolved.Incident.ID, Valid: true, Verdict: nightcrier.VerdictFault,
		RootCause: &nightcrier.RootCause{Cause: "oom-killed", Summary: "The limit is too low.", Confidence: nightcrier.High}})
	ts.Check(err)
	ts.Check(s.FinishRun(ctx, store.Finish{RunID: resolved.Run.ID, Status: nightcrier.Resolved, RootCause: "The limit is \x1b[31mtoo low.",
		Result: nightcrier.AgentResult{State: nightcrier.StateSuccess}, Report: rep}))
	call(ts, s)
	waiting := accept(ts, s, "NodeUnhealthy", nightcrier.Warning, "two")
	chatter := nightcrier.Event{ID: nightcrier.NewID(), ReceivedAt: time.Now(), Cluster: "prod", FaultType: "Chatter", Outcome: nightcrier.Suppressed,
		Reason: nightcrier.BelowThreshold, Detail: "info is below warning\x1b]0;owned\x07"}
	for range 3 { // sent again, it is counted
		_, err = s.Suppress(ctx, chatter)
		ts.Check(err)
	}
	ts.Setenv("RESOLVED", resolved.Incident.ID)
	ts.Setenv("WAITING", waiting.Incident.ID)
	ts.Setenv("EVIL", "nice\x1b[2J note\u202e")
}

// call makes a run about a call ($CALL) of which the second step failed,
// with hostile names.
func call(ts *testscript.TestScript, s *store.Store) {
	ctx := context.Background()
	n := store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "c1", Title: "greet \x1b[2Jall"}, Pipeline: "greet", Key: "hall", TriggeredBy: "ann"}
	e, err := s.EnqueueRun(ctx, n)
	ts.Check(err)
	_, err = s.AdmitNext(ctx, store.Limits{Total: 1, PerKey: 1})
	ts.Check(err)
	now := time.Now()
	for _, step := range []nightcrier.Step{
		{ID: "collect", Uses: "action:collect", State: nightcrier.StateSuccess, Output: []byte(`{"guests": 3}`)},
		{ID: "speak", Uses: "org/speaker", Executor: "llm", State: nightcrier.StateFailed, FailureReason: "no voice\x1b[2J"},
	} {
		step.RunID, step.Attempt, step.StartedAt, step.EndedAt = e.Run.ID, 1, now, now.Add(time.Second)
		ts.Check(s.SaveSteps(ctx, step))
	}
	ts.Check(s.FinishRun(ctx, store.Finish{RunID: e.Run.ID, Outcome: nightcrier.StateFailed, FailureReason: "step speak failed"}))
	ts.Setenv("CALL", e.Run.ID)
}

func accept(ts *testscript.TestScript, s *store.Store, fault string, sev nightcrier.Severity, fingerprint string) store.Decision {
	d, err := s.Accept(context.Background(), nightcrier.Event{ID: nightcrier.NewID(), ReceivedAt: time.Now(), Source: "mcp", Cluster: "prod", FaultType: fault, Severity: sev,
		Resource: nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-0"}, Fingerprint: fingerprint},
		store.AcceptPolicy{Pipeline: "k8s-incident-triage", Executor: "builtin", QueueMax: 10})
	ts.Check(err)
	return d
}

// control is what app does for the API, as far as a store can.
type control struct{ *store.Store }

func (c control) MarkCleared(ctx context.Context, id, _ string) (nightcrier.Incident, error) {
	return c.Store.MarkCleared(ctx, id)
}

func (c control) Cancel(ctx context.Context, id, cause string) (nightcrier.Run, error) {
	return c.RequestCancel(ctx, id, cause)
}

func (c control) CancelRun(ctx context.Context, id, cause string) (nightcrier.Run, error) {
	return c.RequestCancelRun(ctx, id, cause)
}

func (c control) TellAgain(ctx context.Context, id string) ([]store.Notification, error) {
	return c.RenewNotifications(ctx, id)
}

func (c control) Note(ctx context.Context, id, by, text string) (nightcrier.Note, error) {
	n, err := nightcrier.NewNote(by, text, time.Now())
	if err != nil {
		return n, err
	}
	return n, c.AddNote(ctx, id, n)
}

func (control) Statuses() []nightcrier.SourceStatus {
	return []nightcrier.SourceStatus{{Cluster: "prod", State: nightcrier.SourceDown, LastError: "connection refused", Since: time.Now().Add(-3 * time.Minute)}}
}

// server serves the world on the socket and on $SERVER until the script ends.
func server(ts *testscript.TestScript, _ bool, _ []string) {
	s := openWorld(ts)
	a := api.New(api.Options{Version: "test", Incidents: s, Events: s, Runs: s, Control: control{s}, Clusters: control{s}, Logger: slog.New(slog.DiscardHandler),
		Markdown: func(context.Context, nightcrier.Incident, []byte) ([]byte, error) {
			return []byte("# The report\n\x1b[2J"), nil
		}})
	srv := api.NewServer(api.ServerConfig{API: a, Listen: "127.0.0.1:0", Socket: ts.MkAbs(filepath.Join("incidents", api.SocketName)), Logger: slog.New(slog.DiscardHandler)})
	ts.Check(srv.Start(context.Background()))
	ts.Setenv("SERVER", "http://"+srv.Addr())
	ts.Defer(func() {
		ts.Check(errors.Join(srv.Stop(context.Background()), s.Close()))
	})
}
