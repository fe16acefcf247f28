package skill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// A public skill is read as its author meant it, and what is not used of it is said by its line.
func TestPublicSkillsAreReadLeniently(t *testing.T) {
	for name, c := range map[string]struct{ text, describes, says string }{
		"no front matter":       {"# Sort things\n\nSort them.\n", "", "hint SKILL.md: has no description"},
		"nothing at all":        {"", "", "hint SKILL.md: says nothing"},
		"folded":                {"---\nname: x\ndescription: >-\n  Sorts\n  things.\nlicense: MIT\n---\nSort.", "Sorts things.", ""},
		"literal":               {"---\nname: x\ndescription: |\n  Sorts\n  things.\n---\nSort.", "Sorts things.", ""},
		"plain, two lines":      {"---\nname: x\ndescription: Sorts\n  things.\n---\nSort.", "Sorts things.", ""},
		"CRLF and a BOM":        {"\ufeff---\r\nname: x\r\ndescription: Sorts.\r\n---\r\nSort.\r\n", "Sorts.", ""},
		"lines above":           {"\n\n---\nname: x\ndescription: Sorts.\nallowed-tools: Bash\n---\nSort.", "Sorts.", "warn SKILL.md:6: allowed-tools: has no effect here"},
		"a colon in it":         {"---\nname: x\ndescription: Sorts. Use when: asked\n  to sort: now\nlicense: MIT\n---\nSort.", "Sorts. Use when: asked to sort: now", "warn SKILL.md:3: the front matter is not valid YAML"},
		"a rule below it":       {"---\nname: x\ndescription: Sorts.\n---\n\n---\n\nSort.", "Sorts.", ""},
		"tools as a list":       {"---\nname: x\ndescription: Sorts.\nallowed-tools: [Read, Bash]\n---\nSort.", "Sorts.", "SKILL.md:4: allowed-tools"},
		"metadata":              {"---\nname: x\ndescription: Sorts.\nmetadata:\n  author: me\n  version: \"2.1\"\n---\nSort.", "Sorts.", "SKILL.md:4: metadata: has no effect here"},
		"a Unicode name":        {"---\nname: 整理\ndescription: 整理する。\n---\n整理。", "整理する。", `warn SKILL.md:2: name: is "整理", and its directory "x"`},
		"a name that is none":   {"---\nname: {a: b}\ndescription: Sorts.\n---\nSort.", "Sorts.", "warn SKILL.md:2: name is a mapping, and is left out"},
		"a list of words":       {"---\nname: x\ndescription: [Sorts, things]\n---\nSort.", "", "warn SKILL.md:3: description is a list, and is left out"},
		"a long description":    {"---\nname: x\ndescription: " + strings.Repeat("long ", 300) + "\n---\nSort.", strings.Repeat("long ", 204) + "lon…", "SKILL.md:3: description has 1499 characters, of which 1024 are kept"},
		"a model of a CLI":      {"---\nname: x\ndescription: Sorts.\nmodel: sonnet\n---\nSort.", "Sorts.", "warn SKILL.md:4: model: sonnet has no effect here"},
		"a role of a person":    {"---\nname: x\ndescription: Sorts.\nrole: Librarian\n---\nSort.", "Sorts.", "warn SKILL.md:4: role: Librarian is none of"},
		"a time of no kind":     {"---\nname: x\ndescription: Sorts.\ntimeout: soon\n---\nSort.", "Sorts.", "warn SKILL.md:4: timeout: is not a number of seconds"},
		"an unknown key":        {"---\nname: x\ndescripton: Sorts.\n---\nSort.", "", "warn SKILL.md:3: descripton: is not known, and left out (did you mean description?)"},
		"a number as version":   {"---\nname: x\ndescription: Sorts.\nversion: 1.10\n---\nSort.", "Sorts.", ""},
		"metadata below a head": {"# X\n\n## Skill Metadata\n\n```yaml\nskill:\n  role: specialist\n  domain: shop\n  strange: 1\n```\n", "", "warn SKILL.md:9: strange: is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load("x", fstest.MapFS{
				"SKILL.md": {Data: []byte(c.text)}, "scripts/sort.sh": {Data: []byte("#!/bin/sh\n"), Mode: 0o755}, "reference/deep/er/a.md": {Data: []byte("x")},
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Description != c.describes || len(s.Files()) != 3 || s.files[2].perm != 0o700 {
				t.Errorf("described as %q, %d files", s.Description, len(s.Files()))
			}
			if said := saidOf(s); c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("it says:\n%s\nnot %s", said, c.says)
			}
			for _, f := range s.Findings {
				if f.Level == Refuse || f.Level == Fail {
					t.Errorf("%v", f)
				}
			}
		})
	}
}

