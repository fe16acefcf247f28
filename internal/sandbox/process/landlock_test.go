//go:build linux

package process

import (
	"testing"

	"github.com/landlock-lsm/go-landlock/landlock"
)

// Each version of Landlock guards what the one before it did, and what is new in it.
func TestGuardedByVersion(t *testing.T) {
	const files = 1<<13 - 1 // the first version's, from execute to make_sym
	for _, c := range []struct {
		version int
		fs      landlock.AccessFSSet
		net     landlock.AccessNetSet
		scope   landlock.ScopedSet
	}{
		{0, 0, 0, 0}, {1, files, 0, 0}, {2, 1<<14 - 1, 0, 0}, {3, 1<<15 - 1, 0, 0}, {4, 1<<15 - 1, 3, 0}, {5, 1<<16 - 1, 3, 0},
		{6, 1<<16 - 1, 3, 3}, {7, 1<<16 - 1, 3, 3}, {8, 1<<16 - 1, 3, 3}, {9, 1<<17 - 1, 3, 3}, {10, 1<<17 - 1, 15, 3}, {11, 1<<17 - 1, 15, 3},
	} {
		got := guarded[c.version]
		if got.HandledAccessFS != c.fs || got.HandledAccessNet != c.net || got.Scoped != c.scope {
			t.Errorf("version %d guards %v, want %+v", c.version, got, c)
		}
	}
}
