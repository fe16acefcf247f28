package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// floorInside is the first argument of the stage that is in a namespace already.
const floorInside = "--inside"

// readyPipe is the descriptor by which a worker says that it is there.
const readyPipe = 3

// OnTheFloor runs this binary with args where no namespace is to be had, as in a
// container without rights: the sandbox of what it starts is at its floor. It takes a
// user namespace to take namespaces away; where that is refused, this is the floor.
func OnTheFloor(args []string, out io.Writer) (exit int) {
	if len(args) > 0 && args[0] == floorInside {
		return becomeFloored(args[1:], out)
	}
	cmd, ready := exec.Command("/proc/self/exe", append([]string{FloorCommand, floorInside}, args...)...), os.NewFile(readyPipe, "ready")
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{ready}
	uid, gid := os.Geteuid(), os.Getegid()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return becomeFloored(args, out)
	}
	ready.Close() // whoever reads it is to see when the worker ends
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		fmt.Fprintln(out, "sandbox-floor:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// becomeFloored takes away what it may and becomes the program. What could not be
// taken away shows in the layers of its sandbox. The limit of namespaces is one of the
// namespace that it is set in: of any but ours it is the machine's.
func becomeFloored(args []string, out io.Writer) (exit int) {
	runtime.LockOSThread() // rights are a thread's, and the one that calls exec takes its own along
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil && isFloorNamespace(string(users)) {
		_ = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}
	for right := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0) == nil; right++ {
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, append([]string{self}, args...), os.Environ())
	}
	fmt.Fprintln(out, "sandbox-floor:", err)
	return 1
}

// isFloorNamespace reports whether a namespace with these users is one that OnTheFloor made: it has
// one user, who is the same outside.
func isFloorNamespace(users string) bool {
	fields, uid := strings.Fields(users), strconv.Itoa(os.Geteuid())
	return slices.Equal(fields, []string{uid, uid, "1"})
}
