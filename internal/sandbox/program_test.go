package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A program is shown with its package, or with its interpreter, and nothing that lies
// beside it.
func TestProgramFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"lib/node_modules/cli/run.js": "#!/bin/sh\n", "lib/node_modules/other/x.js": "", "bin/beside": "#!/bin/sh\n", "bin/native": "\x7fELF",
	} {
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(in("lib/node_modules/cli/run.js"), in("bin/cli")); err != nil {
		t.Fatal(err)
	}
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"bin/native": {in("bin/native"), in("bin/native")},
		"bin/beside": {in("bin/beside"), in("bin/beside"), sh, "/bin/sh"},
		"bin/cli":    {in("lib/node_modules/cli/run.js"), in("bin/cli"), in("lib/node_modules"), sh, "/bin/sh"},
	} {
		if got, err := ProgramFiles(in(name)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := ProgramFiles(in("bin/none")); err == nil {
		t.Error("a program that is not there has files")
	}
	for interpreter, want := range map[string][]string{
		"/usr/local/bin/python3.12": {"/usr/local/lib"}, "/usr/bin/python3.11": nil, "/opt/python/bin/python3": nil, "/usr/local/binary": nil,
	} {
		if got := libraryOf(interpreter); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", interpreter, got, want)
		}
	}
}
