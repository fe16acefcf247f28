package workspace

import (
	"io/fs"
	"path"
)

// Batch writes files that are of use only together, at the price of one sync for
// each directory instead of one for each file.
type Batch struct {
	w    *Workspace
	dirs map[string]bool // whose renames are not durable yet
}

// Batch begins a batch.
func (w *Workspace) Batch() *Batch { return &Batch{w: w, dirs: map[string]bool{}} }

// WriteFile is Workspace.WriteFile, but that until Sync has returned a crash may
// leave the old content.
func (b *Batch) WriteFile(rel string, data []byte, perm fs.FileMode) error {
	if err := checkRel(rel); err != nil {
		return err
	}
	b.dirs[path.Dir(rel)] = true
	return opError("write "+rel+" of incident "+b.w.id, b.w.replaceFile(rel, data, perm))
}

// Sync makes durable what was written so far.
func (b *Batch) Sync() error {
	for dir := range b.dirs {
		if err := syncDir(b.w.fs, dir); err != nil {
			return opError("sync "+dir+" of incident "+b.w.id, err)
		}
		delete(b.dirs, dir)
	}
	return nil
}
