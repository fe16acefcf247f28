package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/face/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// patience bounds every wait for a real process.
const patience = 3 * time.Minute

// fault is what the peer pushes.
const fault = `{"data":{"subscriptionId":"s","cluster":"prod","faultId":"f1","faultType":"CrashLoop","severity":"critical",
"resource":{"apiVersion":"v1","kind":"Pod","name":"cart-6d9f8b7c5d-x2k9q","namespace":"shop","uid":"5a0c6f0e-8a54-4c53-9b0d-0f4f7f0c1d11"},
"context":"restart count: 4","timestamp":"2026-11-20T03:05:00Z"},"level":"warning","logger":"kubernetes/faults"}`

// agent works until the test lets it go.
const agent = `#!/bin/sh
while [ ! -e "$WORKSPACE_DIR/tmp/go" ]; do sleep 0.02; done
`

// site is a server as a user has it: a peer to watch, a script to run, a
// directory to own.
type site struct {
	peer   *fakemcp.Peer
	root   string
	script string
	client *client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{peer: fakemcp.NewPeer(), root: filepath.Join(t.TempDir(), "incidents"), script: filepath.Join(t.TempDir(), "agent.sh")}
	must(t, s.peer.Listen())
	t.Cleanup(func() { s.peer.Close() })
	must(t, os.WriteFile(s.script, []byte(agent), 0o755))
	s.client = client.Unix(filepath.Join(s.root, api.SocketName))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running is a started `nightcrier`.
type running struct {
	cmd    *exec.Cmd
	stderr *buffer
	ended  chan error
}

// start runs nightcrier without a subcommand, as a container does.
func (s *site) start(t *testing.T) *running {
	t.Helper()
	p := &running{cmd: exec.Command("nightcrier", "--log-level", "debug"), stderr: &buffer{}, ended: make(chan error, 1)}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "K8S_CLUSTER_MCP_ENDPOINT=" + s.peer.URL("prod"), "WORKSPACE_ROOT=" + s.root,
		"AGENT_SCRIPT_PATH=" + s.script, "AGENT_TIMEOUT=120", "NIGHTCRIER_LISTEN=none"}
	p.cmd.Stderr = p.stderr
	must(t, p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
		}
		if t.Failed() {
			t.Logf("server %d said:\n%s", p.cmd.Process.Pid, p.stderr)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, s.peer.AwaitSubscribed(ctx, "prod"))
	return p
}

// signal sends SIGTERM; exit waits for the end and its code.
func (p *running) signal(t *testing.T) {
	t.Helper()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
}

func (p *running) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal("the server does not end")
		return -1
	}
}

// until polls for something that another process does.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !true(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// investigated pushes a fault and waits until its agent runs.
func (s *site) investigated(t *testing.T) nightcrier.Incident {
	t.Helper()
	_, err := s.peer.Push("prod", []byte(fault))
	must(t, err)
	until(t, "an agent runs", func() bool { return s.agents(t) == 1 })
	list, err := s.client.Incidents(t.Context(), client.IncidentQuery{})
	must(t, err)
	if len(list.Incidents) != 1 {
		t.Fatalf("%d incidents", len(list.Incidents))
	}
	return list.Incidents[0]
}

// agents counts live workers.
func (s *site) agents(t *testing.T) int {
	t.Helper()
	all, err := process.Backend{Dir: filepath.Join(s.root, app.WorkersDir)}.List(t.Context(), app.WorkersOwner)
	must(t, err)
	n := 0
	for _, w := range all {
		if w.Alive {
			n++
		}
	}
	return n
}

// release lets the incident's agent end, and waits for the incident to do so.
func (s *site) release(t *testing.T, id string) nightcrier.Incident {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.root, "incident-"+id, "tmp", "go"), nil, 0o600))
	return s.ended(t, id)
}

func (s *site) ended(t *testing.T, id string) (inc nightcrier.Incident) {
	t.Helper()
	until(t, "the incident ends", func() bool {
		var err error
		inc, err = s.client.Incident(t.Context(), id)
		return err == nil && !inc.Status.Open()
	})
	return inc
}

func TestOneSignalLeavesTheAgentToTheNextServer(t *testing.T) {
	s := newSite(t)
	first := s.start(t)
	inc := s.investigated(t)
	first.signal(t)
	if code := first.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s.agents(t) != 1 {
		t.Fatal("the agent did not outlive the server")
	}
	second := s.start(t)
	if got := s.release(t, inc.ID); got.Attempts != 1 || got.RunID != inc.RunID {
		t.Errorf("the second server began anew: %+v", got)
	}
	second.signal(t)
	if code := second.exit(t); code != 0 {
		t.Errorf("exit code %d of an idle server", code)
	}
	if s.agents(t) != 0 {
		t.Error("an agent is left")
	}
}

func TestSecondSignalStopsTheAgent(t *testing.T) {
	s := newSite(t)
	first := s.start(t)
	inc := s.investigated(t)
	first.signal(t)
	until(t, "the server says what a second signal does", func() bool { return strings.Contains(first.stderr.String(), "a second signal within") })
	first.signal(t)
	if code := first.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := s.agents(t); n != 0 {
		t.Errorf("%d agents outlived two signals", n)
	}
	s.start(t)
	if got := s.ended(t, inc.ID); got.FailureClass != nightcrier.FailCancelled {
		t.Errorf("%s, class %s, reason %s", got.Status, got.FailureClass, got.FailureReason)
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	s := newSite(t)
	s.start(t)
	out, err := exec.Command("nightcrier", "serve", "--workspace-root", s.root, "--listen", "none").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("nightcrier: ")) || bytes.Contains(out, []byte("panic")) {
		t.Errorf("%v: %s", err, out)
	}
}

// buffer is a bytes.Buffer for a writer and a reader at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
