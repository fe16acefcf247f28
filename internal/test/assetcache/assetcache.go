// Package assetcache keeps, outside the work tree, the large programs that the
// tests run against: a Kubernetes API server, an agent CLI. Each is made once
// per machine and version, whoever asks first.
//
// It supports the tests and the Makefile; the product never imports it.
package assetcache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Dir returns the cache's directory: NIGHTCRIER_CACHE, else nightcrier below
// the user's cache directory. It need not exist yet.
func Dir() (string, error) {
	if dir := os.Getenv("NIGHTCRIER_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory, set NIGHTCRIER_CACHE: %w", err)
	}
	return filepath.Join(base, "nightcrier"), nil
}

// Lookup returns the directory of the entry called name, with an error that is
// fs.ErrNotExist when nobody has filled it yet.
func Lookup(name string) (string, error) {
	root, err := Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// Ensure returns the directory of the entry called name. Where there is none it
// calls fill with an empty directory and gives that its name only when fill
// succeeded, so that a half-made entry is never seen. A lock makes a second
// caller, in this process or another, wait for the first one's work.
func Ensure(ctx context.Context, name string, fill func(ctx context.Context, dir string) error) (string, error) {
	if dir, err := Lookup(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	root, err := Dir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(root, name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if dir, err := Lookup(name); err == nil {
		return dir, nil
	}
	return create(ctx, root, name, fill)
}

// create fills a fresh directory and renames it into place. The caller holds the
// entry's lock.
func create(ctx context.Context, root, name string, fill func(context.Context, string) error) (string, error) {
	tmp, err := os.MkdirTemp(root, ".new-"+name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(ctx, tmp); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	dir := filepath.Join(root, name)
	return dir, os.Rename(tmp, dir)
}

// lock takes an exclusive lock on the file at path, waiting for it, and returns
// what gives it back. The kernel gives it back too when the process dies.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
