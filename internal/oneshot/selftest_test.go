package oneshot

import (
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/check/selftest"
)

// Without agent.shell no agent has one in the selftest either, and with it those that can
// do without are attacked in both ways.
func TestSelftestAttacksAgentsAsConfigured(t *testing.T) {
	for _, shell := range []bool{true, false} {
		for _, cli := range agent.CLIs() {
			all := agentModes(cli, selftest.Agent{Command: "/x", Model: "m", AllowedTools: []string{"Read"}}, shell)
			shelled, without := 0, 0
			for _, a := range all {
				if a.Command != "/x" || a.Model != "m" || len(a.AllowedTools) != 1 || a.Executor.Name != cli.Name {
					t.Errorf("%+v", a)
				}
				if a.Executor.UsesTools {
					without++
				} else {
					shelled++
				}
				if a.NoShell != (a.Executor.UsesTools && !cli.UsesTools) {
					t.Errorf("%s: NoShell is %v", cli.Name, a.NoShell)
				}
			}
			if want := map[bool]int{true: 1}[shell && !cli.UsesTools]; shelled != want || without != 1 {
				t.Errorf("%s with agent.shell %v: %d with a shell and %d without", cli.Name, shell, shelled, without)
			}
		}
	}
}
