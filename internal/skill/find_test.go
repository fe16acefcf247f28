package skill

import (
	"os"
	"path/filepath"
	"testing"

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
	for name, c := range map[string]struct {
		dir      string
		embedded bool
		code     nightcrier.Code
	}{
		"no directory":      {dir: "", embedded: true},
		"not there yet":     {dir: filepath.Join(t.TempDir(), "later"), embedded: true},
		"another skill":     {dir: tree(t, map[string]string{"x/SKILL.md": "x"}), embedded: true},
		"by its name":       {dir: tree(t, map[string]string{file: "mine"})},
		"in a domain":       {dir: tree(t, map[string]string{"sre/" + file: "mine"})},
		"in a repository":   {dir: tree(t, map[string]string{"k8s4agents/skills/" + file: "mine"})},
		"twice":             {dir: tree(t, map[string]string{file: "a", "sre/" + file: "b"}), code: nightcrier.Invalid},
		"not a directory":   {dir: filepath.Join(tree(t, map[string]string{"f": ""}), "f"), code: nightcrier.Invalid},
		"of another's name": {dir: tree(t, map[string]string{file: "a", Troubleshooter + "/agentura.config.yaml": "skills: [{name: y}]"}), code: nightcrier.Invalid},
	} {
		s, err := Find(Troubleshooter, c.dir)
		if nightcrier.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil && (s.Ref() == own.Ref()) != c.embedded {
			t.Errorf("%s: got %+v", name, s.Ref())
		}
	}
}

func TestFindFollowsNoLinks(t *testing.T) {
	dir := tree(t, map[string]string{Troubleshooter + "/SKILL.md": "mine"})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, Troubleshooter, "notes")); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(Troubleshooter, dir); nightcrier.CodeOf(err) != nightcrier.Invalid {
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
		if got := TriageScript(Troubleshooter, dir); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := TriageScript(Troubleshooter, ""); got != "" {
		t.Errorf("without a directory: %q", got)
	}
}
