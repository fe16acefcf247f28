package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// fileLock owns a SQLite store: the kernel drops it with the process, however
// that ends. The file itself stays.
type fileLock struct{ f *os.File }

// A process that was being started when the last owner ended has its files, and with
// them its lock, until it runs its own program.
const (
	lockPatience = time.Second
	lockLook     = 10 * time.Millisecond
)

// lockFile locks path for this process and writes who we are into it.
func lockFile(ctx context.Context, path string, now time.Time) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = acquireFileLock(ctx, f)
	if errors.Is(err, portable.ErrLocked) {
		holder, _ := io.ReadAll(io.LimitReader(f, 256)) // best effort: it only serves the message
		return nil, errors.Join(heldBy(string(holder)), f.Close())
	}
	if err == nil {
		err = signLock(f, now)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &fileLock{f: f}, nil
}

func acquireFileLock(ctx context.Context, f *os.File) error {
	for end := time.Now().Add(lockPatience); ; {
		err := portable.TryLock(f)
		if !errors.Is(err, portable.ErrLocked) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockLook):
		}
	}
}

func signLock(f *os.File, now time.Time) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(describeProcess(now)+"\n"), 0)
	return err
}

// describeProcess names this process for those who find the store taken.
func describeProcess(now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("pid %d on %s since %s", os.Getpid(), host, now.UTC().Format(time.RFC3339))
}

func heldBy(holder string) error {
	holder = strings.TrimSpace(cleanText(holder))
	if holder == "" {
		holder = "another process"
	}
	return nightcrier.Errorf(nightcrier.Conflict, "%s owns this store; ask it with the nightcrier commands, or stop it first", holder)
}

func (l *fileLock) lostSignal() <-chan struct{} { return nil }

func (l *fileLock) close() error {
	if err := l.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
