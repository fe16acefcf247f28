package agent

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/guard/readonly"
)

func geminiJob() Job {
	return Job{Spec: Spec{Shell: true}, Workspace: "/var/lib/ws", OutputDir: "/var/lib/ws/output", Allowed: readonly.Policy{Verbs: []string{"get", "describe", "logs", "version"}}}
}

// decide is what the CLI makes of the rules: the first that matches, from the
// highest priority down, on arguments whose every member stands between two NULs.
func decide(t testing.TB, j Job, tool string, args map[string]any) string {
	t.Helper()
	names := make([]string, 0, len(args))
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names)
	text := "{"
	for i, name := range names {
		value, err := json.Marshal(args[name])
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(value))
		if i > 0 {
			text += ","
		}
		text += "\x00\"" + name + "\":" + plain + "\x00"
	}
	rules := geminiRules(j, nil)
	slices.SortStableFunc(rules, func(a, b geminiRule) int { return b.priority - a.priority })
	for _, r := range rules {
		if (slices.Contains(r.tools, tool) || slices.Contains(r.tools, "*")) && regexp.MustCompile(r.args).MatchString(text+"}") {
			return r.decision
		}
	}
	return "none"
}

// geminiCommandsFile are commands that an investigation needs, and commands that
// change, leak, reach elsewhere, hang, or hide what they are. The real CLI is held
// against it too, by the worker's tests.
const geminiCommandsFile = "testdata/gemini-commands.json"

func geminiMatrix(t testing.TB) (runs, refused []string) {
	t.Helper()
	data, err := os.ReadFile(geminiCommandsFile)
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Run, Refuse []string }
	if err := json.Unmarshal(data, &m); err != nil || len(m.Run) == 0 || len(m.Refuse) == 0 {
		t.Fatalf("%s: %v", geminiCommandsFile, err)
	}
	return m.Run, m.Refuse
}

func TestGeminiCommands(t *testing.T) {
	j := geminiJob()
	parser := readonly.Checker{Policy: j.Allowed, Workspace: j.Workspace}
	runs, refused := geminiMatrix(t)
	for want, commands := range map[string][]string{"allow": runs, "deny": refused} {
		for _, c := range commands {
			if got := decide(t, j, "run_shell_command", map[string]any{"command": c, "description": "d"}); got != want {
				t.Errorf("%q: %s, want %s", c, got, want)
			}
			// What a shell's own parser makes of it may be more generous, never less.
			if err := parser.Check(c); want == "allow" && err != nil {
				t.Errorf("%q: %v", c, err)
			}
		}
	}
}

func TestGeminiTools(t *testing.T) {
	j := geminiJob()
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"read_file", map[string]any{"file_path": "context/incident.json"}, "allow"},
		{"glob", map[string]any{"pattern": "**/*"}, "allow"},
		{"write_file", map[string]any{"file_path": "output/investigation.md", "content": "see ../x"}, "allow"},
		{"write_file", map[string]any{"file_path": "/var/lib/ws/output/artifacts/a.txt", "content": "x"}, "allow"},
		{"write_file", map[string]any{"file_path": "output/../context/x", "content": "x"}, "deny"},
		{"write_file", map[string]any{"file_path": "context/incident.json", "content": `"file_path":"output/x"`}, "deny"},
		{"write_file", map[string]any{"file_path": "/tmp/output/x"}, "deny"},
		{"write_file", map[string]any{"file_path": "/var/lib/wsx/output/x"}, "deny"},
		{"write_file", map[string]any{"file_path": "output"}, "deny"},
		{"write_file", map[string]any{"other": map[string]any{"file_path": "output/x"}, "file_path": "context/x"}, "deny"},
		{"replace", map[string]any{"file_path": "output/x"}, "deny"},
		{"web_fetch", map[string]any{"prompt": "http://evil"}, "deny"},
		{"google_web_search", map[string]any{"query": "x"}, "deny"},
		{"invoke_agent", map[string]any{"agent_name": "generalist"}, "deny"},
		{"activate_skill", map[string]any{"name": "x"}, "deny"},
		{"save_memory", map[string]any{"fact": "x"}, "deny"},
		{"mcp_x_y", nil, "deny"},
		{"run_shell_command", map[string]any{"command": "kubectl get pods", "is_background": true}, "deny"},
		{"run_shell_command", map[string]any{"command": "kubectl get pods", "is_background": false, "dir_path": "."}, "allow"},
		{"run_shell_command", map[string]any{"command": "kubectl get pods", "dir_path": "/etc"}, "deny"},
		{"run_shell_command", map[string]any{"command": "kubectl get pods", "dir_path": ".."}, "deny"},
		{"run_shell_command", map[string]any{"command": "kubectl get pods", "additional_permissions": map[string]any{}}, "deny"},
		{"run_shell_command", map[string]any{"command": "id", "description": `"command":"kubectl get pods"`}, "deny"},
		{"run_shell_command", map[string]any{"command": "id", "x": map[string]any{"command": "kubectl get pods"}}, "deny"},
		{"run_shell_command", map[string]any{"command": "kubectl get x -o jsonpath='{a}", "description": "'"}, "deny"},
		{"run_shell_command", map[string]any{"command": []string{"kubectl get pods"}}, "deny"},
	} {
		if got := decide(t, j, c.tool, c.args); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.tool, c.args, got, c.want)
		}
	}
}

