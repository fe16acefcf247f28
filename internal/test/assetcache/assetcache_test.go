package assetcache_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

func write(text string) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "tool"), []byte(text), 0o755)
	}
}

func TestEnsureFillsOnce(t *testing.T) {
	t.Setenv("NIGHTCRIER_CACHE", t.TempDir())
	var calls atomic.Int32
	fill := func(ctx context.Context, dir string) error {
		calls.Add(1)
		return write("v1")(ctx, dir)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := assetcache.Ensure(t.Context(), "thing-1", fill)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := os.ReadFile(filepath.Join(dir, "tool")); err != nil || string(got) != "v1" {
				t.Errorf("tool = %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("filled %d times, want once", n)
	}
}

func TestEnsureLeavesNothingBehindOnFailure(t *testing.T) {
	root := t.TempDir()
	t.Setenv("NIGHTCRIER_CACHE", root)
	broken := errors.New("disk full")
	_, err := assetcache.Ensure(t.Context(), "thing-1", func(ctx context.Context, dir string) error {
		return errors.Join(write("half")(ctx, dir), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("err = %v, want the fill's own", err)
	}
	if _, err := assetcache.Lookup("thing-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lookup = %v, want fs.ErrNotExist", err)
	}
	left, err := filepath.Glob(filepath.Join(root, ".new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := assetcache.Ensure(t.Context(), "thing-1", write("whole")); err != nil {
		t.Errorf("second attempt: %v", err)
	}
}
