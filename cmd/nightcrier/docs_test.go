package main

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"

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

// A flag's help is written for a page first: on a terminal nothing is left of its
// marks, which would also pass for the name of the flag's value.
func TestFlagsAreDescribedWithoutMarkdown(t *testing.T) {
	for _, f := range config.Flags() {
		if strings.ContainsAny(f.Usage, "`") || strings.Contains(f.Usage, "](") {
			t.Errorf("--%s: %s", f.Name, f.Usage)
		}
	}
}

// A help names the command's own flags first, in lines that the terminal has room for.
func TestHelpFitsTheTerminal(t *testing.T) {
	const width = 80
	var out strings.Builder
	help := func(words ...string) string {
		out.Reset()
		root := (&program{stdout: &out, width: width}).rootCommand()
		root.SetOut(&out)
		root.SetArgs(append(words, "--help"))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		text := help(strings.Fields(cmd.CommandPath())[1:]...)
		for _, whole := range []string{cmd.Example, cmd.UseLine(), `Use "` + cmd.CommandPath()} { // to be copied, or cobra's
			text = strings.Replace(text, whole, "", 1)
		}
		for line := range strings.Lines(text) {
			if len(line)-1 > width && len(strings.Fields(line)) > 1 {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), len(line)-1, line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&program{}).rootCommand())
	help("doctor")
	if own, key := strings.Index(out.String(), "--check-key"), strings.Index(out.String(), "--workspace-root"); own < 0 || key < own {
		t.Errorf("--check-key at %d, --workspace-root at %d", own, key)
	}
}

// Of commands that read the configuration only serve lists all of its keys; the others
// say where they are listed, and take them all the same.
func TestHelpIsNotFullOfKeys(t *testing.T) {
	help := func(words ...string) string {
		return runProgram(t, nil, "", append(words, "--help")...).out
	}
	const elsewhere = "nightcrier serve --help lists them all"
	for _, words := range []string{"doctor", "config check", "config print", "skills list", "skills show", "skills update", "tools list"} {
		text := help(strings.Fields(words)...)
		if strings.Contains(text, "--storm-quiet") || !strings.Contains(text, elsewhere) || !strings.Contains(text, "--config string") {
			t.Errorf("nightcrier %s --help:\n%s", words, text)
		}
		if r := runProgram(t, nil, "", append(strings.Fields(words), "--storm-quiet", "soon")...); r.code != 2 || !strings.Contains(r.errors, `flag --storm-quiet: "soon"`) {
			if words != "skills show" { // which asks for a name first
				t.Errorf("nightcrier %s --storm-quiet soon: %+v", words, r)
			}
		}
	}
	text := help("serve")
	for _, f := range config.Flags() {
		if !strings.Contains(text, " --"+f.Name+" ") {
			t.Errorf("nightcrier serve --help lacks --%s", f.Name)
		}
	}
	if strings.Contains(text, elsewhere) || strings.Contains(help("version"), elsewhere) {
		t.Error("where all keys are listed, or none are taken, another help is named")
	}
}

// TestTheAPITakesEveryExecutor: its description lists them by itself.
func TestTheAPITakesEveryExecutor(t *testing.T) {
	answer := httptest.NewRecorder()
	api.New(api.Options{Logger: slog.New(slog.DiscardHandler)}).ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/api/v1/openapi.json", nil))
	var described struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &described); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(config.Executors()))
	for _, p := range described.Paths["/api/v1/incidents/{id}/retry"]["post"].Parameters {
		if p.Name == "executor" {
			if got := slices.Sorted(slices.Values(p.Schema.Enum)); !slices.Equal(got, want) {
				t.Errorf("incidents can be retried with %q, want %q: mend the tag of retryQuery", got, want)
			}
			return
		}
	}
	t.Error("retry takes no executor")
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
	settings, environment := map[string]string{}, []string{}
	for _, line := range strings.Split(read(t, "deploy/nightcrier.service"), "\n") {
		key, value, ok := strings.Cut(line, "=")
		switch {
		case !ok || strings.HasPrefix(line, "#"):
		case key == "Environment":
			environment = append(environment, value)
		default:
			settings[key] = value
		}
	}
	cfg, _, err := config.Load(config.Options{Env: environment})
	if err != nil || cfg.Agent.Require != "strict" {
		t.Errorf("with %q: %v", environment, err)
	}
	for key, want := range map[string]string{"KillMode": "process", "Delegate": "yes", "Restart": "always", "NoNewPrivileges": "yes", "UMask": "0077"} {
		if settings[key] != want {
			t.Errorf("%s=%s, want %s", key, settings[key], want)
		}
	}
	for _, key := range []string{"PrivateTmp", "RestrictNamespaces", "SystemCallFilter", "ProtectProc", "ProcSubset", "ProtectKernelTunables", "ProtectKernelLogs",
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
