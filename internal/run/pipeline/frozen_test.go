package pipeline

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// skills resolves these skills and no other.
type skills map[string]string

func (s skills) ResolveSkill(name string) (SkillPin, error) {
	version, ok := s[name]
	if !ok {
		return SkillPin{}, nightcrier.Errorf(nightcrier.NotFound, "there is no skill %q", name)
	}
	return SkillPin{Name: name, Version: version, Digest: "sha256:" + name}, nil
}

// freeze is what a checkpoint keeps.
func freeze(t testing.TB, f Frozen) string {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// thaw is a frozen pipeline after a stay in a checkpoint.
func thaw(t testing.TB, f Frozen) Frozen {
	t.Helper()
	var again Frozen
	if err := json.Unmarshal([]byte(freeze(t, f)), &again); err != nil {
		t.Fatal(err)
	}
	return again
}

const everyKey = `name: all
description: every key
on: [manual, {type: cron, schedule: "0 7 * * 1-5", timezone: Europe/Berlin}]
input_mapping: {description: prd}
concurrency: {key: input.repository, policy: cancel-previous}
deadline: 2h
budget: 12.50
steps:
  - id: build
    skill: dev/app-builder
    agent_id: builder
    with: {prd: input.prd, most: 5}
    if: has(input.prd)
    on_failure: retry
    retries: 2
    timeout: 30m
    budget: 2
    deliverable: {schema: {type: object, required: [url], properties: {url: {type: string}}}}
    context_for_next: false
  - skill: dev/deployer
    required: false
    with: {url: steps.build.output.url}
    deliverable: {files: [dist/*.html]}
`

func TestFrozenIsAllThatThereIs(t *testing.T) {
	t.Parallel()
	l, problems := Load(write(t, map[string]string{"all.yaml": everyKey}))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	f, err := l.Freeze("all", skills{"dev/app-builder": "1.2.3", "dev/deployer": ""})
	if err != nil {
		t.Fatal(err)
	}
	if again := thaw(t, f); !reflect.DeepEqual(again, f) {
		t.Errorf("%+v\nis not\n%+v", again, f)
	}
	if pin := f.Skills["dev/app-builder"]; f.Version != FrozenVersion || pin.Version != "1.2.3" || !strings.HasPrefix(f.Digest, "sha256:") {
		t.Errorf("%+v", f)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	l, _ := Load(write(t, map[string]string{"all.yaml": everyKey}))
	_, err := l.Freeze("all", skills{})
	if nightcrier.CodeOf(err) != nightcrier.NotFound || err.Error() != "pipeline all cannot run: there is no skill dev/app-builder, dev/deployer: put dev/app-builder/SKILL.md below a directory that skills.sources or skills.cache_dir names" {
		t.Error(err)
	}
	library, err := skill.Open(skill.Options{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := l.Freeze(Triage, Skills{Library: library}); err != nil || f.Skills["sre/k8s-troubleshooter"].Name != "k8s-troubleshooter" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := l.Freeze("../all", skills{}); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Error(err)
	}
}

func TestFrozenIsReadStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"version":1,"definition":{"name":"p","phases":[{"steps":[{"id":"a","approve":true}]}]}}`: `has the field "approve", which this program does not know`,
		`{"version":1,"extra":{}}`: `has the field "extra"`,
		`{"version":2}`:            "has version 2, and this program reads 1 to 1",
		`{}`:                       "has version 0",
		`{"version":1,"definition":{"phases":5}}`: "cannot be read",
		`[`: "unexpected end",
	} {
		var f Frozen
		if err := json.Unmarshal([]byte(text), &f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
