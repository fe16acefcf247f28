package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file without a name takes room for as long as somebody has it open, or mapped.
func TestFilesWithoutANameCount(t *testing.T) {
	const size = 8 << 20
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
	if n := deletedUse(os.Getpid(), dir) - before; n < size {
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