// A phase ends with three sentences.
func TestPhasesAndTheirGates(t *testing.T) {
	const body = "---\ndescription: d\n---\n# X\n\n### Phase 0: Pre-flight\n**Gate**: It is there. It is whole. Next is reading.\n" +
		"### Phase 1: Understand\n\n```\n### Phase 9: of an example\n```\nContext gate: \"Read {N} files.\"\n## Phase 3 - Do it\ndo\n### Phase 4: Deliver\n## Output\nGate: of no phase\n"
	s, err := Load("x", fstest.MapFS{
		"SKILL.md": {Data: []byte(body)}, configFile: {Data: []byte("skills: [{name: x, role: agent}]\nagent: {executor: goose, max_iterations: 2}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range s.Phases() {
		got = append(got, p.Name+"|"+p.Gate)
	}
	if want := "Pre-flight|It is there. It is whole. Next is reading.;Understand|Read {N} files.;Do it|;Deliver|"; strings.Join(got, ";") != want {
		t.Errorf("%q", got)
	}
	want := "hint SKILL.md:8: the context gate of Phase 1 has 1 sentence, not 3: say what was found, what was decided, and what is next\n" +
		"hint SKILL.md:14: Phase 3 follows Phase 1: number them in their order\n" +
		"hint SKILL.md:14: Phase 3 has no context gate: end it with **Gate**: and three sentences, of what was found, what was decided, and what is next"
	if said := saidOf(s); said != want {
		t.Errorf("%s", said)
	}
}

// What can be read is not always executed, and the line that is why is named.
func TestALineSaysWhyItIsRefused(t *testing.T) {
	s, err := Load("x", fstest.MapFS{"SKILL.md": {Data: []byte("do")}, configFile: {Data: []byte(
		"skills:\n  - name: x\n    role: agent\n    deploy_status: disabled\nagent: {executor: goose, max_iterations: 2}\nguardrails:\n  human_in_loop: {required_for: [x]}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"refused agentura.config.yaml:4: skills.deploy_status: it is disabled", "refused agentura.config.yaml:7: guardrails.human_in_loop.required_for: names roles"} {
		if !strings.Contains(saidOf(s), want) {
			t.Errorf("%s, not %s", saidOf(s), want)
		}
	}
	if err := s.CheckRunnable(); err == nil || !strings.Contains(err.Error(), "agentura.config.yaml:4") {
		t.Error(err)
	}
}

// A place holds what is in it: a link to a skill elsewhere is none, and one bad skill is named
// beside the others.
func TestOneBadSkillIsNamedBesideTheOthers(t *testing.T) {
	outside := tree(t, map[string]string{"secret/SKILL.md": "---\ndescription: of another\n---\ndo"})
	dir := tree(t, map[string]string{
		"shop/good/SKILL.md": "do", "shop/bad/SKILL.md": "---\nname: x", "shop/Not A Name/SKILL.md": "do", "shop/unsure/SKILL.md": "do",
		"shop/unsure/agentura.config.yaml": "skills: [{name: unsure, role: agent}]\nagent: {executor: hal}",
	})
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "shop", "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "domain")); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Sources: []Source{{Path: dir}}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range l.List() {
		if got[s.Name] = "good"; s.Err != nil {
			got[s.Name] = s.Err.Error()
		}
	}
	for name, want := range map[string]string{
		"good": "good", "bad": "SKILL.md:1: its front matter has no end", "Not A Name": "is not the name of a skill", "linked": "shop/linked is a link",
		"secret": "domain is a link", "unsure": "max_iterations is missing",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %q, not %q", name, got[name], want)
		}
	}
	for _, name := range []string{"shop/linked", "domain/secret", "shop/../shop/good", "shop/good/../bad", "/etc/passwd", ".."} {
		if s, err := l.Find(name); err == nil {
			t.Errorf("%s is %s", name, s.FullName())
		}
	}
}

// A skill to begin with is one without a finding.
func TestANewSkillPasses(t *testing.T) {
	dir := t.TempDir()
	for _, executor := range executorNames() {
		made, err := WriteNew(executor+"/x", NewOptions{Dir: dir, Executor: executor})
		if err != nil || len(made) != 3 {
			t.Fatalf("%q, %v", made, err)
		}
		found, err := Inspect(filepath.Dir(made[0]))
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", executor, found, err)
		}
	}
}
