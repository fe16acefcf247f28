package agent

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// What docs/agents.md says of adding a CLI holds for those that there are, and the
// page names nothing that is not there.
func TestEachCLIIsWhole(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "../../docs/agents.md"), "\n## Adding a CLI\n")
	if !found {
		t.Fatal("docs/agents.md does not say how a CLI is added")
	}
	for _, e := range CLIs() {
		for _, m := range regexp.MustCompile("`([a-z]+/[^`]*|[a-z]+\\.go)`").FindAllStringSubmatch(section, -1) {
			name := strings.ReplaceAll(m[1], "NAME", e.Command)
			if files, err := filepath.Glob("../../" + name); err != nil || len(files) == 0 {
				t.Errorf("%s: there is no %s", e.Name, name)
			}
		}
		for _, what := range []string{"plain", "401", "429", "500", "sigint"} {
			if files, err := filepath.Glob("testdata/" + e.Command + "-*" + what + "*.jsonl"); err != nil || len(files) == 0 {
				t.Errorf("%s: no capture of %s", e.Name, what)
			}
		}
		if !strings.Contains(readFile(t, e.Command+"_stream_test.go"), "fuzzParser(f, ") {
			t.Errorf("%s: its parser is not fuzzed", e.Name)
		}
		if e.Instructions == "" {
			t.Errorf("%s: it is not said where our system prompt goes", e.Name)
		}
		if e.Resumes != (len(e.Sessions) > 0) {
			t.Errorf("%s: goes on with sessions: %v, kept in %q", e.Name, e.Resumes, e.Sessions)
		}
		if c := e.Calls; c.Shell == nil || c.Read == nil || c.Write == nil || c.Tool == nil {
			t.Errorf("%s: it is not said how a model makes it act, by which the suites drive it", e.Name)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFind(t *testing.T) {
	e := Executor{Name: "x-code", Command: "x", Package: "@vendor/x", Versions: []string{"1.2.3"}}
	put := func(t *testing.T, name, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const says = "#!/bin/sh\necho \"x version 4.5.6 ($1)\"\n"
	for name, tt := range map[string]struct{ manifest, program, version, err string }{
		"no package":                {"", says, "4.5.6", ""},
		"its package":               {`{"name": "@vendor/x", "version": "1.2.3"}`, "#!/bin/sh\nexit 1\n", "1.2.3", ""},
		"its package of a platform": {`{"name": "@vendor/x-linux-x64", "version": "1.2.3-linux-x64"}`, says, "1.2.3", ""},
		"another package":           {`{"name": "@vendor/xy", "version": "9.9.9"}`, says, "4.5.6", ""},
		"a broken manifest":         {`{"name": "@vendor/x", "version": 1`, says, "4.5.6", ""},
		"a manifest of words":       {`{"name": "@vendor/x", "version": "newest"}`, says, "4.5.6", ""},
		"one that says nothing":     {"", "#!/bin/sh\n", "", ""},
		"one that fails":            {"", "#!/bin/sh\nexit 3\n", "", "exit status 3"},
		"one that talks for ever":   {"", "#!/bin/sh\nhead -c 1000000 /dev/zero\necho 1.1.1\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "node_modules", "@vendor", "x")
			path := put(t, filepath.Join(dir, "bin", "x"), tt.program)
			if tt.manifest != "" {
				put(t, filepath.Join(dir, "package.json"), tt.manifest)
			}
			got, err := e.Find(t.Context(), path)
			if got.Version != tt.version || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if _, err := e.Find(t.Context(), "/no/such/x"); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("%v", err)
	}
}

// npm names the command after the package where that says no other; a command that
// the operator named is taken and no other.
func TestFindsAnAlias(t *testing.T) {
	dir := t.TempDir()
	alias := filepath.Join(dir, "x-linux-x64")
	if err := os.WriteFile(alias, []byte("#!/bin/sh\necho 1.2.3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	e := Executor{Command: "x", Alias: "x-linux-x64"}
	if got, err := e.Find(t.Context(), ""); err != nil || got.Path != alias {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := e.findCLI(Job{}, uuid); err != nil || got.read[0] != alias || !strings.HasSuffix(got.path, ":"+dir) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, command := range []string{"x", "other"} {
		if got, err := e.Find(t.Context(), command); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %+v, %v", command, got, err)
		}
	}
}

// What the system would refuse with "exec format error" is told before, with what
// to do: npm without install scripts leaves a text in the place of claude.
func TestStandInIsNoProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for text, ok := range map[string]bool{
		"#!/bin/sh\necho 1.2.3\n": true,
		"\x7fELF\x02\x01\x01\x00": true,
		"":                        false,
		"echo \"Error: not installed.\" >&2\nexit 1": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := (Executor{Command: "x"}).findCLI(Job{Spec: Spec{Command: path}}, uuid)
		_, scriptErr := prepareScript(Job{Spec: Spec{ScriptPath: path}, Workspace: "/ws"})
		if (err == nil) != ok || (scriptErr == nil) != ok {
			t.Errorf("%q: %v; as a script: %v", text, err, scriptErr)
		}
		if got, err := (Executor{Command: "x"}).Find(t.Context(), path); !ok && (got.Path != path || err == nil || !strings.Contains(err.Error(), "ignore-scripts")) {
			t.Errorf("%q is found: %+v, %v", text, got, err)
		}
	}
}

// Asking for a version is given up with its caller, also when the program is deaf.
func TestFindGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ntrap '' INT TERM\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := (Executor{Command: "x"}).Find(ctx, path); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("%v", err)
	}
}

// What the server's environment holds is not the CLI's to know.
func TestVersionIsAskedWithoutOurEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-secret")
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n[ -z \"$ANTHROPIC_API_KEY\" ] && echo 1.0.0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := (Executor{Command: "x"}).Find(t.Context(), path); err != nil || got.Version != "1.0.0" {
		t.Errorf("%+v, %v", got, err)
	}
}
