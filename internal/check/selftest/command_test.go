package selftest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
)

// A command is cut as a shell does it, and nothing in it becomes something else.
func TestParseCommand(t *testing.T) {
	for line, want := range map[string][]string{
		"bash -c {command}":               {"bash", "-c", "{command}"},
		"agent  -p\t{prompt}\n -x":        {"agent", "-p", "{prompt}", "-x"},
		`a 'b c' "d e" f\ g h'i'"j"`:      {"a", "b c", "d e", "f g", "hij"},
		`a '$x' "\$x" \$x '*' "" ''`:      {"a", "$x", "$x", "$x", "*", "", ""},
		"a /etc/* ~ {b,c} [d] e=f ?":      {"a", "/etc/*", "~", "{b,c}", "[d]", "e=f", "?"},
		`a "b\\c\d" 'e\f'`:                {"a", `b\c\d`, `e\f`},
		`a "b\` + "\n" + `c"`:             {"a", "bc"},
		`a --json='{"x": "{command}"}'`:   {"a", `--json={"x": "{command}"}`},
		"agent --allow 'Bash(kubectl *)'": {"agent", "--allow", "Bash(kubectl *)"},
	} {
		got, err := ParseCommand(line)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", line, err, diff)
		}
	}
	for _, line := range []string{"", " ", "a $x", "a ${x}", `a "$x"`, "a $(id)", "a `id`", `a "$(id)"`, "a $((1))", "a <(id)", "a | b", "a; b", "a && b", "a & b", "a > b", "a < b", "(a)",
		"a 'b", `a "b`, "a $'b'", `a $"b"`, "a @(b)"} {
		if got, err := ParseCommand(line); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %q %v", line, got, err)
		}
	}
}
