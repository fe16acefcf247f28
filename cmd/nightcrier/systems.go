package main

import (
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"

	"github.com/spf13/cobra"
)

// bound are the commands that run on some systems only, by name, and why. All others run
// wherever the program can be built; what is confined needs Linux everywhere.
var bound = map[string]struct {
	systems []string
	why     string
}{
	"serve":    {[]string{"linux", "darwin"}, "its workers outlive it, which takes a Unix system"},
	"demo":     {[]string{"linux", "darwin"}, "it starts a server, which takes a Unix system"},
	"selftest": {[]string{"linux"}, "what it attacks is the sandbox of agents, which is Linux's"},
}

// runsOn is a Refused error where a command does not run on a system.
func runsOn(system, command string) error {
	b, ok := bound[command]
	if !ok || slices.Contains(b.systems, system) {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Refused, "%s does not run on %s, only on %s: %s", command, system, strings.Join(b.systems, " and "), b.why)
}

// boundTo has commands that do not run on a system say so.
func boundTo(system string, commands []*cobra.Command) {
	for _, cmd := range commands {
		if err := runsOn(system, cmd.Name()); err != nil {
			cmd.RunE = func(*cobra.Command, []string) error { return err }
		}
	}
}
