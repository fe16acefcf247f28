package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

const (
	// roomEvery is how often it is asked what room the disk has, and measureEvery how many
	// times that goes before the agent's directories are measured, which takes longer.
	roomEvery    = 100 * time.Millisecond
	measureEvery = 10
	// maxEntries and maxDepth bound what is measured: beyond them an agent hides
	// something, or uses up what the file system has of names.
	maxEntries = 200_000
	maxDepth   = 64
	// diskReserve, in bytes, stays free for the store, the journal and the report;
	// on a small file system it is a fiftieth.
	diskReserve = 64 << 20
	// inodeReserve is as much for names; on a small file system, too, it is a fiftieth.
	inodeReserve = 1024
)

// watchWorkspace stops an agent that fills its workspace, or works while its disk is full.
func (a *attempt) watchWorkspace(end <-chan struct{}) {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		err := checkReserve(a.spec.Workspace)
		if err == nil && n%measureEvery == 0 {
			err = a.checkDiskUse()
		}
		if err != nil {
			a.requestStop(diskFull(err.Error()))
			return
		}
	}
}

// lastLook sees whether an agent that has ended could have written to its disk. If not,
// what it left may be cut off, and nothing else that it says of its end counts.
func (a *attempt) lastLook() {
	err := tryRoom(a.spec.Workspace)
	if err == nil {
		err = checkFull(a.spec.Workspace)
	}
	if err != nil {
		a.requestStop(diskFull("the disk was full when the agent ended: " + err.Error()))
	}
}

// lacksRoom stops the agent where something that belongs to its run was not taken by the
// disk: what was to be written is cut off.
func (w *worker) lacksRoom(what string, err error) {
	if workspace.DiskFault(err) {
		w.requestStop(diskFull(what + " cannot be written: " + withoutPath(err).Error()))
	}
}

// checkDiskUse returns why the agent must not go on, nil when it may.
func (a *attempt) checkDiskUse() error {
	used, err := diskUse(maxEntries, a.ownDirs()...)
	if err != nil {
		return err
	}
	if used += deletedUse(a.boxPID, a.spec.Workspace); used > a.spec.MaxWorkspaceBytes {
		return fmt.Errorf("the agent wrote %d bytes; its workspace may hold %d", used, a.spec.MaxWorkspaceBytes)
	}
	return nil
}

// tidyDisk removes what the agent wrote, now that it is gone, where it takes up the
// disk: neither the journal nor the report could be written, and nobody else would
// remove it. Its output stays unless it was stopped for it.
func (a *attempt) tidyDisk() {
	switch own := a.ownDirs(); {
	case a.stopCause().Class == nightcrier.FailDisk:
		a.makeRoom(own...)
	case checkReserve(a.spec.Workspace) != nil:
		a.makeRoom(slices.DeleteFunc(own, func(dir string) bool { return dir == a.scratchDir() })...)
	}
}

func (a *attempt) makeRoom(dirs ...string) {
	ws, err := a.openWorkspace()
	if err != nil {
		a.log.Warn("make room", "error", err)
		return
	}
	defer ws.Close()
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if err := errors.Join(ws.RemoveAll(name), ws.Mkdir(name, 0o700)); err != nil {
			a.log.Warn("make room", "error", err)
		}
	}
}

// diskUse adds up the blocks that files occupy. Files that vanish meanwhile
// count nothing; what cannot be measured is an error.
func diskUse(entries int, dirs ...string) (int64, error) {
	var total int64
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return fmt.Errorf("the agent's files cannot be measured: %w", withoutPath(err))
			case strings.Count(path[len(dir):], "/") > maxDepth:
				return fmt.Errorf("the agent's directories are deeper than %d", maxDepth)
			}
			if entries--; entries < 0 {
				return errors.New("the agent made too many files")
			}
			if info, err := d.Info(); err == nil {
				total += diskBytes(info)
			}
			return nil
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// withoutPath is an error of a file without its name: an agent chose that, and people
// read the error.
func withoutPath(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

func diskBytes(info fs.FileInfo) int64 {
	in, _ := portable.InodeOf(info)
	return in.Bytes
}

// deletedUse adds up the files on the file system of dir that have no name any more and
// are held open, or mapped, by the process or one below it. Mapped files are seen by root
// alone. Memory that processes share looks like such a file, on a file system of its own.
func deletedUse(pid int, dir string) int64 {
	id, err := process.Identify(pid)
	if err != nil {
		return 0
	}
	there, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	on, _ := portable.InodeOf(there)
	var total int64
	seen := map[uint64]bool{}
	for _, p := range append(id.Below(), pid) {
		held, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p)) // none when it has just ended
		if len(held) == 0 {                                       // or its first thread has, before the others
			held, _ = filepath.Glob(fmt.Sprintf("/proc/%d/task/*/fd/*", p))
		}
		mapped, _ := filepath.Glob(fmt.Sprintf("/proc/%d/map_files/*", p))
		for _, fd := range append(held, mapped...) {
			info, err := os.Stat(fd)
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			in, ok := portable.InodeOf(info)
			if ok && in.Links == 0 && in.Device == on.Device && !seen[in.Number] {
				seen[in.Number] = true
				total += in.Bytes
			}
		}
	}
	return total
}

// checkReserve returns an error when the file system of dir is all but full.
func checkReserve(dir string) error { return checkFree(dir, diskReserve, inodeReserve) }

// checkFull returns an error when it has no room for anything, as it is for an ordinary
// user: a part may be kept for root.
func checkFull(dir string) error { return checkFree(dir, uint64(len(leastRoom)), 1) }

// checkFree returns an error when less is free, or, of a small file system, less than a
// fiftieth. Some have no number of names to tell.
func checkFree(dir string, bytes, names uint64) error {
	space, err := portable.SpaceOf(dir)
	if err != nil {
		return nil //nolint:nilerr // then nothing can be said
	}
	if space.Free < min(bytes, space.All/50) {
		return fmt.Errorf("the disk of the workspace has %d bytes left", space.Free)
	}
	if space.FreeNames < min(names, space.AllNames/50) {
		return fmt.Errorf("the disk of the workspace has room for %d more files", space.FreeNames)
	}
	return nil
}

// leastRoom is what is written to see whether there is room: any file takes as much.
var leastRoom = make([]byte, 4<<10)

// tryRoom writes to the file system of dir, and returns an error when there is no room,
// of the disk or of what the user may have of it.
func tryRoom(dir string) error {
	f, err := os.CreateTemp(dir, ".room-*")
	if err == nil {
		_, err = f.Write(leastRoom)
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
	}
	if workspace.Full(err) {
		return errors.New("there is no room for a file of a few bytes")
	}
	return nil // what else is wrong is told by whoever has to write
}