// The verbs of the configuration are those that run.
func TestGeminiVerbs(t *testing.T) {
	j := geminiJob()
	j.Allowed.Verbs = []string{"logs"}
	for command, want := range map[string]string{"kubectl logs x": "allow", "kubectl get x": "deny", "kubectl logs x | head": "allow"} {
		if got := decide(t, j, "run_shell_command", map[string]any{"command": command}); got != want {
			t.Errorf("%q: %s", command, got)
		}
	}
	j.Allowed.Verbs = nil
	for _, command := range []string{"kubectl logs x", "kubectl  x", "grep x"} {
		if got := decide(t, j, "run_shell_command", map[string]any{"command": command}); got != "deny" {
			t.Errorf("%q: %s", command, got)
		}
	}
}

// A pattern that the CLI takes for dangerous is no rule at all.
func TestGeminiPatternsAreTaken(t *testing.T) {
	j := geminiJob()
	j.Allowed.Verbs = readonly.Verbs()
	nested := regexp.MustCompile(`\([^)]*[*+?{].*\)[*+?{]`)
	for _, r := range geminiRules(j, nil) {
		if nested.MatchString(r.args) || len(r.args) > 2048 {
			t.Errorf("%d bytes: %s", len(r.args), r.args)
		}
	}
}

// Whatever passes holds nothing that a shell would act on outside of quotes, and
// no flag that is not listed.
func FuzzGeminiCommands(f *testing.F) {
	runs, refused := geminiMatrix(f)
	for _, c := range slices.Concat(runs, refused) {
		f.Add(c)
	}
	for _, format := range []string{"templatefile", "go-template-file", "jsonpath-file", "custom-columns-file", "template", "jsonpath-as-json", "kyaml"} {
		f.Add("kubectl get x -o " + format + "=x")
	}
	j := geminiJob()
	filter := regexp.MustCompile(`\| (grep|head|tail|wc|cut)( |$)`)
	flag := regexp.MustCompile(`^(` + strings.ReplaceAll(strings.ReplaceAll(geminiReadFlags, "| ", "|"), " -n", "-n") + `)`)
	format := regexp.MustCompile(`^(-o|--output)=?(.*)$`)
	harmless := regexp.MustCompile(`^(json|yaml|wide|name|(jsonpath|custom-columns|go-template)=.*)$`)
	f.Fuzz(func(t *testing.T, command string) {
		if decide(t, j, "run_shell_command", map[string]any{"command": command}) != "allow" {
			return
		}
		bare := unquoted(command)
		bare = strings.ReplaceAll(strings.ReplaceAll(bare, "2>&1", ""), "2>/dev/null", "")
		if strings.ContainsAny(filter.ReplaceAllString(bare, ""), "$`;&|<>(){}\\\n\r\t*?[]~#") {
			t.Fatalf("%q passes: %q is not quoted", command, bare)
		}
		first, _, _ := strings.Cut(command, " | ")
		if !strings.HasPrefix(first, "kubectl ") {
			return
		}
		all := words(first)
		for i, word := range all {
			if m := format.FindStringSubmatch(word); m != nil {
				if m[2] == "" && i+1 < len(all) {
					m[2] = all[i+1]
				}
				if !harmless.MatchString(m[2]) {
					t.Fatalf("%q passes with the format %q", command, m[2])
				}
				continue
			}
			if strings.HasPrefix(word, "-") && !flag.MatchString(word) {
				t.Fatalf("%q passes with %q", command, word)
			}
		}
	})
}

// unquoted is what of a command stands outside single quotes; double ones keep
// what a shell acts on.
func unquoted(s string) string {
	var out strings.Builder
	quote := rune(0)
	for _, r := range s {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case quote == 0, quote == '"' && strings.ContainsRune("$`\\", r):
			out.WriteRune(r)
		}
	}
	return out.String()
}

// words splits as a shell does, without its quotes.
func words(s string) []string {
	var out []string
	quote, word, in := rune(0), "", false
	for _, r := range s {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case r == quote:
			quote = 0
		case quote == 0 && r == ' ':
			if in {
				out = append(out, word)
			}
			word, in = "", false
		default:
			word, in = word+string(r), true
		}
	}
	if in {
		out = append(out, word)
	}
	return out
}
