package testproc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// roleVar makes the test binary play the parent that dies.
const roleVar = "TESTPROC_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) == "" {
		os.Exit(m.Run())
	}
	p, err := testproc.Start(exec.Command("sleep", "600"), syscall.SIGKILL)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	scratch, err := testproc.NewScratch("testproc-child-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID(), scratch.Path)
	select {}
}

func TestChildAndScratchDoNotOutliveAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED ALOUD: only Linux tells a child that its parent died")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	child, scratch := killParentAfterStart(t)
	waitGone(t, child)
	if _, err := os.Stat(scratch); err != nil {
		t.Fatalf("the killed parent's scratch directory: %v", err)
	}
	other, err := testproc.NewScratch("testproc-child-")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	if _, err := os.Stat(scratch); !os.IsNotExist(err) {
		t.Errorf("dead parent's scratch directory still there: %v", err)
	}
	if third, err := testproc.NewScratch("testproc-child-"); err != nil {
		t.Error(err)
	} else {
		defer third.Remove()
	}
	if _, err := os.Stat(other.Path); err != nil {
		t.Errorf("a living process's scratch directory was swept: %v", err)
	}
}

// killParentAfterStart runs this binary as the parent, kills it once its child
// runs, and returns what it announced.
func killParentAfterStart(t *testing.T) (child int, scratch string) {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleVar+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err != nil {
		t.Fatalf("parent said %q: %v", line, err)
	}
	if _, err := fmt.Sscan(line, &child, &scratch); err != nil {
		t.Fatalf("parent said %q: %v", line, err)
	}
	return child, scratch
}

// waitGone waits until pid is dead, or a zombie that nobody reaps here.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); runtime.Gosched() {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("child %d outlived its parent", pid)
}

func TestStopReturnsWhenTheChildIsGone(t *testing.T) {
	p, err := testproc.Start(exec.Command("sleep", "600"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(syscall.SIGTERM)
	p.Stop(syscall.SIGTERM)
	if err := syscall.Kill(p.PID(), 0); err != syscall.ESRCH {
		t.Errorf("child %d: %v, want no such process", p.PID(), err)
	}
}

func TestStartKeepsWhatTheChildSaid(t *testing.T) {
	p, err := testproc.Start(exec.Command("ls", "/no/such/file"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !strings.Contains(p.String(), "/no/such/file") {
		t.Errorf("output = %q", p.String())
	}
	if _, err := testproc.Start(exec.Command("/no/such/program"), syscall.SIGKILL); err == nil {
		t.Error("Start of a missing program succeeded")
	}
}
