package skill

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInspectNamesAllAtOnce(t *testing.T) {
	dir := filepath.Join(tree(t, map[string]string{
		"payments/SKILL.md":              "---\nname: other\nallowed-tools: Bash\n---\n!`date`\n",
		"payments/agentura.config.yaml":  "skills: [",
		"payments/inner/skill.md":        "---\n",
		"payments/.mcp.json":             "{}",
		"payments/.git/config":           "",
		"payments/agents/openai.yaml":    "",
		"payments/references/long.md":    strings.Repeat("x", longFile+1),
		"payments/references/short.md":   "x",
		"payments/scripts/large-data.md": "x",
	}), "payments")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "notes")); err != nil {
		t.Fatal(err)
	}
	found, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %s: %.40s", f.Level, f.Place(), f.Text))
	}
	want := []string{
		"fail agentura.config.yaml:1: is not valid YAML: did not find expected",
		"fail inner/skill.md:1: its front matter has no end: close it wi",
		"fail notes: is not a regular file: links and devices",
		"warn .mcp.json: is hidden, and left out",
		"warn SKILL.md:2: name: is \"other\", and its directory \"pay",
		"warn SKILL.md:3: allowed-tools: has no effect here: what ",
		"warn SKILL.md:5: commands that a CLI would run when it lo",
		"warn agents/openai.yaml: configures a CLI, and is left out",
		"warn inner/skill.md: is a second skill within this one, which",
		"hint SKILL.md: has no description in its front matter: ",
		"hint references/long.md: has 16 KiB: an agent reads it whole, spl",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is found to be fatal is what Load refuses, and nothing else is.
func TestInspectAgreesWithLoad(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"good":        {"SKILL.md": "---\nname: x\ndescription: d\n---\ndo"},
		"bare":        {"SKILL.md": ""},
		"no SKILL.md": {"README.md": ""},
		"lower case":  {"skill.md": ""},
		"config":      {"SKILL.md": "", "agentura.config.yaml": "skills: [{name: y}]"},
		"no bound":    {"SKILL.md": "", "agentura.config.yaml": "skills: [{name: x, role: agent}]\nagent: {executor: goose}"},
		"front":       {"SKILL.md": " ---\n"},
		"large":       {"SKILL.md": "", "big": strings.Repeat("x", maxBytes+1)},
		"grants":      {"SKILL.md": "---\nallowed-tools: x\n---\n"},
	} {
		dir := filepath.Join(tree(t, nil), "x")
		for file, text := range files {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		found, err := Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Load("x", os.DirFS(dir))
		if fatal := len(found) > 0 && found[0].Level == Fail; fatal != (err != nil) {
			t.Errorf("%s: %+v, and Load says %v", name, found, err)
		}
		if name == "good" && len(found) > 0 {
			t.Errorf("a good one: %+v", found)
		}
	}
	if _, err := Inspect(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there")
	}
}

// Of a directory that is no skill, such as one with all that somebody has, not everything
// is read, and not all that is wrong is said.
func TestInspectBoundsWhatItSays(t *testing.T) {
	link := func(dir string, n int) {
		t.Helper()
		for k := range n {
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, fmt.Sprintf("%06d", k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	many := map[string]string{"x/SKILL.md": ""}
	for k := range maxFiles + 10 {
		many[fmt.Sprintf("x/%04d.md", k)] = ""
	}
	for name, c := range map[string]struct {
		files map[string]string
		links int
		first string
		found int
	}{
		"files":  {many, 0, "fail .: it is larger than 1000 files or 16 MiB; the rest was not looked at", 1},
		"faults": {map[string]string{"x/SKILL.md": ""}, 100, "fail 000000: is not a regular file: links and devices cannot be part of a skill", maxFindings + 1},
		"all":    {map[string]string{"x/z/README.md": "", "x/y/README.md": ""}, maxEntries + 1, "fail 000000: is not a regular file: links and devices cannot be part of a skill", maxFindings + 1},
	} {
		dir := filepath.Join(tree(t, c.files), "x")
		link(dir, c.links)
		found, err := Inspect(dir)
		if err != nil || len(found) != c.found {
			t.Fatalf("%s: %d findings, want %d: %v", name, len(found), c.found, err)
		}
		if first := fmt.Sprintf("%s %s: %s", found[0].Level, found[0].File, found[0].Text); first != c.first {
			t.Errorf("%s: %s, want %s", name, first, c.first)
		}
		last := found[len(found)-1]
		if c.found > maxFindings && !strings.HasSuffix(last.Text, "more, not shown here") {
			t.Errorf("%s: ends with %+v", name, last)
		}
	}
}
