//go:build unix

package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier"
)

// A key that another may have put there is none: by it, others would know what a tag stands for.
func TestOnlyOurOwnMaskKey(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, bytes.Repeat([]byte("k"), 64), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		plant func(path string) error
		ok    bool
	}{
		"none":            {func(string) error { return nil }, true},
		"ours":            {func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("o"), maskKeySize), 0o600) }, true},
		"half written":    {func(p string) error { return os.WriteFile(p, []byte("o"), 0o600) }, true},
		"a link":          {func(p string) error { return os.Symlink(elsewhere, p) }, false},
		"a link to zeros": {func(p string) error { return os.Symlink("/dev/zero", p) }, false},
		"a pipe":          {func(p string) error { return syscall.Mkfifo(p, 0o600) }, false},
		"a directory":     {func(p string) error { return os.Mkdir(p, 0o700) }, false},
		"a large file":    {func(p string) error { return os.WriteFile(p, make([]byte, maxMaskKey+1), 0o600) }, false},
		"another's": {func(p string) error {
			if os.Geteuid() != 0 {
				return os.Mkdir(p, 0o700) // only root makes files of others
			}
			return os.WriteFile(p, bytes.Repeat([]byte("o"), maskKeySize), 0o644)
		}, false},
	} {
		dir := t.TempDir()
		root, err := OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		path := filepath.Join(dir, MaskKeyFile)
		if err := tt.plant(path); err != nil {
			t.Fatal(err)
		}
		if name == "another's" && os.Geteuid() == 0 {
			if err := os.Chown(path, 4711, 4711); err != nil {
				t.Fatal(err)
			}
		}
		key, err := root.MaskKey()
		if (err == nil) != tt.ok || err != nil && nightcrier.CodeOf(err) != nightcrier.Refused {
			t.Errorf("%s: %d bytes, %v", name, len(key), err)
		}
		if again := ReadMaskKey(dir); (again != nil) != tt.ok || !bytes.Equal(again, key) {
			t.Errorf("%s: a replay reads %d bytes", name, len(again))
		}
	}
}
