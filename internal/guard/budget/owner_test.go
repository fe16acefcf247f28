package budget

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Root looks at the record of a server with another user, and spends beside it: the server
// can still open all of it.
func TestWhatRootMakesIsTheServers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root makes files for others")
	}
	const server = 12345
	root := t.TempDir()
	if err := os.Chown(root, server, server); err != nil {
		t.Fatal(err)
	}
	c := &clock{now: noon}
	dir := filepath.Join(root, "budget")
	l := open(t, dir, c.Now)
	if err := reserve(t, l.Account(who(0), Limits{}), Want{Output: 9}).Release(); err != nil {
		t.Fatal(err)
	}
	c.set(noon.Add(48 * time.Hour))
	if err := l.Tidy(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "lock", "alive", "2026-11-23.ledger"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != server || st.Gid != server {
			t.Errorf("%s is of user %d and group %d", name, st.Uid, st.Gid)
		}
	}
}

// A link in the place of a file is not followed: what it leads to is neither written to nor
// given away.
func TestLinksAreNotFollowed(t *testing.T) {
	for _, name := range []string{"lock", "alive", "2026-11-23.ledger"} {
		dir := t.TempDir()
		target := filepath.Join(t.TempDir(), "target")
		if err := os.WriteFile(target, []byte("not a record"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(dir, at(noon)); err == nil {
			l.Close()
			t.Errorf("%s was followed", name)
		}
		if b, err := os.ReadFile(target); err != nil || string(b) != "not a record" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
