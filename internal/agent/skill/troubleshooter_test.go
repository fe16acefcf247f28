package skill

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Bounds of what an agent has to read, in bytes: all of SKILL.md, and the one
// reference of its symptom.
const (
	longSkill     = 6 << 10
	longReference = 2200
)

var (
	code        = regexp.MustCompile("`([^`\n]+)`")
	placeholder = regexp.MustCompile(`\b[A-Z][A-Z-]+\b`)
)

// troubleshooter returns the files of the skill, as installed, by name.
func troubleshooter(t *testing.T) map[string]string {
	t.Helper()
	s, err := Embedded(Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range s.files {
		all[f.path] = string(f.data)
	}
	return all
}

// references returns the references of the skill.
func references(t *testing.T) map[string]string {
	t.Helper()
	all := troubleshooter(t)
	for name := range all {
		if !strings.HasPrefix(name, "references/") {
			delete(all, name)
		}
	}
	if len(all) < 13 {
		t.Fatalf("only %d references", len(all))
	}
	return all
}

func TestTheSkillAndItsReferencesAreShort(t *testing.T) {
	all := troubleshooter(t)
	if n := len(all["SKILL.md"]); n > longSkill {
		t.Errorf("SKILL.md has %d bytes", n)
	}
	for name, text := range references(t) {
		if len(text) > longReference {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		for _, section := range []string{"# ", "\nCauses: ", "\n| read | with a tool |\n", "\n## Look-alikes\n", "\n## Refuted by\n", "\n## Wrong conclusions\n"} {
			if !strings.Contains(text, section) {
				t.Errorf("%s lacks %q", name, section)
			}
		}
	}
}

// SKILL.md names each reference once in its table, references name each other,
// and no name leads nowhere.
func TestReferencesAreFound(t *testing.T) {
	refs := references(t)
	skill := troubleshooter(t)["SKILL.md"]
	for name := range refs {
		if base := strings.TrimPrefix(name, "references/"); strings.Count(skill, "| `"+base+"` |") != 1 {
			t.Errorf("SKILL.md does not say once when to read %s", base)
		}
	}
	named := regexp.MustCompile(`\b[a-z]+\.md\b`)
	for name, text := range refs {
		for _, other := range named.FindAllString(text, -1) {
			if refs["references/"+other] == "" {
				t.Errorf("%s names %s, which is not there", name, other)
			}
		}
	}
	for _, other := range named.FindAllString(skill, -1) {
		if other != "investigation.md" && refs["references/"+other] == "" {
			t.Errorf("SKILL.md names %s, which is not there", other)
		}
	}
}

// Agents name causes from the published list, and all of it is theirs to name.
func TestReferencesNameThePublishedCauses(t *testing.T) {
	published, named := map[string]bool{}, map[string]bool{}
	for _, c := range diagnose.Causes() {
		published[c.ID] = true
	}
	for name, text := range references(t) {
		_, list, _ := strings.Cut(text, "\nCauses: ")
		list, _, _ = strings.Cut(list, "\n")
		ids := code.FindAllStringSubmatch(list, -1)
		if len(ids) == 0 {
			t.Errorf("%s names no cause", name)
		}
		for _, m := range ids {
			if named[m[1]] = true; !published[m[1]] {
				t.Errorf("%s: %q is not a published cause", name, m[1])
			}
		}
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			if regexp.MustCompile(`^[a-z]+-[a-z-]+$`).MatchString(m[1]) && !published[m[1]] {
				t.Errorf("%s: %q looks like a cause and is not published", name, m[1])
			}
		}
	}
	for id := range published {
		if !named[id] {
			t.Errorf("cause %s is in no reference: agents would not know how it is called", id)
		}
	}
}

// A command that the skill shows is one that would be run as a falsification
// test: it reads, and needs no shell.
func TestReferencesShowReadsOnly(t *testing.T) {
	for name, text := range troubleshooter(t) {
		n := 0
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "kubectl ") {
				continue
			}
			n++
			if err := falsify.Readable(placeholder.ReplaceAllStringFunc(m[1], strings.ToLower), "ns"); err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
		}
		if n == 0 && strings.HasPrefix(name, "references/") {
			t.Errorf("%s shows no command", name)
		}
	}
}

func TestReferencesCallToolsThatExist(t *testing.T) {
	set := kubetool.New(kubetool.Config{})
	for name, text := range references(t) {
		n := 0
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			if !strings.HasPrefix(m[1], "kubernetes_") {
				continue
			}
			n++
			tool, ok := set.Tool(words[0])
			if !ok {
				t.Errorf("%s: there is no tool %s", name, words[0])
				continue
			}
			args := map[string]any{}
			for _, w := range words[1:] {
				key, value, _ := strings.Cut(w, "=")
				args[key] = value
				if value == "true" {
					args[key] = true
				}
			}
			raw, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tool.Params.Read(raw); err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
		}
		if n == 0 {
			t.Errorf("%s calls no tool", name)
		}
	}
}

func TestTheSkillTellsTheContract(t *testing.T) {
	skill := troubleshooter(t)["SKILL.md"]
	words := append(report.Headings(), report.Title, "[FACT-1]", "[INF-1]", "H1:", "🔴", "🟡", "🟢", "Falsification test", "Expected if false",
		"evidence", "Stop when", "<initial_triage_report>", "output/investigation.md")
	for _, w := range words {
		if !strings.Contains(skill, w) {
			t.Errorf("SKILL.md does not tell %q", w)
		}
	}
}

// The example is a report that we would take.
func TestTheExampleReportIsValid(t *testing.T) {
	_, md, _ := strings.Cut(troubleshooter(t)["SKILL.md"], "```markdown\n")
	md, _, found := strings.Cut(md, "\n```")
	evidence := func(id string) (report.Recorded, bool) {
		return report.Recorded{Body: []byte(`{"metadata":{"name":"cart-7d4b-x2x7q"},"reason":"OOMKilled"}`)}, id == "E3"
	}
	r := report.Accept([]byte(md), &nightcrier.Incident{}, evidence)
	if !found || !r.Valid || len(r.Problems) > 0 {
		t.Errorf("%q", r.Problems)
	}
	if len(r.Facts) == 0 || r.Facts[0].Check != nightcrier.Seen {
		t.Errorf("its fact is not seen in the evidence that it cites: %+v", r.Facts)
	}
	for _, h := range r.Hypotheses {
		if c := h.Falsification.Command; c != "" && falsify.Readable(c, "shop") != nil {
			t.Errorf("%s would not be tested by %q", h.ID, c)
		}
	}
}
