package skill

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
)

// tree makes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	own, err := Embedded(Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	const file = Troubleshooter + "/SKILL.md"
	skill := map[string]string{"SKILL.md": "mine"}
	for name, c := range map[string]struct {
		cache    string
		sources  []string
		embedded bool
		code     nightcrier.Code
	}{
		"no directory":       {embedded: true},
		"not there yet":      {cache: filepath.Join(t.TempDir(), "later"), embedded: true},
		"another skill":      {cache: tree(t, map[string]string{"x/SKILL.md": "x"}), embedded: true},
		"by its name":        {cache: tree(t, map[string]string{file: "mine"})},
		"in a domain":        {cache: tree(t, map[string]string{"sre/" + file: "mine"})},
		"in a repository":    {cache: tree(t, map[string]string{"k8s4agents/skills/" + file: "mine"})},
		"twice":              {cache: tree(t, map[string]string{file: "a", "sre/" + file: "b"}), code: nightcrier.Invalid},
		"not a directory":    {cache: filepath.Join(tree(t, map[string]string{"f": ""}), "f"), code: nightcrier.Invalid},
		"of another's name":  {cache: tree(t, map[string]string{file: "a", Troubleshooter + "/agentura.config.yaml": "skills: [{name: y}]"}), code: nightcrier.Invalid},
		"hidden":             {cache: tree(t, map[string]string{".git/" + file: "a"}), embedded: true},
		"a source":           {sources: []string{tree(t, map[string]string{file: "mine"})}},
		"the second source":  {sources: []string{tree(t, skill), tree(t, map[string]string{"skills/" + file: "mine"})}},
		"source before both": {sources: []string{tree(t, map[string]string{file: "mine"})}, cache: tree(t, map[string]string{file: "a", "sre/" + file: "b"})},
		"no source there":    {sources: []string{filepath.Join(t.TempDir(), "later")}, code: nightcrier.Invalid},
		"a broken source":    {sources: []string{tree(t, map[string]string{file: "---\n"})}, code: nightcrier.Invalid},
		"itself the source":  {sources: []string{filepath.Join(tree(t, map[string]string{file: "mine"}), Troubleshooter)}},
	} {
		o := Options{CacheDir: c.cache}
		for _, dir := range c.sources {
			o.Sources = append(o.Sources, Source{Path: dir})
		}
		s, err := find(o)
		if nightcrier.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil && (s.Ref() == own.Ref()) != c.embedded {
			t.Errorf("%s: got %+v", name, s.Ref())
		}
	}
}

func find(o Options) (*Skill, error) {
	l, err := Open(o)
	if err != nil {
		return nil, err
	}
	return l.Find(Troubleshooter)
}

// With its domain, a skill is not that of another domain; where a place has no domains, its
// name is enough.
func TestFindInADomain(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"its own":               {map[string]string{"dev/deployer/SKILL.md": "yes", "ops/deployer/SKILL.md": "no"}, "yes"},
		"its own, not the bare": {map[string]string{"dev/deployer/SKILL.md": "yes", "deployer/SKILL.md": "no"}, "yes"},
		"another's":             {map[string]string{"ops/deployer/SKILL.md": "no"}, ""},
		"none":                  {map[string]string{"deployer/SKILL.md": "yes"}, "yes"},
		"in a repository":       {map[string]string{"some/skills/deployer/SKILL.md": "yes"}, "yes"},
	} {
		l, err := Open(Options{CacheDir: tree(t, c.files)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Find("dev/deployer")
		switch {
		case c.want == "" && nightcrier.CodeOf(err) != nightcrier.NotFound:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err != nil || s.Name != "deployer" || s.Files()[0].Text != c.want):
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	l, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := l.Find("sre/" + Troubleshooter); err != nil || s.From != embeddedName {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWhatCannotBeFoundSaysWhereItWasLookedFor(t *testing.T) {
	cache, source := tree(t, map[string]string{"x/SKILL.md": ""}), tree(t, nil)
	l, err := Open(Options{CacheDir: cache, Sources: []Source{{Path: source}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Find("payments")
	if nightcrier.CodeOf(err) != nightcrier.NotFound || !strings.Contains(err.Error(), source) || !strings.Contains(err.Error(), cache) || !strings.Contains(err.Error(), "payments/SKILL.md") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "..", "../x", "*", "[x]", "X", "a/b/c", "../b", "a/..", "/a", "a/", "a/*", "a b", strings.Repeat("a", 65)} {
		if _, err := l.Find(name); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestListTellsWhichOneIsUsed(t *testing.T) {
	first := tree(t, map[string]string{Troubleshooter + "/SKILL.md": "---\nversion: 2\ndescription: ours\n---\n", "shop/payments/SKILL.md": "z"})
	second := tree(t, map[string]string{Troubleshooter + "/SKILL.md": "x", "team/payments/SKILL.md": "y", "shop/payments/SKILL.md": "z", "broken/SKILL.md": "---\n"})
	l, err := Open(Options{Sources: []Source{{Path: first}, {Path: second}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range l.List() {
		if s.From == embeddedName && s.Name != Troubleshooter {
			continue
		}
		version := ""
		if s.Skill != nil {
			version = s.Skill.Version
		}
		got = append(got, fmt.Sprintf("%s %t %t %t %t", s.Name, s.From == first, s.Used, s.Err == nil, version == "2"))
	}
	want := []string{Troubleshooter + " true true true true", "payments true true true false", "broken false true false false", Troubleshooter + " false false true false", "payments false false true false", "payments false true true false", Troubleshooter + " false false true false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindFollowsNoLinks(t *testing.T) {
	dir := tree(t, map[string]string{Troubleshooter + "/SKILL.md": "mine"})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, Troubleshooter, "notes")); err != nil {
		t.Fatal(err)
	}
	if _, err := find(Options{CacheDir: dir}); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a skill with a link in it: %v", err)
	}
}

func TestTriageScript(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		mode os.FileMode
		want bool
	}{
		"beside the skill":  {"k8s-troubleshooter/scripts/incident_triage.sh", 0o700, true},
		"in a clone":        {"k8s4agents/skills/k8s-troubleshooter/scripts/incident_triage.sh", 0o700, true},
		"not executable":    {"k8s-troubleshooter/scripts/incident_triage.sh", 0o600, false},
		"of another skill":  {"other/scripts/incident_triage.sh", 0o700, false},
		"of another name":   {"k8s-troubleshooter/scripts/triage.sh", 0o700, false},
		"elsewhere in it":   {"k8s-troubleshooter/incident_triage.sh", 0o700, false},
		"in a strange path": {"[a-z]/k8s-troubleshooter/scripts/incident_triage.sh", 0o700, true},
	} {
		dir := filepath.Join(t.TempDir(), "a[b")
		path := filepath.Join(dir, c.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, c.mode); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.want {
			want = path
		}
		for _, o := range []Options{{CacheDir: dir}, {Sources: []Source{{Path: dir}}}} {
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if got := l.TriageScript(Troubleshooter); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}
