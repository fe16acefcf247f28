//go:build !linux

package probe

import (
	"fmt"
	"io"
)

// OnTheFloor needs Linux, as the sandbox does.
func OnTheFloor(_ []string, out io.Writer) (exit int) {
	fmt.Fprintln(out, "sandbox-floor:", errNotHere)
	return 1
}
