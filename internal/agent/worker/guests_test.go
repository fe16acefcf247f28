package worker

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/agent/loop"
	"nightcrier.dev/nightcrier/internal/mask"
)

// A guest names a directory beside those of the others, and no other.
func TestGuestsStayInTheHome(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "/", "a/b", "../a", `a\b`, "a/../.."} {
		h := &host{home: workdir.Dir(t.TempDir()), atWork: 1}
		mine, theirs := net.Pipe()
		go h.takeGuest(theirs)
		if err := json.NewEncoder(mine).Encode(workdir.Guest{Name: name}); err != nil {
			t.Fatal(err)
		}
		if word, err := io.ReadAll(mine); string(word) != workdir.NotTaken {
			t.Errorf("%q is told %q, %v", name, word, err)
		}
	}
}

// A panic fails the attempt that it comes from. Others are at work in the same process.
func TestAPanicFailsOneAttempt(t *testing.T) {
	t.Parallel()
	spec := &backend.Spec{}
	spec.Executor, spec.Timeout = "ptc", patience
	spool, err := workdir.OpenSpool(workdir.Dir(t.TempDir()), spec, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	a := &attempt{worker: &worker{spec: spec, spool: spool, mask: mask.New([]byte("key")), now: time.Now, log: slog.New(slog.DiscardHandler), stopped: make(chan struct{})}}
	cfg := loop.Config{Provider: nightcrier.Anthropic, Model: "m", Tools: []loop.Tool{{Name: "x"}},
		Ask: func(context.Context, string, []byte) (loop.Answer, error) { panic("boom") }}
	var r nightcrier.AgentResult
	func() {
		defer a.catchPanic(&r)
		end, err := a.awaitLoop(t.Context(), func() {}, cfg)
		t.Errorf("it ends with %+v, %v", end, err)
	}()
	if r.State != nightcrier.StateFailed || !strings.Contains(r.FailureReason, "boom") {
		t.Errorf("%+v", r)
	}
}
