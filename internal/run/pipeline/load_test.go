package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// write makes a directory of these files.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mustRead reads a definition that has no fault.
func mustRead(t testing.TB, text string) *Definition {
	t.Helper()
	d, problems := readDefinition("p.yaml", []byte(text))
	if d == nil {
		t.Fatal(problems)
	}
	return d
}

func TestTriageIsPartOfTheProduct(t *testing.T) {
	t.Parallel()
	l, problems := Load("")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := l.Find(Triage)
	if err != nil || !e.IsEmbedded() || !strings.HasPrefix(e.Digest, "sha256:") {
		t.Fatalf("%+v, %v", e, err)
	}
	var uses []string
	for phase, s := range e.AllSteps() {
		uses = append(uses, s.Uses())
		if phase.Parallel {
			t.Errorf("%s is in a parallel phase", s.ID)
		}
	}
	if want := []string{"action:collect", "sre/k8s-troubleshooter", "action:check", "action:notify"}; !slices.Equal(uses, want) {
		t.Errorf("%q, want %q", uses, want)
	}
}

// A parallel review with a report, as the older platform writes it.
const review = `name: review
description: "Looks at a change from three sides"
trigger:
  type: github_pr
  actions: [opened, synchronize]

phases:
  - name: look
    type: parallel
    steps:
      - skill: code/reader
        agent_id: reader
        required: true
      - skill: code/tester
        required: false

  - name: tell
    type: sequential
    fan_in_from: look
    steps:
      - skill: code/teller
        agent_id: teller
`

func TestNamesAndDefaults(t *testing.T) {
	t.Parallel()
	d := mustRead(t, review)
	var got []string
	for phase, s := range d.AllSteps() {
		got = append(got, fmt.Sprint(phase.Name, phase.Parallel, " ", s.ID, " ", s.AgentID, " ", s.Required, " ", s.OnFailure, " ", s.ContextForNext))
	}
	want := []string{"looktrue reader reader true stop true", "looktrue code-tester code-tester false continue true", "tellfalse teller teller true stop true"}
	if !slices.Equal(got, want) || d.CountSteps() != 3 || d.Phases[1].FanInFrom != "look" {
		t.Errorf("%q, want %q", got, want)
	}
	if d.On[0].Type != OnGitHubPR || !slices.Equal(d.On[0].Actions, []string{"opened", "synchronize"}) {
		t.Errorf("%+v", d.On)
	}
}

func TestOneBadFileIsIsolated(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"good.yaml": "name: good\nsteps:\n  - skill: dev/x\n", "bad.yaml": "name: bad\nsteps:\n  - skil: dev/x\n",
		"one.yaml": "name: twice\nsteps:\n  - skill: dev/x\n", "two.yml": "# the same\nname: twice\nsteps:\n  - skill: dev/x\n",
		"notes.txt": "{", ".hidden.yaml": "{",
	})
	l, problems := Load(dir)
	var said []string
	for _, p := range problems {
		said = append(said, strings.TrimPrefix(p.String(), dir+"/"))
	}
	want := []string{
		"bad.yaml:3: steps[0]: lacks skill: write the skill that an agent uses, such as dev/deployer, an approval, or an action: check, collect, fetch_pull_request, health, notify, post_review",
		"bad.yaml:3: steps[0].skil: is not a key: did you mean skill?",
		"two.yml:2: name: is twice, as that of " + dir + "/one.yaml is: neither is used; keep one",
	}
	slices.Sort(said)
	slices.Sort(want)
	if !slices.Equal(said, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	var names []string
	for _, e := range slices.DeleteFunc(l.List(), isBuildDeploy) {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"cluster-health", "good", Triage}) {
		t.Errorf("%q", names)
	}
	_, err := l.Find("godo")
	if nightcrier.CodeOf(err) != nightcrier.NotFound || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "did you mean good?") {
		t.Error(err)
	}
	// Who asks for one that is left out is told why.
	for name, want := range map[string]string{
		"bad":   "pipeline bad cannot be used: " + dir + "/bad.yaml:3: steps[0].skil: is not a key: did you mean skill?; ",
		"twice": "pipeline twice cannot be used: " + dir + "/two.yml:2: name: is twice, as that of ",
	} {
		if _, err := l.Find(name); nightcrier.CodeOf(err) != nightcrier.Conflict || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, not %s", name, err, want)
		}
	}
	dir = write(t, map[string]string{"torn.yaml": "name: torn\nsteps: [\n", "many.yaml": "name: most\na: 1\nb: 1\nc: 1\nsteps: [{skill: x}]\n"})
	l, _ = Load(dir)
	for name, want := range map[string]string{"torn": "/torn.yaml:2: is not valid YAML", "most": "/many.yaml:2: a: is not a key", "many": "Pipeline not found"} {
		if _, err := l.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", name, err, want)
		}
	}
	if _, err := l.Find("most"); err == nil || !strings.Contains(err.Error(), "; "+dir+"/many.yaml:4: c: is not a key") {
		t.Errorf("not all is said: %v", err)
	}
}

// isBuildDeploy finds what is part of the product beside what most tests are about.
func isBuildDeploy(e Entry) bool {
	return (e.Name == "build-deploy" || e.Name == "github-pr-review") && e.IsEmbedded()
}
