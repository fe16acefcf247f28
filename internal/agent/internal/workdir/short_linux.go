package workdir

import (
	"fmt"
	"os"
)

// shortPath names an open directory by its descriptor.
func shortPath(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }
