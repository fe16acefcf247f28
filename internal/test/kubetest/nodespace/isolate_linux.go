package nodespace

import (
	"os/exec"
	"syscall"
)

// isolate puts the process into namespaces of its own. It is not told to die
// with its parent: it notices that by its input, and cleans up.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Setsid:     true, // a terminal's interrupt is for the tests
	}
}
