package worker

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/evidence"
)

// A file without a name takes room for as long as somebody has it open, or mapped.
func TestFilesWithoutANameCount(t *testing.T) {
	const (
		size   = 8 << 20
		others = 1 << 20 // what others of this process may have let go meanwhile
	)
	dir := t.TempDir()
	unnamed := func() *os.File {
		path := filepath.Join(dir, "f")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return f
	}
	before := deletedUse(os.Getpid(), dir)
	open := unnamed()
	defer open.Close()
	if n := deletedUse(os.Getpid(), dir) - before; n < size-others {
		t.Errorf("held open: %d bytes", n)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED ALOUD: only root sees which files are mapped")
	}
	before = deletedUse(os.Getpid(), dir)
	mapped := unnamed()
	at, err := unix.Mmap(int(mapped.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(at) }()
	mapped.Close()
	shared, err := unix.Mmap(-1, 0, 4*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(shared) }()
	for i := 0; i < len(shared); i += 4096 {
		shared[i] = 1
	}
	if n := deletedUse(os.Getpid(), dir) - before; n > 2*size {
		t.Errorf("shared memory counts as %d bytes of the disk", n)
	}
	if n := deletedUse(os.Getpid(), dir) - before; n < size {
		t.Errorf("mapped: %d bytes", n)
	}
}

// Whatever a full disk cuts off, and however the agent then ends, that is the reason: also
// where its own end comes before anybody has looked.
func TestWhatAFullDiskCutsOff(t *testing.T) {
	const fill = `head -c 100000000 /dev/full > "$TMPDIR/fat" 2> /dev/null; `
	for name, c := range map[string]struct {
		script string
		before bool // the disk is full before there is an agent
		class  nightcrier.FailureClass
	}{
		"its report, and it ends well": {script: fill + `echo "# Investigation" > "$OUTPUT_DIR/investigation.md"; exit 0`, class: nightcrier.FailDisk},
		"its report, and it fails":     {script: fill + `exit 3`, class: nightcrier.FailDisk},
		"its report, and it dies":      {script: fill + `kill -SEGV $$`, class: nightcrier.FailDisk},
		"its report, and it waits":     {script: fill + `sleep 1000`, class: nightcrier.FailDisk},
		"names":                        {script: `cd "$TMPDIR"; i=0; while (: > f$i) 2> /dev/null; do i=$((i+1)); done; exit 0`, class: nightcrier.FailDisk},
		"its start":                    {script: `echo fine`, before: true, class: nightcrier.FailDisk},
		"nothing":                      {script: `echo "# Investigation" > "$OUTPUT_DIR/investigation.md"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.script)
			b.smallDisk("size=8m,nr_inodes=300")
			if c.before {
				f, err := os.Create(filepath.Join(b.ws, "ballast"))
				b.must(err)
				for err == nil {
					_, err = f.Write(make([]byte, 64<<10))
				}
				b.must(f.Close())
			}
			r, entries := b.run()
			if r.FailureClass != c.class || (r.State == nightcrier.StateSuccess) != (c.class == "") {
				t.Errorf("%+v\n%s", r, clip(text(entries)))
			}
		})
	}
}

// smallDisk makes the workspace a file system in memory; it takes root.
func (b *bench) smallDisk(options string) {
	b.Helper()
	kept := b.read("context/incident.json")
	if err := unix.Mount("tmpfs", b.ws, "tmpfs", unix.MS_NOSUID, "mode=0700,"+options); err != nil {
		b.Skipf("SKIPPED ALOUD: a full disk: this test needs root to mount a small file system: %v", err)
	}
	b.Cleanup(func() { b.must(unix.Unmount(b.ws, unix.MNT_DETACH)) })
	for _, dir := range []string{"context", "output"} {
		b.must(os.MkdirAll(filepath.Join(b.ws, dir), 0o700))
	}
	b.write("context/incident.json", kept)
}

// Who of us finds no room says so, and nobody else.
func TestWhoLacksRoom(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		full bool
	}{
		"no room":        {nightcrier.Errorf(nightcrier.Exhausted, "evidence blob: %w", &os.PathError{Op: "write", Path: "/ws/x", Err: unix.ENOSPC}), true},
		"no quota":       {errors.Join(unix.EDQUOT, unix.EIO), true},
		"of a budget":    {budgetError{&os.PathError{Op: "write", Err: unix.ENOSPC}}, true},
		"a limit of our": {nightcrier.Errorf(nightcrier.Exhausted, "%w: 5 items", evidence.ErrFull), false},
		"a broken disk":  {&os.PathError{Op: "write", Path: "/ws/x", Err: unix.EIO}, true},
		"a disk for us":  {&os.PathError{Op: "open", Path: "/ws/x", Err: unix.EROFS}, true},
		"another":        {unix.EACCES, false},
		"none":           {nil, false},
	} {
		w := &worker{stopped: make(chan struct{})}
		w.lacksRoom("evidence", c.err)
		if got := w.stopCause(); (got.Class == nightcrier.FailDisk) != c.full || strings.Contains(got.Reason, "/ws") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
