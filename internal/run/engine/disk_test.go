package engine_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run/engine"
)

// A checkpoint that finds the disk full waits for room: the work that it stands
// for is done, and must be neither repeated nor given up.
func TestCheckpointWaitsForRoom(t *testing.T) {
	waitsForRoom(t, func(ctx engine.Context, full func() error) error {
		got, err := engine.Step(ctx, "fills the disk", func(context.Context) (string, error) { return strings.Repeat("result ", 100_000), full() })
		if err == nil && !strings.HasPrefix(got, "result") {
			t.Errorf("the step returned %d bytes", len(got))
		}
		return err
	})
}

// So does the start of branches, which is a transaction.
func TestBranchesWaitForRoom(t *testing.T) {
	waitsForRoom(t, func(ctx engine.Context, full func() error) error {
		if err := full(); err != nil {
			return err
		}
		long := strings.Repeat("input ", 50_000)
		got, err := engine.RunBranches[int](ctx, []engine.Branch{{Name: "a", Workflow: "branch", Input: long}, {Name: "b", Workflow: "branch", Input: long + "b"}})
		if err == nil && !slices.Equal(got, []int{300_002, 300_003}) {
			t.Errorf("the branches were given %d bytes", got)
		}
		return err
	})
}

// waitsForRoom has a workflow fill the disk, and makes room when that is complained of.
func waitsForRoom(t *testing.T, do func(ctx engine.Context, full func() error) error) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("SKIPPED ALOUD: a full disk: this test needs root to mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	var log lockedBuffer
	e, err := engine.Open(t.Context(), engine.Options{SQLitePath: filepath.Join(dir, "engine.db"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	ended := make(chan error, 1)
	e.Register("branch", func(ctx engine.Context, _ string, input []byte) error { return ctx.Return(len(input)) })
	e.Register("w", func(ctx engine.Context, _ string, _ []byte) error {
		err := do(ctx, func() error { return fill(ballast) })
		ended <- err
		return err
	})
	if err := e.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := e.Start("w", "id", nil); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(log.String(), "full"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody complains of the full disk:\n%s", &log)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it failed: %v\n%s", err, &log)
		}
	case <-time.After(3 * time.Minute):
		t.Errorf("with room again it does not return:\n%s", &log)
	}
	if err := e.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// fill leaves no room on path's file system.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	return f.Close()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
