package nodespace_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/test/kubetest/nodespace"
)

// parentVar makes the test binary open a space at its value, a directory, and
// wait to be killed.
const parentVar = "NODESPACE_DIR"

// answerRole makes it answer HTTP where the API server would.
const answerRole = "answer-http"

func TestMain(m *testing.M) {
	dir := os.Getenv(parentVar)
	switch {
	case len(os.Args) == 2 && os.Args[1] == answerRole:
		fmt.Println(http.ListenAndServe(nodespace.API, http.NotFoundHandler()))
	case os.Getpid() == 1 && len(os.Args) == 3: // this binary stands in for nodespace/init
		if err := nodespace.Serve(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case dir != "":
		s, err := open(dir)
		if err == nil {
			err = s.Start("sleep", "/bin/sleep", "600")
		}
		fmt.Println(err)
		select {}
	default:
		os.Exit(m.Run())
	}
}

func open(dir string) (*nodespace.Space, error) {
	return nodespace.Open(nodespace.Config{Init: os.Args[0], Dir: dir, Cgroup: filepath.Base(dir)})
}

// tempDir is not the test's own, which would fail to find it gone.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nodespace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newSpace(t *testing.T) (s *nodespace.Space, dir string) {
	t.Helper()
	dir = tempDir(t)
	s, err := open(dir)
	if errors.Is(err, nodespace.ErrRefused) {
		t.Skipf("SKIPPED ALOUD: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, dir
}

func TestASpaceIsApart(t *testing.T) {
	s, dir := newSpace(t)
	sh := func(script string) string {
		t.Helper()
		out, err := s.Run("/bin/sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	if links := sh(`ls -d /proc/sys/net/ipv4/conf/*`); strings.Contains(links, "eth") {
		t.Errorf("the machine's network is there: %s", links)
	}
	if pids := sh(`ls -d /proc/[0-9]*`); !strings.Contains(pids, "/proc/1\n") || strings.Contains(pids, fmt.Sprintf("/proc/%d\n", os.Getpid())) {
		t.Errorf("the machine's processes are there: %s", pids)
	}
	mark := filepath.Base(dir)
	sh("touch /run/" + mark + " /var/lib/" + mark + " /var/log/" + mark + " && echo 1 > /proc/sys/vm/overcommit_memory")
	for _, d := range []string{"/run", "/var/lib", "/var/log"} {
		if _, err := os.Stat(filepath.Join(d, mark)); err == nil {
			t.Errorf("what is written to %s inside is outside too", d)
		}
	}
	if got := sh("cat /proc/sys/kernel/panic"); got != "10" {
		t.Errorf("a kubelet would set kernel.panic, which is %s", got)
	}
}

func TestProgramsOfASpace(t *testing.T) {
	s, dir := newSpace(t)
	if out, err := s.Run("/bin/sh", "-c", "echo said; exit 7"); out != "said\n" || err == nil || !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("run: %q, %v", out, err)
	}
	if _, err := s.Run("/no/such/program"); err == nil {
		t.Error("ran a program that is not there")
	}
	start := func(argv ...string) error { return s.Start("one", argv...) }
	if err := start("/bin/sh", "-c", "echo up; exec sleep 600"); err != nil {
		t.Fatal(err)
	}
	if err := start("/bin/sleep", "1"); err == nil {
		t.Error("two programs of one name")
	}
	if err := s.Signal("one", syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := s.Signal("one", syscall.SIGKILL); err == nil {
		t.Error("signalled a program that is gone")
	}
	if err := s.Await("one"); err == nil || !strings.Contains(err.Error(), "one ended") {
		t.Errorf("await: %v", err)
	}
	if err := start("/bin/sleep", "600"); err != nil {
		t.Errorf("again: %v", err)
	}
	s.Close()
	gone(t, dir)
	if _, err := s.Run("/bin/true"); err == nil {
		t.Error("ran a program in a space that is closed")
	}
}

// The door leads to whoever listens inside, and refuses where nobody does.
func TestTheDoor(t *testing.T) {
	s, _ := newSpace(t)
	url := "http" + strings.TrimPrefix(s.URL, "https")
	if _, err := http.Get(url); err == nil {
		t.Error("an answer of nobody")
	}
	if err := s.Start("web", os.Args[0], answerRole); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("status %d", resp.StatusCode)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// A test binary that is killed has no moment to clean up in; the init has.
func TestNothingOutlivesAKilledParent(t *testing.T) {
	s, _ := newSpace(t) // skips where there can be none
	s.Close()
	dir := tempDir(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVar+"="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err != nil || said != "<nil>\n" {
		t.Fatalf("parent said %q, %v", said, err)
	}
	gone(t, dir)
}

// gone waits until the space's directory and cgroups are gone.
func gone(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{dir, "/sys/fs/cgroup/" + filepath.Base(dir)} {
			if _, err := os.Stat(d); err == nil {
				left = append(left, d)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", left)
		}
	}
}
