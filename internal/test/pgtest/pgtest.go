// Package pgtest gives tests a real PostgreSQL: one server per test binary, on
// loopback, with nothing synced to disk, and a fresh database for each caller.
//
// It uses the installed programs of the newest version found; where none is
// installed the tests skip, aloud.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// errNotInstalled: the machine has no PostgreSQL server programs.
var errNotInstalled = errors.New("not installed: apt-get install postgresql, or put initdb and postgres on the PATH")

// shared is the one server of the test binary; it dies with it.
var shared = sync.OnceValues(func() (*server, error) { return launch(context.Background()) })

// DSN makes a new, empty database and returns its URL, whose role may do
// anything. The database is dropped when the test ends.
func DSN(tb testing.TB) string {
	tb.Helper()
	s, err := shared()
	if errors.Is(err, errNotInstalled) {
		tb.Skipf("SKIPPED ALOUD: PostgreSQL: %v", err)
	}
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	name := "t_" + strings.ToLower(rand.Text()[:12])
	if err := s.exec(tb.Context(), "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return s.url(name)
}

// server is a running postgres.
type server struct {
	scratch  *testproc.Scratch
	proc     *testproc.Process
	port     int
	password string
	run      *syscall.Credential // whom to run as; nil is ourselves
}

func (s *server) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.password),
		Host: fmt.Sprintf("127.0.0.1:%d", s.port), Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// exec runs one statement on the maintenance database.
func (s *server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

const attempts = 3 // another process may take the port between choosing and listening

func launch(ctx context.Context) (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &server{password: rand.Text()}
	if s.run, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.scratch, err = testproc.NewScratch("nightcrier-pg-"); err != nil {
		return nil, err
	}
	if err := s.initdb(ctx, bin); err != nil {
		return nil, errors.Join(err, s.scratch.Remove())
	}
	var failures []error
	for range attempts {
		err := s.start(ctx, bin)
		if err == nil {
			return s, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(errors.Join(failures...), s.scratch.Remove())
}

// binaries returns the directory of the newest installed server's programs.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	best, newest := "", -1
	for _, path := range found {
		dir := filepath.Dir(path)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && v > newest {
			best, newest = dir, v
		}
	}
	if best != "" {
		return best, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errNotInstalled
}

// unprivileged returns whom postgres is to run as when we are root, which it
// refuses to be.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root, which postgres refuses, and there is neither a user postgres nor nobody")
}

func (s *server) data() string { return filepath.Join(s.scratch.Path, "data") }

// initdb makes the data directory, with a password that nobody else knows.
func (s *server) initdb(ctx context.Context, bin string) error {
	passwords := filepath.Join(s.scratch.Path, "password")
	if err := os.WriteFile(passwords, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.run != nil {
		for _, path := range []string{s.scratch.Path, passwords} {
			if err := os.Chown(path, int(s.run.Uid), int(s.run.Gid)); err != nil {
				return err
			}
		}
	}
	out, err := s.command(ctx, filepath.Join(bin, "initdb"), "--pgdata="+s.data(), "--username=postgres",
		"--pwfile="+passwords, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// start starts postgres on a free port and waits until it takes connections.
func (s *server) start(ctx context.Context, bin string) (err error) {
	if s.port, err = testproc.FreePort(); err != nil {
		return err
	}
	cmd := s.command(context.Background(), filepath.Join(bin, "postgres"), "-D", s.data(),
		"-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", s.port),
		"-c", "unix_socket_directories=", "-c", "max_connections=200",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	// Quit, not kill: it then gives back its shared memory.
	if s.proc, err = testproc.Start(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

const readyWithin = time.Minute // half a second is usual

func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.exec(ctx, "SELECT 1") != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.proc.Stop(syscall.SIGQUIT)
			return fmt.Errorf("postgres takes no connections: %w: %s", ctx.Err(), s.proc)
		case <-s.proc.Done():
			return fmt.Errorf("postgres ended: %s", s.proc)
		}
	}
	return nil
}

// command is a server program run as the unprivileged user, with no more of our
// environment than it needs.
func (s *server) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.scratch.Path
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.scratch.Path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.run}
	return cmd
}
