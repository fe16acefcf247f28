// Package workdir is the directory of a worker on this machine, which the worker fills and the
// backend of processes reads:
//
//	spec.json    what to do; no secret
//	lock         held for the worker's life: the one proof that it lives
//	claim        made once, before the agent is started: it starts at most once
//	pid          the worker's process, for a sweep
//	spool.jsonl  the journal's entries, numbered from 1
//	sock         where the worker answers
//	learned      what was learned of the run's secrets, sealed by the key of the tags
//	exit.json    the result; made once the agent's whole tree is verified gone
//	worker.log   the worker's own log
package workdir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// Dir is a worker's directory.
type Dir string

// At is the directory of the worker of that name, below the one that holds them all.
func At(dir, name string) Dir { return Dir(filepath.Join(dir, name)) }

// FullWord is before the reason of a worker that does not start because the disk is full.
const FullWord = "disk: "

// PathOf is the path of one of its files.
func (d Dir) PathOf(name string) string { return filepath.Join(string(d), name) }

// HasFile reports whether there is a file of that name; "" is the directory itself.
func (d Dir) HasFile(name string) (bool, error) {
	_, err := os.Lstat(d.PathOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// WriteFile replaces a file whole: a crash leaves the old one or the new one.
func (d Dir) WriteFile(name string, v any) error {
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
	if err := os.Rename(tmp.Name(), d.PathOf(name)); err != nil {
		return err
	}
	return d.syncDir()
}

func (d Dir) syncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer f.Close()
	return portable.SyncDir(f)
}

// ErrDamaged is in the chain of an error that says that a file is not what was written there: to
// read it again is no help.
var ErrDamaged = errors.New("it is damaged, or of another version")

// ReadFile reads what WriteFile wrote.
func (d Dir) ReadFile(name string, v any) error {
	b, err := os.ReadFile(d.PathOf(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "%s cannot be read as what it is: %w: %w", d.PathOf(name), ErrDamaged, err)
	}
	return nil
}

// The files' names.
const (
	SpecFile    = "spec.json"
	lockFile    = "lock"
	claimFile   = "claim"
	PIDFile     = "pid"
	SpoolFile   = "spool.jsonl"
	socketFile  = "sock"
	LearnedFile = "learned"
	ResultFile  = "exit.json"
	LogFile     = "worker.log"
)

// ReadLearned returns what the worker has learned of its run's secrets, nil when there is no
// word of it.
func (d Dir) ReadLearned() (sealed []byte, err error) {
	err = d.ReadFile(LearnedFile, &sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return sealed, err
}

// ReadResult returns the result when there is one. One that says of no end is damaged.
func (d Dir) ReadResult() (nightcrier.AgentResult, bool, error) {
	var r nightcrier.AgentResult
	err := d.ReadFile(ResultFile, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil && !r.State.Terminal() {
		err = nightcrier.Errorf(nightcrier.Internal, "%s says of no end (state %.20q): %w", d.PathOf(ResultFile), r.State, ErrDamaged)
	}
	return r, err == nil, err
}

// ClaimStart marks that the agent is about to be started; false when somebody did.
func (d Dir) ClaimStart() (bool, error) {
	f, err := os.OpenFile(d.PathOf(claimFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(f.Sync(), f.Close(), d.syncDir())
}

// LockWorker takes the worker's lock, and reports false when another holds it. It is
// released by closing the file, or by the end of the process.
func (d Dir) LockWorker() (*os.File, bool, error) { return d.lockWith(portable.TryLock) }

func (d Dir) lockWith(try func(*os.File) error) (*os.File, bool, error) {
	f, err := os.OpenFile(d.PathOf(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err = try(f); err == nil {
		return f, true, nil
	}
	f.Close()
	if errors.Is(err, portable.ErrLocked) {
		return nil, false, nil
	}
	return nil, false, err
}

// PIDs name the worker's process.
type PIDs struct {
	Worker process.ID `json:"worker"`
	// Shared says that others may be at work in the process.
	Shared bool `json:"shared,omitempty"`
}

// OwnerName is the owner of the sandboxes of all workers whose directories lie beside this one.
func (d Dir) OwnerName() string { return process.OwnerOf(filepath.Dir(string(d))) }

// IsClaimed reports whether an agent was started, or is about to be.
func (d Dir) IsClaimed() (bool, error) { return d.HasFile(claimFile) }

// CountProcesses counts the processes below the worker: its agent's tree. It is 0 when the
// worker is gone.
func (d Dir) CountProcesses() int {
	var p PIDs
	if err := d.ReadFile(PIDFile, &p); err != nil {
		return 0
	}
	return p.Worker.Descendants()
}

// IsAlive reports whether the worker lives. Who looks is not taken for it by another who looks.
func (d Dir) IsAlive() (bool, error) {
	if ok, err := d.HasFile(lockFile); !ok {
		return false, err
	}
	f, free, err := d.lockWith(portable.TryShareLock)
	if err != nil {
		return false, nightcrier.Errorf(nightcrier.Internal, "worker %s: %w", d, err)
	}
	if free {
		f.Close()
	}
	return !free, nil
}
