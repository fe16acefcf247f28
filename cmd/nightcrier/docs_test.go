package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/config"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestDocsNameEveryCommandAndFlag keeps docs/cli.md complete.
func TestDocsNameEveryCommandAndFlag(t *testing.T) {
	doc := read(t, "docs/cli.md")
	ofConfig := map[string]bool{"help": true, "output": true}
	for _, f := range config.Flags() {
		ofConfig[f.Name] = true
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.HasSubCommands() && !strings.Contains(doc, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md lacks %s", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !ofConfig[f.Name] && !regexp.MustCompile("`--"+f.Name+"[` ]").MatchString(doc) {
				t.Errorf("docs/cli.md lacks --%s of %s", f.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&program{}).rootCommand())
}

func TestDocsNameEveryExitCode(t *testing.T) {
	doc := read(t, "docs/cli.md")
	for code, exit := range exitCodes {
		if !regexp.MustCompile(`(?m)^\| ` + strconv.Itoa(exit) + ` \| `).MatchString(doc) {
			t.Errorf("docs/cli.md lacks exit code %d of %s", exit, code)
		}
	}
}

// TestUnitLetsWorkersLive holds the systemd unit to what survival of workers and
// their sandbox need.
func TestUnitLetsWorkersLive(t *testing.T) {
	settings := map[string]string{}
	for _, line := range strings.Split(read(t, "deploy/nightcrier.service"), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			settings[key] = value
		}
	}
	for key, want := range map[string]string{"KillMode": "process", "Delegate": "yes", "Restart": "always", "NoNewPrivileges": "yes", "UMask": "0077"} {
		if settings[key] != want {
			t.Errorf("%s=%s, want %s", key, settings[key], want)
		}
	}
	for _, key := range []string{"PrivateTmp", "RestrictNamespaces", "SystemCallFilter", "ProtectProc", "ProcSubset", "ProtectKernelTunables",
		"ProtectControlGroups", "MemoryDenyWriteExecute", "DynamicUser"} {
		if v, ok := settings[key]; ok {
			t.Errorf("%s=%s breaks running agents or their sandbox", key, v)
		}
	}
	words := strings.Fields(settings["ExecStart"])
	if !slices.Contains(words, "serve") || (&program{}).rootCommand().PersistentFlags().Lookup("config") == nil || !slices.Contains(words, "--config") {
		t.Errorf("ExecStart=%s", settings["ExecStart"])
	}
}

// The linker silently ignores -X for a variable that does not exist.
func TestTheBuildSetsTheVersion(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "-X main.release=$(VERSION)") {
		t.Error("Makefile does not set main.release, which `nightcrier version` prints")
	}
}
