package main

import (
	"errors"
	"slices"
	"testing"

	"nightcrier.dev/nightcrier"

	"github.com/spf13/cobra"
)

// A command that a system cannot run says so there, and all others are what they are.
func TestCommandsOfASystem(t *testing.T) {
	for system, refused := range map[string][]string{"linux": nil, "darwin": {"selftest"}, "windows": {"demo", "selftest", "serve"}} {
		ran := errors.New("it ran")
		var commands []*cobra.Command
		for _, cmd := range (&program{}).rootCommand().Commands() {
			commands = append(commands, &cobra.Command{Use: cmd.Use, RunE: func(*cobra.Command, []string) error { return ran }})
		}
		boundTo(system, commands)
		var got []string
		for _, cmd := range commands {
			if err := cmd.RunE(cmd, nil); !errors.Is(err, ran) {
				got = append(got, cmd.Name())
				if nightcrier.CodeOf(err) != nightcrier.Refused {
					t.Errorf("%s on %s: %v", cmd.Name(), system, err)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, refused) {
			t.Errorf("%s refuses %v, want %v", system, got, refused)
		}
		if err := runsOn(system, "serve"); (err != nil) != slices.Contains(refused, "serve") {
			t.Errorf("a server on %s: %v", system, err)
		}
	}
}
