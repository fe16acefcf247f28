package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// pin is the id of a commit.
const pin = "0123456789abcdef0123456789abcdef01234567"

func TestSkillSources(t *testing.T) {
	cfg, _ := mustLoad(t, "skills:\n  sources:\n    - {path: ../}\n    - git: ssh://git@h/s.git\n      commit: "+pin+"\n    - {git: 'https://h/s', commit: '"+pin+"', dir: skills}\n  include: [payments]")
	want := []skill.Source{{Path: "/"}, {Git: "ssh://git@h/s.git", Commit: pin}, {Git: "https://h/s", Commit: pin, Dir: "skills"}}
	if diff := cmp.Diff(want, cfg.Skills.Sources); diff != "" {
		t.Error(diff)
	}
	var out strings.Builder
	if err := Print(&out, cfg, "yaml"); err != nil {
		t.Fatal(err)
	}
	again, _ := mustLoad(t, out.String())
	if diff := cmp.Diff(want, again.Skills.Sources); diff != "" {
		t.Errorf("what is printed reads otherwise: %s", diff)
	}
	for yaml, want := range map[string]string{
		"[{git: 'https://h/s', commit: main}]":                 "not pinned",
		"[{git: 'https://h/s'}]":                               "not pinned",
		"[{git: 'ext::sh -c x', commit: " + pin + "}]":         "git",
		"[{path: /, git: 'https://h/s', commit: " + pin + "}]": "a path and a repository",
		"[{pth: /}]":               "did you mean path",
		"[{path: {a: b}}]":         "expected a text",
		"[{path: /, path: /tmp}]":  "second time",
		"[{}]":                     "neither a path nor a git repository",
		"[[/]]":                    "expected a list of texts",
		"[{path: /}, /]":           "twice",
		"[{path: /no/such/place}]": "is not a directory",
		"[{git: 'https://u:hunter2@h/s', commit: '" + pin + "'}]": "holds a user or password",
		"{path: /}": "expected list",
		"[" + strings.Repeat("/a, ", maxSources) + "/b]":                "more than 20",
		"[{git: 'https://h/s', commit: '" + pin + "', dir: ../../etc}]": "not a directory of the repository",
	} {
		_, _, err := load(t, "skills: {sources: "+yaml+"}", nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "skills.sources") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
	for yaml, want := range map[string]string{
		"[../x]": "not the name of a skill", "[a, a]": "there already", "[k8s-troubleshooter]": "there already",
		"[a,b,c,d,e,f,g,h,i,j,k]": "more than 10",
	} {
		if _, _, err := load(t, "skills: {include: "+yaml+"}", nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
