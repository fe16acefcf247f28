package budget

import (
	"errors"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
)

// alive tells which calls are still being made, and who still waits for one, in any
// process: each has the lock of a byte of one file, found by its name, for as long. The
// kernel gives back what a process had that died. Nothing is ever written to the file.
type alive struct{ ours, asked *os.File } // an open file does not see its own locks

func openAlive(dir string) (a alive, err error) {
	path := filepath.Join(dir, "alive")
	if a.ours, err = openFile(path); err == nil {
		a.asked, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return a, nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", errors.Join(err, a.close()))
	}
	return a, nil
}

func (a alive) close() error {
	var err error
	for _, f := range []*os.File{a.ours, a.asked} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

func (a alive) markAlive(name string) error {
	if err := lockByte(a.ours, byteOfName(name), true); err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	return nil
}

// clearAlive fails only when the file is closed, which ends all.
func (a alive) clearAlive(name string) { _ = lockByte(a.ours, byteOfName(name), false) }

func (a alive) isAlive(name string) bool { return byteLocked(a.asked, byteOfName(name)) }

// byteOfName is the byte of a name. Two with the same would wait for each other's end, once
// in more calls than anybody makes.
func byteOfName(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return int64(h.Sum64() & (math.MaxInt64 - 1))
}
