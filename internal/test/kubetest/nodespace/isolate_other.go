//go:build !linux

package nodespace

import (
	"os/exec"
	"path/filepath"
)

// isolate makes the start fail: only Linux has what a node needs.
func isolate(cmd *exec.Cmd) { cmd.Path = filepath.Join(cmd.Path, "only on Linux") }
