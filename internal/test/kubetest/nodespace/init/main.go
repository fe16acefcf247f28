// Command init is the first process of a node's namespaces in tests; see package
// nodespace, which starts it.
package main

import (
	"fmt"
	"os"

	"nightcrier.dev/nightcrier/internal/test/kubetest/nodespace"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: init DIR CGROUP, started by a test")
		os.Exit(2)
	}
	if err := nodespace.Serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
}
