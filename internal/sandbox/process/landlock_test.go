//go:build linux

package process

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Each version of Landlock guards what the one before it did, and what is new in it.
func TestGuardedByVersion(t *testing.T) {
	const files = 1<<13 - 1 // the first version's, from execute to make_sym
	for _, c := range []struct {
		version        int
		fs, net, scope uint64
	}{
		{1, files, 0, 0}, {2, 1<<14 - 1, 0, 0}, {3, 1<<15 - 1, 0, 0}, {4, 1<<15 - 1, 3, 0}, {5, 1<<16 - 1, 3, 0},
		{6, 1<<16 - 1, 3, 3}, {7, 1<<16 - 1, 3, 3}, {8, 1<<16 - 1, 3, 3}, {9, 1<<17 - 1, 3, 3}, {10, 1<<17 - 1, 15, 3}, {99, 1<<17 - 1, 15, 3},
	} {
		got := guardedRights(c.version)
		if got.Handled_access_fs != c.fs || got.Handled_access_net != c.net || got.Scoped != c.scope {
			t.Errorf("version %d guards %+v, want %+v", c.version, got, c)
		}
	}
	if rest := (ownRights | deviceRights) &^ guardedRights(3).Handled_access_fs; rest != 0 {
		t.Errorf("%x is granted and never guarded", rest)
	}
	if fileRights&(unix.LANDLOCK_ACCESS_FS_READ_DIR|unix.LANDLOCK_ACCESS_FS_REFER|unix.LANDLOCK_ACCESS_FS_MAKE_REG) != 0 {
		t.Error("the rights of files hold some of directories: the kernel refuses such a rule")
	}
}
