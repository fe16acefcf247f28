// Package process runs workers as processes of this machine, each in a session of its own. All
// that is known of one lies in its directory (package workdir), which it holds the lock of while
// it lives; what its sandboxes left is found by their marks.
package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// Name is that of this backend, in configurations and handles.
const Name = "process"

// Backend implements [backend.Backend].
type Backend struct {
	// Dir is the absolute path of the directory that holds the workers' directories. It is
	// made with the first of them.
	Dir string
	// Command starts a worker when its directory is appended.
	Command []string
}

var _ backend.Backend = Backend{}

// handleOf is the handle of the worker of that name.
func handleOf(name string) backend.Handle { return backend.Handle{Backend: Name, ID: name} }

// dirOf is the directory of a worker. A handle comes from a checkpoint, and is no path.
func (b Backend) dirOf(h backend.Handle) (workdir.Dir, error) {
	if _, _, ok := parseName(h.ID); h.Backend != Name || !ok {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%.60q of backend %.20q is no worker of backend %s", h.ID, h.Backend, Name)
	}
	return workdir.At(b.Dir, h.ID), nil
}

// parseName takes the name of a worker apart, see [backend.Spec.WorkerName].
func parseName(name string) (runID string, attempt int, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[at+1:])
	return name[:at], n, err == nil && n >= 0 && strconv.Itoa(n) == name[at+1:] && nightcrier.ValidID(name[:at])
}

// reaper finds what is left of the sandboxes of all workers below the directory.
func (b Backend) reaper() process.Reaper {
	return process.Reaper{Owner: process.OwnerOf(b.Dir)}
}

// List implements [backend.Backend].
func (b Backend) List(ctx context.Context, owner string) ([]backend.Owned, error) {
	left, err := b.reaper().List(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(b.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nightcrier.Errorf(nightcrier.Internal, "list workers: %w", err)
	}
	var all []backend.Owned
	known := map[string]bool{}
	for _, e := range entries {
		known[e.Name()] = true
		o, ok := newOwned(e.Name())
		if !ok {
			continue
		}
		var spec backend.Spec
		dir := workdir.At(b.Dir, e.Name())
		err := dir.ReadFile(workdir.SpecFile, &spec)
		if errors.Is(err, fs.ErrNotExist) || err == nil && spec.Owner != owner {
			continue // half made, or of another
		}
		// One that cannot be read has no owner any more, and is whoever's that asks. It keeps
		// nobody from the others: its own run meets what is wrong with it.
		if o.Alive, err = dir.IsAlive(); err != nil {
			o.Alive = true // until somebody could look
		}
		if o.Processes = dir.CountProcesses(); !o.Alive {
			o.Processes = countOf(left, e.Name())
		}
		all = append(all, o)
	}
	return append(all, strays(left, known)...), nil
}

// newOwned is a worker of that name.
func newOwned(name string) (o backend.Owned, ok bool) {
	o.Handle = handleOf(name)
	o.RunID, o.Attempt, ok = parseName(name)
	return o, ok
}

// strays are the workers that left something behind but no directory. They have no owner any
// more, and are whoever's that asks.
func strays(left []sandbox.Leftover, known map[string]bool) (all []backend.Owned) {
	for _, l := range left {
		name := workerOf(l.Name)
		o, ok := newOwned(name)
		if !ok || known[name] || !l.Orphan {
			continue
		}
		known[name] = true
		o.Processes = countOf(left, name)
		all = append(all, o)
	}
	return all
}

// workerOf is the worker of a sandbox: those of tool servers have their own name behind it.
func workerOf(sandboxName string) string {
	parts := strings.Split(sandboxName, "-")
	const ofWorker = 6 // five of the run's id, and the attempt
	return strings.Join(parts[:min(len(parts), ofWorker)], "-")
}

// countOf counts the sandboxes that are left of a worker. What is in each of them is at least
// one process.
func countOf(left []sandbox.Leftover, worker string) (n int) {
	for _, l := range left {
		if workerOf(l.Name) == worker {
			n++
		}
	}
	return n
}

// Destroy implements [backend.Backend].
func (b Backend) Destroy(ctx context.Context, h backend.Handle) error {
	d, err := b.dirOf(h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	lock, err := killWorker(ctx, d)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := endSandboxes(ctx, b.reaper(), h.ID); err != nil {
		return err
	}
	if err := removeDir(d); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "remove worker: %w", err)
	}
	return nil
}

// removeDir removes the directory of a worker. The spec goes last: by it, List finds what a
// server that dies in between leaves.
func removeDir(d workdir.Dir) error {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == workdir.SpecFile {
			continue
		}
		if err := os.RemoveAll(d.PathOf(e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(string(d))
}

// killWorker ends the worker of a directory, and keeps one that is being started from beginning.
// It returns its lock; nil where there is no worker.
func killWorker(ctx context.Context, d workdir.Dir) (*os.File, error) {
	for began := time.Now(); ; {
		if ok, err := d.HasFile(""); err != nil || !ok {
			return nil, err
		}
		lock, free, err := d.LockWorker()
		if err == nil && free {
			_, err = d.ClaimStart()
			return lock, err
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var p workdir.PIDs
		switch wrong := d.ReadFile(workdir.PIDFile, &p); {
		case wrong != nil: // it is about to write it
		case p.Shared && time.Since(began) < sharedPatience:
			_ = sendCancel(ctx, d, "destroyed") // it is asked again
		default:
			if err := p.Worker.Kill(); err != nil {
				return nil, nightcrier.Errorf(nightcrier.Internal, "kill worker: %w", err)
			}
		}
		if err := pauseFollowing(ctx); err != nil {
			return nil, err
		}
	}
}

// sharedPatience is how long a worker that others share a process with may take to end by itself.
const sharedPatience = 5 * time.Second

// endSandboxes ends what is left of a worker's agent and of its tool servers, verified.
func endSandboxes(ctx context.Context, boxes sandbox.Reaper, worker string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	left, err := boxes.List(ctx)
	left = slices.DeleteFunc(left, func(l sandbox.Leftover) bool { return workerOf(l.Name) != worker })
	for _, l := range left {
		err = errors.Join(err, boxes.Destroy(ctx, l.Name))
	}
	return err
}
