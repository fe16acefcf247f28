package skill

import "golang.org/x/sys/unix"

// limitMemory bounds what a process, and what it starts from now on, may take: a pack
// of some kilobytes can unpack to any size, and git has no bound of its own.
func limitMemory(pid int, bytes uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}
