// Package workspace keeps one directory per incident under the workspace root:
// what an agent is given, what it leaves, and what we record about it.
//
// The agent can write only to home, tmp and .scratch; everything else is ours.
// Every path goes through an os.Root, so that no link leads out, and directory
// names are made from UUIDs alone.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// Prefixes of the entries that we make in the root.
const (
	dirPrefix  = "incident-"
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

// IsBeingWritten reports whether a file or directory of that name is about to become
// another, in the workspace root or in a workspace: it may be gone when it is opened.
func IsBeingWritten(name string) bool { return strings.HasPrefix(name, newPrefix) }

// Root is the directory that holds the workspaces.
type Root struct {
	path string
	fs   *os.Root
}

// OpenRoot opens the workspace root and creates it, owner-only, when it is
// missing. It is an Invalid error when path cannot be used: not a directory, not
// writable, or writable by everybody.
func OpenRoot(path string) (*Root, error) {
	abs, err := absoluteRoot(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, rootError(abs, err)
	}
	return openExisting(abs)
}

// CheckRoot says why OpenRoot would not open path, which exists, nil where it would. It
// leaves nothing there.
func CheckRoot(path string) error {
	abs, err := absoluteRoot(path)
	if err != nil {
		return err
	}
	root, err := openExisting(abs)
	if err != nil {
		return err
	}
	return root.Close()
}

func absoluteRoot(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "workspace_root %q: %w", path, err)
	}
	if abs == string(filepath.Separator) {
		return "", nightcrier.Errorf(nightcrier.Invalid, "workspace_root is the root of the file system; name a directory of its own")
	}
	return abs, nil
}

func openExisting(abs string) (*Root, error) {
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, rootError(abs, err)
	}
	if err := checkRoot(root); err != nil {
		root.Close()
		return nil, rootError(abs, err)
	}
	return &Root{path: abs, fs: root}, nil
}

// checkRoot proves that we can write and that nobody else can swap what is in it:
// neither everybody nor an owner who is not us. Root may own it: it can do
// everything anyway.
func checkRoot(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if mode := info.Mode(); portable.HasModes && mode.Perm()&0o002 != 0 && mode&fs.ModeSticky == 0 {
		return errors.New("everybody can write to it and swap workspaces; run chmod o-w on it")
	}
	if in, known := portable.InodeOf(info); known && in.Owner != 0 && in.Owner != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, who can swap workspaces; chown it, or name a directory of your own", in.Owner)
	}
	probe := newPrefix + nightcrier.NewID()
	if err := root.Mkdir(probe, 0o700); err != nil {
		return err
	}
	return root.Remove(probe)
}

func rootError(path string, err error) error {
	code := nightcrier.Invalid
	if Full(err) {
		code = nightcrier.Exhausted
	}
	if errors.Is(err, fs.ErrPermission) {
		return nightcrier.Errorf(code, "workspace_root %s cannot be used: %w; make its directory writable for this user, or name another one", path, err)
	}
	return nightcrier.Errorf(code, "workspace_root %s cannot be used: %w", path, err)
}

// Path returns the absolute path of the root.
func (r *Root) Path() string { return r.path }

// Close releases the root; open workspaces stay usable.
func (r *Root) Close() error { return r.fs.Close() }

// ParseID returns the UUID in id, which may carry the directory's prefix. It is
// an Invalid error when there is none.
func ParseID(id string) (string, error) {
	id = strings.TrimPrefix(id, dirPrefix)
	return id, nightcrier.CheckID(id)
}

// Create makes the workspace of an incident and returns it. An existing one is
// completed and returned, so that a run can be resumed. On failure no partial
// workspace is left.
func (r *Root) Create(id string) (*Workspace, error) {
	id, err := ParseID(id)
	if err != nil {
		return nil, err
	}
	if err := r.ensureWorkspace(id); err != nil {
		return nil, opError("create the workspace of incident "+id, err)
	}
	return r.Open(id)
}

func (r *Root) ensureWorkspace(id string) error {
	info, err := r.fs.Lstat(dirPrefix + id)
	switch {
	case err == nil && !info.IsDir():
		return nightcrier.Errorf(nightcrier.Conflict, "%s is in the way and is not a directory", dirPrefix+id)
	case err == nil:
		if err := makeLayout(r.fs, dirPrefix+id); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := r.buildWorkspace(id); err != nil {
			return err
		}
	default:
		return err
	}
	return r.linkWorkspace(id)
}

// buildWorkspace makes the layout under another name and renames it when it is whole.
func (r *Root) buildWorkspace(id string) error {
	staging := newPrefix + id
	if err := r.fs.RemoveAll(staging); err != nil {
		return err
	}
	err := makeLayout(r.fs, staging)
	if err == nil {
		err = r.fs.Rename(staging, dirPrefix+id)
	}
	if err != nil {
		return errors.Join(err, r.fs.RemoveAll(staging))
	}
	return nil
}

// linkWorkspace makes the name without the prefix, which some users' scripts expect.
func (r *Root) linkWorkspace(id string) error {
	if !portable.HasLinks {
		return nil
	}
	err := r.fs.Symlink(dirPrefix+id, id)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if target, err := r.fs.Readlink(id); err != nil || target != dirPrefix+id {
		return nightcrier.Errorf(nightcrier.Conflict, "%s is in the way of the link to %s", id, dirPrefix+id)
	}
	return nil
}

// layout lists the directories of a workspace.
var layout = []string{
	".claude/commands", ".claude/skills", "context", "output/artifacts", "output/evidence",
	"logs", "home", "tmp", scratch + "/artifacts",
}

func makeLayout(root *os.Root, dir string) error {
	for _, sub := range layout {
		if err := root.MkdirAll(dir+"/"+sub, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Open opens the workspace of an incident, named with or without the prefix.
// It is a NotFound error when there is none.
func (r *Root) Open(id string) (*Workspace, error) {
	id, err := ParseID(id)
	if err != nil {
		return nil, err
	}
	name := dirPrefix + id
	if info, err := r.fs.Lstat(name); err != nil || !info.IsDir() {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "incident %s has no workspace in %s", id, r.path)
	}
	dir, err := r.fs.OpenRoot(name)
	if err != nil {
		return nil, opError("open the workspace of incident "+id, err)
	}
	return &Workspace{id: id, path: filepath.Join(r.path, name), fs: dir}, nil
}

// opError names what was tried and classifies why it failed.
func opError(what string, err error) error {
	if err == nil {
		return nil
	}
	var known *nightcrier.Error
	code := nightcrier.Internal
	switch {
	case errors.As(err, &known):
		code = known.Code
	case Full(err):
		code = nightcrier.Exhausted
	case errors.Is(err, fs.ErrNotExist):
		code = nightcrier.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = nightcrier.Refused
	}
	return nightcrier.Errorf(code, "cannot %s: %w", what, err)
}

// Full reports whether an error says that a disk is full, or what a user may have of it.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// DiskFault reports whether an error says that the disk is at fault: that it is full,
// takes no file of this size, fails, or became read-only. What is missing or not permitted
// is no fault of the disk.
func DiskFault(err error) bool {
	return Full(err) || errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS)
}
