package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// directory is a worker's directory.
type directory string

func (d directory) pathOf(name string) string { return filepath.Join(string(d), name) }

func (d directory) hasFile(name string) (bool, error) {
	_, err := os.Lstat(d.pathOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// writeFile replaces a file whole: a crash leaves the old one or the new one.
func (d directory) writeFile(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "encode %s: %w", name, err)
	}
	tmp, err := os.CreateTemp(string(d), name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), d.pathOf(name)); err != nil {
		return err
	}
	return d.syncDir()
}

func (d directory) syncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer f.Close()
	return portable.SyncDir(f)
}

func (d directory) readFile(name string, v any) error {
	b, err := os.ReadFile(d.pathOf(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "worker file %s: %w", d.pathOf(name), err)
	}
	return nil
}

// learnedFile holds what a worker has learned, sealed.
const learnedFile = "learned"

// Learned returns what the worker of dir has learned of its run's secrets, sealed by the
// key of the tags; nil when there is no word of it, as of a worker that died.
func Learned(dir string) (sealed []byte, err error) {
	err = directory(dir).readFile(learnedFile, &sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return sealed, err
}

// readResult returns the result when there is one.
func (d directory) readResult() (nightcrier.AgentResult, bool, error) {
	var r nightcrier.AgentResult
	err := d.readFile("exit.json", &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	return r, err == nil, err
}

// claimStart marks that the agent is about to be started; false when somebody did.
func (d directory) claimStart() (bool, error) {
	f, err := os.OpenFile(d.pathOf("claim"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(f.Sync(), f.Close(), d.syncDir())
}

// lockWorker takes the worker's lock, and reports false when another holds it. It is
// released by closing the file, or by the end of the process.
func (d directory) lockWorker() (*os.File, bool, error) {
	f, err := os.OpenFile(d.pathOf("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err = portable.TryLock(f); err == nil {
		return f, true, nil
	}
	f.Close()
	if errors.Is(err, portable.ErrLocked) {
		return nil, false, nil
	}
	return nil, false, err
}

// pids name the worker.
type pids struct {
	Worker process.ID `json:"worker"`
}

// newReaper finds the sandboxes of all workers whose directories lie beside this one.
func (d directory) newReaper() process.Reaper { return process.Reaper{Owner: d.ownerName()} }

func (d directory) ownerName() string { return process.OwnerOf(filepath.Dir(string(d))) }

// boxName names what the sandbox makes on the machine. The names of the tool servers'
// sandboxes begin with it.
func (s *Spec) boxName() string { return fmt.Sprintf("%s-%d", s.RunID, s.Attempt) }

// Processes counts the processes below the worker of dir: its agent's tree. It is
// 0 when the worker is gone.
func Processes(dir string) int {
	var p pids
	if err := directory(dir).readFile("pid", &p); err != nil {
		return 0
	}
	return p.Worker.Descendants()
}

// Alive reports whether the worker of dir lives.
func Alive(dir string) (bool, error) {
	d := directory(dir)
	if ok, err := d.hasFile("lock"); !ok {
		return false, err
	}
	f, free, err := d.lockWorker()
	if err != nil {
		return false, nightcrier.Errorf(nightcrier.Internal, "worker %s: %w", dir, err)
	}
	if free {
		f.Close()
	}
	return !free, nil
}
