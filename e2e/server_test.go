package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
)

// orderVariable holds an order as JSON; it makes the test binary a server.
const orderVariable = "E2E_SERVER"

// order says what server to be.
type order struct {
	// Env is the whole environment that the configuration is read from.
	Env []string
	// Endpoints are the MCP endpoints of clusters by name.
	Endpoints map[string]string
	// Kubeconfigs are credentials of real clusters by name; without any the
	// clusters are the demo's.
	Kubeconfigs map[string]string
	// MayWrite lets agents look with credentials that may change their cluster.
	MayWrite bool
	// Watched are the kubeconfigs of clusters that are watched, by name. With one,
	// the clusters are read by their credentials, not as the demo's.
	Watched map[string]string
	// DieAtEntry and DieAtLog kill the process right after its n-th journal entry
	// was stored or its n-th log line written; 0 never does.
	DieAtEntry, DieAtLog int64
	// ScenarioTime is that of the test.
	ScenarioTime time.Time
}

// dead are the moments at which a server kills itself.
type dead struct{ at, seen int64 }

func (d *dead) pass() {
	if atomic.AddInt64(&d.seen, 1) == d.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// dyingHandler counts log lines.
type dyingHandler struct {
	slog.Handler
	dead *dead
}

func (h dyingHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	h.dead.pass()
	return err
}

func (h dyingHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return dyingHandler{h.Handler.WithAttrs(a), h.dead}
}

func (h dyingHandler) WithGroup(n string) slog.Handler {
	return dyingHandler{h.Handler.WithGroup(n), h.dead}
}

// serve is a server until SIGTERM. It says "ready" or why it is not on stdout.
func serve(raw string) int {
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		fmt.Println("failed:", err)
		return 2
	}
	scenarioTime = o.ScenarioTime
	cfg, err := o.config()
	if err != nil {
		fmt.Println("failed:", err)
		return 2
	}
	go func() { // whoever started us is gone, so nobody will end us
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	entries := &dead{at: o.DieAtEntry}
	opt := options(cfg, dyingHandler{slog.NewJSONHandler(os.Stderr, nil), &dead{at: o.DieAtLog}})
	if len(o.Watched) > 0 {
		opt.Reach, opt.WatchTimings, opt.WatchPatience = nil, watchTimings(), watchPatience
	}
	if len(o.Kubeconfigs) > 0 {
		opt.Reach = nil
	}
	opt.Journaled = func(nightcrier.JournalEntry) { entries.pass() }
	a, err := app.New(opt)
	if err == nil {
		err = a.Start(context.Background())
	}
	if err != nil {
		fmt.Printf("failed: %s: %v\n", nightcrier.CodeOf(err), err)
		return 1
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("ready")
	select {
	case <-stop:
	case <-a.Lost():
		fmt.Println("lost")
	}
	if err := a.Stop(context.Background()); err != nil {
		slog.New(slog.NewJSONHandler(os.Stderr, nil)).Error("stop", "error", err)
		return 1
	}
	return 0
}

func (o order) config() (*config.Config, error) {
	cfg, _, err := config.Load(config.Options{Env: o.Env})
	if err != nil {
		return nil, err
	}
	for name, endpoint := range o.Endpoints {
		cfg.Clusters = append(cfg.Clusters, config.Cluster{Name: name, MCP: config.MCP{Endpoint: endpoint, Mode: "auto"}, Kubeconfig: o.Kubeconfigs[name], AllowWriteCredential: o.MayWrite})
	}
	for name, kubeconfig := range o.Watched {
		cfg.Clusters = append(cfg.Clusters, config.Cluster{Name: name, Watch: true, Kubeconfig: kubeconfig})
	}
	return cfg, nil
}

// server is the product in a process of its own.
type server struct {
	*site
	cmd  *exec.Cmd
	said chan string
	done chan struct{}
}

// serve starts a server; change, if not nil, changes its order first. It may be
// dead before it is ready, when that is its order.
func (s *site) serve(change func(*order)) *server {
	s.Helper()
	o := s.order()
	if change != nil {
		change(&o)
	}
	raw, err := json.Marshal(o)
	s.must(err)
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err)
	defer log.Close()
	v := &server{site: s, said: make(chan string, 8), done: make(chan struct{})}
	v.cmd = exec.Command(s.program)
	v.cmd.Env = append(os.Environ(), orderVariable+"="+string(raw))
	v.cmd.Stderr = log
	out, err := v.cmd.StdoutPipe()
	s.must(err)
	_, err = v.cmd.StdinPipe() // its end tells the server that we are gone
	s.must(err)
	s.must(v.cmd.Start())
	go v.listen(out)
	s.Cleanup(v.kill)
	return v
}

func (v *server) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		v.said <- lines.Text()
	}
	_ = v.cmd.Wait() // how it ended, its state tells
	close(v.done)
}

// word returns what the server says first: "ready", why it failed, or "" when it
// died.
func (v *server) word() string {
	v.Helper()
	select {
	case w := <-v.said:
		return w
	case <-v.done:
		return ""
	case <-time.After(patience):
		v.Fatal("the server does not answer")
	}
	return ""
}

// ready waits until the server takes faults.
func (v *server) ready() *server {
	v.Helper()
	if w := v.word(); w != "ready" {
		v.Fatalf("the server said %q", w)
	}
	return v
}

// kill ends the server with SIGKILL and waits until it is gone.
func (v *server) kill() {
	_ = v.cmd.Process.Kill()
	<-v.done
}

// term ends the server as a service manager does.
func (v *server) term() {
	v.Helper()
	v.must(v.cmd.Process.Signal(syscall.SIGTERM))
	v.gone()
}

// gone waits until the server has ended by itself.
func (v *server) gone() {
	v.Helper()
	select {
	case <-v.done:
	case <-time.After(patience):
		v.Fatal("the server does not end")
	}
}
