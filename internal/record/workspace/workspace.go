package workspace

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// RecordDir has what a run was answered, out of an agent's reach.
const RecordDir = "record"

const (
	// scratch is where the agent writes; it sees it as output.
	scratch = ".scratch"
	// incidentFile is the live record of the incident.
	incidentFile = "incident.json"
	// maxRead bounds what ReadFile reads into memory.
	maxRead = 64 << 20
)

// Workspace is the directory of one incident. One goroutine writes to it.
type Workspace struct {
	id   string
	path string
	fs   *os.Root
}

// ID returns the incident's id.
func (w *Workspace) ID() string { return w.id }

// Dir returns the absolute path.
func (w *Workspace) Dir() string { return w.path }

// Path returns the absolute path of a file inside; it is an Invalid error when
// rel leads out.
func (w *Workspace) Path(rel string) (string, error) {
	if err := checkRel(rel); err != nil {
		return "", err
	}
	return filepath.Join(w.path, filepath.FromSlash(rel)), nil
}

// Close releases the workspace.
func (w *Workspace) Close() error { return w.fs.Close() }

// WriteFile writes a file whole or not at all, and durably: a reader, also one
// after a crash, sees the old content or the new one. Missing directories are
// made.
func (w *Workspace) WriteFile(rel string, data []byte, perm fs.FileMode) error {
	if err := checkRel(rel); err != nil {
		return err
	}
	err := w.replaceFile(rel, data, perm)
	if err == nil {
		err = syncDir(w.fs, path.Dir(rel))
	}
	return opError("write "+rel+" of incident "+w.id, err)
}

// replaceFile gives a file new content, whole or not at all. Which of the two a
// crash leaves is settled when the directory is synced.
func (w *Workspace) replaceFile(rel string, data []byte, perm fs.FileMode) error {
	dir := path.Dir(rel)
	if err := w.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp := path.Join(dir, newPrefix+nightcrier.NewID())
	if err := w.writeSynced(temp, data, perm); err != nil {
		return errors.Join(err, ignoreMissing(w.fs.Remove(temp)))
	}
	if err := w.fs.Rename(temp, rel); err != nil {
		return errors.Join(err, ignoreMissing(w.fs.Remove(temp)))
	}
	return nil
}

func (w *Workspace) writeSynced(rel string, data []byte, perm fs.FileMode) error {
	f, err := w.fs.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReadFile reads a regular file of at most 64 MiB. It never waits for a writer,
// whatever an agent put there.
func (w *Workspace) ReadFile(rel string) ([]byte, error) {
	if err := checkRel(rel); err != nil {
		return nil, err
	}
	data, err := readRegular(w.fs, rel)
	return data, opError("read "+rel+" of incident "+w.id, err)
}

func readRegular(root *os.Root, rel string) ([]byte, error) {
	f, err := root.OpenFile(rel, os.O_RDONLY|portable.NoFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nightcrier.Errorf(nightcrier.Refused, "it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if len(data) > maxRead {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "it is larger than %d MiB", maxRead>>20)
	}
	return data, err
}

// WriteIncident updates incident.json.
func (w *Workspace) WriteIncident(inc *nightcrier.Incident) error {
	data, err := json.MarshalIndent(inc, "", "  ")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "encode incident %s: %w", w.id, err)
	}
	return w.WriteFile(incidentFile, append(data, '\n'), 0o600)
}

// ReadIncident reads incident.json.
func (w *Workspace) ReadIncident() (*nightcrier.Incident, error) {
	data, err := w.ReadFile(incidentFile)
	if err != nil {
		return nil, err
	}
	var inc nightcrier.Incident
	if err := json.Unmarshal(data, &inc); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "incident.json of incident %s: %w", w.id, err)
	}
	return &inc, nil
}

// Remove removes a file; that it is not there is no error.
func (w *Workspace) Remove(rel string) error {
	if err := checkRel(rel); err != nil {
		return err
	}
	return opError("remove "+rel+" of incident "+w.id, ignoreMissing(w.fs.Remove(rel)))
}

// RemoveTree removes a directory and what is in it; that it is not there is no error.
func (w *Workspace) RemoveTree(rel string) error {
	if err := checkRel(rel); err != nil {
		return err
	}
	_, err := removeTree(w.fs, rel)
	return opError("remove "+rel+" of incident "+w.id, err)
}

// ClearScratch empties what an earlier attempt's agent could write: the scratch
// directory, tmp, and home, whose settings would be the next agent's. What was
// collected stays.
func (w *Workspace) ClearScratch() error {
	for _, dir := range []string{scratch, "tmp", "home"} {
		if _, err := removeTree(w.fs, dir); err != nil {
			return opError("clear "+dir+" of incident "+w.id, err)
		}
	}
	return opError("restore the layout of incident "+w.id, makeLayout(w.fs, "."))
}

func checkRel(rel string) error {
	if rel == "." || !filepath.IsLocal(filepath.FromSlash(rel)) {
		return nightcrier.Errorf(nightcrier.Invalid, "path %q leads out of the workspace", rel)
	}
	return nil
}

// syncDir makes a rename durable.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return portable.SyncDir(d)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
