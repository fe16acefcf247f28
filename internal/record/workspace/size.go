package workspace

import (
	"io/fs"
	"os"
	"path"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// Bounds of the walks through a workspace.
const (
	maxEntries   = 200_000
	maxWalkDepth = 64
)

// Size returns the bytes of the regular files in the workspace. A workspace with
// more entries or levels than is sane is an Exhausted error beside the sum so
// far.
func (w *Workspace) Size() (int64, error) {
	var sum int64
	err := walkFiles(w.fs, ".", func(_ string, info fs.FileInfo) error {
		if info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum, opError("measure the workspace of incident "+w.id, err)
}

// walkFiles calls fn for everything below dir that is no directory. What
// vanishes or cannot be read in between is left out.
func walkFiles(root *os.Root, dir string, fn func(rel string, info fs.FileInfo) error) error {
	w := walker{root: root, fn: fn}
	return w.walkDir(dir, 0)
}

type walker struct {
	root    *os.Root
	fn      func(rel string, info fs.FileInfo) error
	entries int
}

func (w *walker) walkDir(dir string, depth int) error {
	if depth > maxWalkDepth {
		return nightcrier.Errorf(nightcrier.Exhausted, "deeper than %d directories", maxWalkDepth)
	}
	d, err := w.root.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // a living agent may remove it or close it to us
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(512)
		for _, name := range names {
			if err := w.visitEntry(path.Join(dir, name), depth); err != nil {
				return err
			}
		}
		if err != nil || len(names) == 0 {
			return nil
		}
	}
}

func (w *walker) visitEntry(rel string, depth int) error {
	if w.entries++; w.entries > maxEntries {
		return nightcrier.Errorf(nightcrier.Exhausted, "more than %d entries", maxEntries)
	}
	info, err := w.root.Lstat(rel)
	if err != nil {
		return nil //nolint:nilerr // gone since it was listed
	}
	if info.IsDir() {
		return w.walkDir(rel, depth+1)
	}
	return w.fn(rel, info)
}

// countLinks returns how many names a file has.
func countLinks(info fs.FileInfo) uint64 {
	if in, ok := portable.InodeOf(info); ok {
		return in.Links
	}
	return 1
}
