package skill

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"nightcrier.dev/nightcrier"
)

type files map[string]string

func (f files) WriteFile(rel string, data []byte, perm fs.FileMode) error {
	f[rel] = string(data)
	return nil
}

func TestTroubleshooterIsInstalled(t *testing.T) {
	s, err := Embedded(Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	got := files{}
	ref, err := s.Install(got)
	if err != nil {
		t.Fatal(err)
	}
	if ref.Name != Troubleshooter || ref.Version == "" || !strings.HasPrefix(ref.Digest, "sha256:") || ref != s.Ref() {
		t.Errorf("%+v", ref)
	}
	if len(got) < 15 || got[s.Path()] == "" || s.Path() != ".claude/skills/k8s-troubleshooter/SKILL.md" {
		t.Errorf("installed %d files, SKILL.md at %s", len(got), s.Path())
	}
}

func TestTroubleshooterIsShortAndGrantsNoTools(t *testing.T) {
	s, err := Embedded(Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	data, err := embedded.ReadFile("skills/sre/k8s-troubleshooter/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); strings.Contains(text, "allowed-tools") || strings.Contains(text, "!`") || len(text) > longSkill {
		t.Errorf("SKILL.md grants tools, runs commands or is too long (%d bytes)", len(text))
	}
	got := files{}
	if _, err := s.Install(got); err != nil || got[s.Path()] != string(data) {
		t.Errorf("it was changed on the way: %v", err)
	}
}

func TestWhatIsInstalledIsWhatWasLoaded(t *testing.T) {
	dir := fstest.MapFS{"SKILL.md": {Data: []byte("before")}, "scripts/x.sh": {Data: []byte("#!"), Mode: 0o755}, ".git/config": {Data: []byte("secret")}}
	s, err := Load("x", dir)
	if err != nil {
		t.Fatal(err)
	}
	dir["SKILL.md"] = &fstest.MapFile{Data: []byte("after")}
	got := perms{}
	if _, err := s.Install(got); err != nil {
		t.Fatal(err)
	}
	want := perms{".claude/skills/x/SKILL.md": 0o600, ".claude/skills/x/scripts/x.sh": 0o700}
	if !maps.Equal(got, want) || string(s.files[0].data) != "before" {
		t.Errorf("%v, %q", got, s.files[0].data)
	}
}

type perms map[string]fs.FileMode

func (p perms) WriteFile(rel string, _ []byte, perm fs.FileMode) error {
	p[rel] = perm
	return nil
}

func TestDigestFollowsContentAndNames(t *testing.T) {
	base := func() fstest.MapFS {
		return fstest.MapFS{
			"SKILL.md":             {Data: []byte("a")},
			"agentura.config.yaml": {Data: []byte("skills: [{name: x, version: 1.0.0}]")},
		}
	}
	digest := func(f fs.FS) string {
		s, err := Load("x", f)
		if err != nil {
			t.Fatal(err)
		}
		return s.Ref().Digest
	}
	content, added := base(), base()
	content["SKILL.md"] = &fstest.MapFile{Data: []byte("b")}
	added["scripts/x.sh"] = &fstest.MapFile{}
	if first := digest(base()); first != digest(base()) || first == digest(content) || first == digest(added) {
		t.Error("the digest does not identify the skill")
	}
}

func TestBrokenSkills(t *testing.T) {
	config := func(text string) fstest.MapFS {
		return fstest.MapFS{"SKILL.md": {}, "agentura.config.yaml": {Data: []byte(text)}}
	}
	large := config("skills: [{name: x}]")
	large["big"] = &fstest.MapFile{Data: make([]byte, maxBytes)}
	link := config("skills: [{name: x}]")
	link["evil"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/passwd")}
	for name, f := range map[string]fstest.MapFS{
		"no SKILL.md":  {"agentura.config.yaml": {}},
		"not YAML":     config("skills: ["),
		"another name": config("skills: [{name: y}]"),
		"endless":      config("skills: [{name: x}]\n" + strings.Repeat("#\n", maxConfig)),
		"nested":       config("skills: " + strings.Repeat("[", 8000)),
		"a link":       link,
		"too large":    large,
	} {
		if _, err := Load("x", f); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"nothing", "../sre", "*", ""} {
		if _, err := Embedded(name); nightcrier.CodeOf(err) != nightcrier.NotFound && nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("Embedded(%q): %v", name, err)
		}
	}
}

type fullDisk struct{}

func (fullDisk) WriteFile(string, []byte, fs.FileMode) error { return errors.New("disk full") }

func TestInstallSaysWhatFailed(t *testing.T) {
	s, err := Embedded(Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Install(fullDisk{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
}
