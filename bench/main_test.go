package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// peerProcess makes the test binary a scripted fault source instead, so that
// what is measured is the server alone.
const peerProcess = "NIGHTCRIER_BENCH_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerProcess) != "" {
		servePeer()
		return
	}
	if order := os.Getenv(apiProcess); order != "" {
		serveAPIs(order)
		return
	}
	code := m.Run()
	if bin, err := product(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// product builds the product as `make build` does, once.
var product = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nightcrier-bench-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "nightcrier")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin, "nightcrier.dev/nightcrier/cmd/nightcrier")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the product: %w\n%s", err, out)
	}
	return bin, nil
})

func binary(b *testing.B) string {
	b.Helper()
	if runtime.GOOS != "linux" {
		b.Skip("processes are measured by what Linux shows in /proc; this machine has none")
	}
	bin, err := product()
	must(b, err)
	return bin
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// servePeer prints the peer's address and then obeys each line of stdin:
// "CLUSTER PAYLOAD" pushes a fault. It serves until stdin ends.
func servePeer() {
	peer := fakemcp.NewPeer()
	if err := peer.Listen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(peer.URL("%"))
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		cluster, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := peer.Push(cluster, []byte(payload)); err != nil || n != 1 {
			fmt.Fprintln(os.Stderr, "push to", cluster, "reached", n, err)
			os.Exit(1)
		}
	}
}

// peer is a fault source in a process of its own.
type peer struct {
	pattern string
	stdin   io.WriteCloser
}

func startPeer(b *testing.B) *peer {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerProcess+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(b, err)
	stdout, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // how it ended has been said on stderr
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(b, err)
	return &peer{pattern: strings.TrimSpace(line), stdin: stdin}
}

func (p *peer) url(cluster string) string { return strings.Replace(p.pattern, "%", cluster, 1) }

func (p *peer) push(b *testing.B, cluster, payload string) {
	b.Helper()
	_, err := io.WriteString(p.stdin, cluster+" "+payload+"\n")
	must(b, err)
}
