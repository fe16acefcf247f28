package probe

import (
	"fmt"
	"os"
	"testing"
)

// Where no namespace of its own could be had, or somebody calls the inner stage by hand,
// the limit that would be set to none is that of the whole machine, or of a container.
func TestNamespacesAreTakenAwayInOursOnly(t *testing.T) {
	uid := os.Geteuid()
	for users, want := range map[string]bool{
		fmt.Sprintf("%10d %10d %10d\n", uid, uid, 1):         true,
		"         0          0 4294967295\n":                 false, // the machine
		"         0     100000      65536\n":                 false, // a container
		fmt.Sprintf("0 %d 1\n1 100000 65536\n", uid):         false,
		fmt.Sprintf("%10d %10d %10d\n", uid, uid+100_000, 1): false,
		"": false,
	} {
		if got := isFloorNamespace(users); got != want {
			t.Errorf("%q: %v", users, got)
		}
	}
}
