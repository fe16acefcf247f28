package agent_test

import (
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

// The real CLIs are the versions that they were installed as, and those are among
// the ones that were tested.
func TestFindsTheRealCLIs(t *testing.T) {
	for _, e := range agent.CLIs() {
		t.Run(e.Name, func(t *testing.T) {
			path := clitest.CLI(t, e.Command)
			got, err := e.Find(t.Context(), path)
			if err != nil || got.Version != clitest.Version(e.Command) || got.Path != path || !e.Tested(got.Version) {
				t.Errorf("%+v, %v; tested are %v", got, err, e.Versions)
			}
		})
	}
}
