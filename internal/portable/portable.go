// Package portable is what operating systems name or do differently, so that the rest
// of the program is written once. Agents, and whatever else is confined, need Linux:
// package sandbox/process says so on other systems.
package portable

import "errors"

// ErrLocked says that somebody else holds a lock.
var ErrLocked = errors.New("somebody else holds the lock")

// Space is what a file system has: bytes, free for us and in all, and files that may
// still be made, zero of zero where their number is not bounded.
type Space struct{ Free, All, FreeNames, AllNames uint64 }

// Inode is a file as its file system knows it.
type Inode struct {
	Device, Number uint64
	// Links is how many names the file has, Bytes the room that it takes.
	Links uint64
	Bytes int64
	// Owner and Group are who it belongs to.
	Owner, Group int
}
