package worker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/test/mcpsuite"
)

// Our own agent works with the protocol's reference servers, on the standard streams and behind
// HTTP: a path that leads out is refused by the server, one that does not answer in time is given
// up, and what writes is not offered.
func TestPTCUsesRealServers(t *testing.T) {
	t.Parallel()
	peers := mcpsuite.OpenPeers(t)
	url := serveEverything(t, peers)
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "note.txt"), []byte("the cart belongs to blue\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, provider := range loopProviders[:2] {
		t.Run(string(provider), func(t *testing.T) {
			t.Parallel()
			b := newLoop(t, "ptc", provider,
				fakemodel.Step{Tools: []fakemodel.ToolCall{
					{Name: "memo_read_graph", Input: map[string]any{}},
					{Name: "disk_read_text_file", Input: map[string]any{"path": filepath.Join(shared, "note.txt")}},
					{Name: "disk_read_text_file", Input: map[string]any{"path": shared + "/../../../etc/passwd"}},
					{Name: "far_get-sum", Input: map[string]any{"a": 20, "b": 22}},
					{Name: "far_trigger-long-running-operation", Input: map[string]any{"duration": 600, "steps": 5}},
					{Name: "every_echo", Input: map[string]any{"message": "over a pipe"}},
					{Name: "disk_write_file", Input: map[string]any{"path": filepath.Join(shared, "new"), "content": "x"}},
				}},
				calls1("task_complete", map[string]any{"summary": "Blue has it."}))
			dirs := []string{peers.Dir, peers.NodeDir()}
			b.spec.ToolServers = []toolserver.Server{
				{Name: "memo", Command: peers.Command("memory"), Read: dirs, Tools: []string{"*"}, Timeout: patience},
				{Name: "disk", Command: peers.Command("filesystem", shared), Read: append(dirs, shared), Tools: []string{"*"}, Timeout: patience},
				{Name: "every", Command: peers.Command("everything"), Read: dirs, Tools: []string{"echo"}, Timeout: patience},
				{Name: "far", URL: url, Tools: []string{"get-sum", "trigger-long-running-operation"}, Timeout: 5 * time.Second},
			}
			r, entries := b.run()
			if r.State != nightcrier.StateSuccess || r.FinalMessage != "Blue has it." {
				t.Fatalf("%+v\n%s", r, text(entries))
			}
			last := b.model.Requests("it")[1].Text
			for _, want := range []string{"entities", "the cart belongs to blue", "outside allowed directories", "42", "did not answer within 5s", "Echo: over a pipe", "There is no tool"} {
				if !strings.Contains(last, want) {
					t.Errorf("the model was not told %q:\n%s", want, last)
				}
			}
			if _, err := os.Stat(filepath.Join(shared, "new")); err == nil {
				t.Error("a tool wrote a file")
			}
			b.noneLeft()
		})
	}
}

// serveEverything starts the server that has everything, behind HTTP, and returns its address.
func serveEverything(t *testing.T, peers mcpsuite.Peers) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	command := peers.Command("everything", "streamableHttp")
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = []string{fmt.Sprintf("PORT=%d", addr.Port), "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr.String())
		if err == nil {
			conn.Close()
			return fmt.Sprintf("http://%s/mcp", addr)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %v", err)
		}
	}
}
