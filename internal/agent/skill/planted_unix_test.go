//go:build unix

package skill

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A skill of somebody else is read where it stands: no link of it leads to another file, and none
// of its files keeps whoever reads it waiting.
func TestPlantedFilesAreNotRead(t *testing.T) {
	const secret = "token: of-the-host"
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SKILL.md", "agentura.config.yaml", "references/a.md"} {
		for what, plant := range map[string]func(path string) error{
			"a link":          func(p string) error { return os.Symlink(outside, p) },
			"a link to zeros": func(p string) error { return os.Symlink("/dev/zero", p) },
			"a pipe":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
			"a directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		} {
			if what == "a directory" && name == "references/a.md" {
				continue // which is a directory like any other
			}
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "references"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("# x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(dir, name)
			_ = os.Remove(at)
			if err := plant(at); err != nil {
				t.Fatal(err)
			}
			for _, files := range []fs.FS{os.DirFS(dir), below(t, dir)} {
				if _, err := Load("x", files); err == nil || strings.Contains(err.Error(), "of-the-host") {
					t.Errorf("%s is %s: %v", name, what, err)
				}
			}
			found, err := Inspect(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if strings.Contains(f.Text, "of-the-host") {
					t.Errorf("%s is %s: %+v", name, what, f)
				}
			}
			if len(found) == 0 {
				t.Errorf("%s is %s, and nothing is found", name, what)
			}
		}
	}
}

// below is a directory as a library has it.
func below(t *testing.T, dir string) fs.FS {
	t.Helper()
	files, err := fs.Sub(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
