package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func TestMCPRefusals(t *testing.T) {
	s := kubetest.Start(t)
	dir := t.TempDir()
	short, empty := filepath.Join(dir, "short"), filepath.Join(dir, "empty")
	for file, text := range map[string]string{short: "tiny\n", empty: "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		exit int
		says string
	}{
		{"open to everybody", []string{"--kubeconfig", s.Kubeconfig, "--listen", "0.0.0.0:0"}, 5, "set a token"},
		{"no kubeconfig", []string{"--kubeconfig", filepath.Join(dir, "none")}, 2, "--kubeconfig"},
		{"no such context", []string{"--kubeconfig", s.Kubeconfig, "--context", "nowhere"}, 2, "nowhere"},
		{"short token", []string{"--kubeconfig", s.Kubeconfig, "--token-file", short}, 2, "shorter than 16 bytes"},
		{"empty token", []string{"--kubeconfig", s.Kubeconfig, "--token-file", empty}, 2, "is empty"},
		{"no address", []string{"--kubeconfig", s.Kubeconfig, "--listen", "nowhere"}, 2, `--listen: "nowhere" is not an address`},
		{"both ways", []string{"--kubeconfig", s.Kubeconfig, "--listen", "127.0.0.1:0", "--stdio"}, 2, "stdio"},
		{"unknown executor", []string{"--kubeconfig", s.Kubeconfig, "--executor", "magic"}, 2, "executor"},
		{"arguments", []string{"x"}, 2, "mcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, err strings.Builder
			p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &err, environ: []string{"HOME=" + dir}}
			if got := p.runCommandLine(t.Context(), append([]string{"mcp"}, c.args...)); got != c.exit || !strings.Contains(err.String(), c.says) || out.Len() > 0 || strings.Contains(err.String(), "MCP at") {
				t.Errorf("exit %d, stdout %q, stderr %s", got, out.String(), err.String())
			}
		})
	}
}

// A server that is refused says nothing of an address; the token's variable is one
// of ours.
func TestMCPSaysWhereItIs(t *testing.T) {
	s := kubetest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: in, environ: []string{"HOME=" + t.TempDir(), mcpToken + "=0123456789abcdef"}}
	done := make(chan int, 1)
	go func() {
		done <- p.runCommandLine(ctx, []string{"mcp", "--kubeconfig", s.Kubeconfig, "--listen", "127.0.0.1:0"})
		in.Close()
	}()
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(first, "MCP at http://127.0.0.1:") {
		t.Errorf("%q, %v", first, err)
	}
	cancel()
	go io.Copy(io.Discard, out) // ends with the pipe
	if exit := <-done; exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

func TestMCPToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" of-the-file-0123456\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{environ: []string{mcpToken + "=of-the-environment"}}
	for from, want := range map[string]string{"": "of-the-environment", file: "of-the-file-0123456"} {
		if got, err := p.mcpToken(from); err != nil || got != want {
			t.Errorf("%q: %q, %v", from, got, err)
		}
	}
}

// A change is shown wherever it stands in a definition, however long that is.
func TestNoChangeOfAToolIsCutOut(t *testing.T) {
	long := strings.Repeat("é and so on, ", 2000)
	for name, c := range map[string]struct{ was, is, shown string }{
		"in the middle": {long + "reads" + long, long + "sends it away" + long, "sends it away"},
		"at the end":    {long, long + "sends it away", "sends it away"},
		"at both ends":  {"a" + long + "b", "sends" + long + "it away", "sends" + long + "it away"},
		"new":           {"", long + "sends it away" + long, long + "sends it away" + long},
		"of one piece":  {long + "é" + long, long + "è" + long, "è"},
		"repeated":      {long + "xx" + long, long + "x" + long, "x"},
	} {
		was, is := whatDiffers(c.was, c.is)
		if !strings.Contains(is, c.shown) || !utf8.ValidString(was) || !utf8.ValidString(is) || was == is {
			t.Errorf("%s: %q becomes %q", name, was, is)
		}
		if (name == "in the middle" || name == "of one piece") && len(is) > 3*aroundChange {
			t.Errorf("%s: it is lost in %d bytes", name, len(is))
		}
	}
}
