package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"

	"nightcrier.dev/nightcrier"
)

// removeTree removes a directory whatever it holds, and returns the bytes
// freed. Directories inside it are moved into one flat directory before they are
// emptied, so that neither the depth of the tree nor its permissions matter.
func removeTree(root *os.Root, dir string) (int64, error) {
	info, err := root.Lstat(dir)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	if !info.IsDir() {
		return 0, root.Remove(dir)
	}
	if err := root.Chmod(dir, 0o700); err != nil {
		return 0, err
	}
	t := tree{root: root, flat: path.Join(dir, gonePrefix+nightcrier.NewID())}
	if err := root.Mkdir(t.flat, 0o700); err != nil {
		return 0, err
	}
	if err := t.emptyDir(dir); err != nil {
		return t.freed, err
	}
	for ; t.emptied < t.moved; t.emptied++ {
		sub := t.slotPath(t.emptied)
		if err := errors.Join(t.emptyDir(sub), root.Remove(sub)); err != nil {
			return t.freed, err
		}
	}
	return t.freed, errors.Join(root.Remove(t.flat), root.Remove(dir))
}

// tree is a directory being removed.
type tree struct {
	root *os.Root
	// flat holds the directories that were moved, named by number; those below
	// emptied are gone.
	flat           string
	moved, emptied int
	freed          int64
}

func (t *tree) slotPath(n int) string { return path.Join(t.flat, strconv.Itoa(n)) }

// emptyDir takes everything out of a directory but the flat one. It reads in
// bounded batches until nothing is left.
func (t *tree) emptyDir(dir string) error {
	for {
		names, err := firstNames(t.root, dir)
		if err != nil {
			return err
		}
		taken := 0
		for _, name := range names {
			if rel := path.Join(dir, name); rel != t.flat {
				taken++
				err = errors.Join(err, t.removeEntry(rel))
			}
		}
		if taken == 0 || err != nil {
			return err
		}
	}
}

// removeEntry removes a file or moves a directory away.
func (t *tree) removeEntry(rel string) error {
	info, err := t.root.Lstat(rel)
	if err != nil {
		return ignoreMissing(err)
	}
	if !info.IsDir() {
		if info.Mode().IsRegular() && countLinks(info) == 1 {
			t.freed += info.Size()
		}
		return t.root.Remove(rel)
	}
	// Moving a directory rewrites its "..", which needs the right to write in it.
	if err := t.root.Chmod(rel, 0o700); err != nil {
		return err
	}
	if err := t.root.Rename(rel, t.slotPath(t.moved)); err != nil {
		return err
	}
	t.moved++
	return nil
}

// firstNames returns up to 1024 names of a directory.
func firstNames(root *os.Root, dir string) ([]string, error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.Readdirnames(1024)
	if len(entries) == 0 && !errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return entries, nil
}
