package worker

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/sandbox/sandboxtest"
)

// A machine that grants less than is asked for is told with the reason and what
// to do about it.
func TestRequireSaysWhy(t *testing.T) {
	held := sandbox.Held{Layers: []string{process.LayerEnv, process.LayerNoPrivs, process.LayerRlimits}, Notes: []string{"make mounts private: permission denied"}}
	for require, want := range map[string][]string{
		agent.RequireStrict:     {"does not grant pidns", "landlock", "permission denied", "Linux 5.13"},
		agent.RequireBestEffort: {"does not grant caps, seccomp, landlock", "permission denied", "Linux 5.13"},
	} {
		a := &attempt{worker: &worker{spec: &backend.Spec{Spec: agent.Spec{Require: require}}}}
		err := a.requireLayers(held)
		if err == nil {
			t.Fatalf("%s is content with %v", require, held.Layers)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", require, err, w)
			}
		}
	}
}

// An agent is asked to end before it is made to.
func TestAskedThenKilled(t *testing.T) {
	heeds := map[syscall.Signal]sandbox.Exit{syscall.SIGINT: {Code: 130}}
	for _, c := range []struct {
		box   *sandboxtest.Fake
		exit  int
		calls string
	}{
		{&sandboxtest.Fake{Heeds: heeds}, 130, "signal interrupt"},
		{&sandboxtest.Fake{}, 137, "signal interrupt, kill"},
		{&sandboxtest.Fake{Agent: &sandbox.Exit{Code: 3}}, 3, "start"},
	} {
		w := &worker{spec: &backend.Spec{Workspace: t.TempDir(), Spec: agent.Spec{Timeout: time.Hour, Grace: time.Millisecond}}, log: slog.New(slog.DiscardHandler), mask: mask.New(nil), now: time.Now, stopped: make(chan struct{})}
		if len(c.box.Heeds) > 0 {
			w.spec.Grace = time.Hour
		}
		var err error
		if w.spool, err = workdir.OpenSpool(workdir.Dir(t.TempDir()), w.spec, w.now); err != nil {
			t.Fatal(err)
		}
		a := &attempt{worker: w, box: c.box}
		if c.box.Agent == nil {
			w.requestStop(cancelCause("an engineer said so"))
		} else if err := a.box.Start(t.Context(), sandbox.Policy{}, sandbox.Command{}, func(sandbox.Held) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if exit := a.awaitEnd(); exit.Code != c.exit {
			t.Errorf("%+v, want %d", exit, c.exit)
		}
		if got := strings.Join(c.box.Calls(), ", "); got != c.calls {
			t.Errorf("called %s, want %s", got, c.calls)
		}
	}
}
