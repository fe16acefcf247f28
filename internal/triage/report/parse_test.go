package report

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// document builds a report whose section n is body; the others are as short as
// the contract allows.
func document(n int, body string) []byte {
	bodies := [7]string{
		0: "- **Status:** 🔴 Active Incident\n- **Severity:** P1\n- **Impact:** Single Pod\n\n### Top 3 Recommended Actions\n1. look\n",
		2: "- **Category:** Pod\n- **[FACT-1]** x — Source: `E1` — \"y\"\n",
		3: "### H1: why — Confidence: High\n- **Falsification test:** `kubectl get pods`\n",
	}
	bodies[n] = body
	var b strings.Builder
	b.WriteString(Title + "\n")
	for i, h := range headings {
		b.WriteString(h + "\n" + bodies[i] + "\n")
	}
	return []byte(b.String())
}

func TestFactGrammar(t *testing.T) {
	base := nightcrier.Fact{ID: "FACT-1", Text: "pod cart-1 was killed", Evidence: []string{"E12"}, Check: nightcrier.Unseen}
	quoted, command := base, base
	quoted.Quote = "reason: OOMKilled"
	command.Source, command.Evidence, command.Quote = "kubectl get pod cart-1", []string{}, "reason: OOMKilled"
	both := quoted
	both.Source = "kubectl get pod cart-1"
	two := base
	two.Evidence = []string{"E12", "E3"}
	for name, c := range map[string]struct {
		md   string
		want nightcrier.Fact
	}{
		"as asked":              {"- **[FACT-1]** pod cart-1 was killed — Source: `E12` — \"reason: OOMKilled\"", quoted},
		"hyphens":               {"- [FACT-1] pod cart-1 was killed - Source: `E12` - \"reason: OOMKilled\"", quoted},
		"double hyphens":        {"* **FACT-1** pod cart-1 was killed -- Source: E12 -- \"reason: OOMKilled\"", quoted},
		"en dashes":             {"1. **[FACT-1]**: pod cart-1 was killed – **Source:** `E12` – “reason: OOMKilled”", quoted},
		"no bullet":             {"**[FACT-1]** pod cart-1 was killed — Source: `E12` — \"reason: OOMKilled\"", quoted},
		"a command as source":   {"- **[FACT-1]** pod cart-1 was killed — Source: `kubectl get pod cart-1` — \"reason: OOMKilled\"", command},
		"both sources":          {"- **[FACT-1]** pod cart-1 was killed — Source: `E12` (`kubectl get pod cart-1`) — \"reason: OOMKilled\"", both},
		"two ids":               {"- **[FACT-1]** pod cart-1 was killed — Source: `E12`, `E3`", two},
		"below":                 {"- **[FACT-1]** pod cart-1 was killed\n  - Source: `E12`\n  - Quote: \"reason: OOMKilled\"", quoted},
		"quote in the source":   {"- **[FACT-1]** pod cart-1 was killed — Source: `E12` \"reason: OOMKilled\"", quoted},
		"a mark that it made":   {"- **[FACT-1]** pod cart-1 was killed — Source: `E12` — \"reason: OOMKilled\" — ✓ verified", quoted},
		"a row of a table":      {"| ID | Fact | Source |\n|---|---|---|\n| FACT-1 | pod cart-1 was killed | `E12` |", base},
		"emphasis in the label": {"- [**FACT-1**] pod cart-1 was killed — Evidence: `E12`", base},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := Parse(document(2, c.md))
			if diff := cmp.Diff([]nightcrier.Fact{c.want}, r.Facts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInferenceGrammar(t *testing.T) {
	want := nightcrier.Inference{ID: "INF-1", Text: "the limit is too small", BasedOn: []string{"FACT-1", "FACT-2"}, Confidence: nightcrier.High, WrongIf: "memory stays flat"}
	for name, md := range map[string]string{
		"as asked":        "- **[INF-1]** the limit is too small — Confidence: High\n  - Based on: FACT-1, FACT-2\n  - Wrong if: memory stays flat",
		"one line":        "- **[INF-1]** the limit is too small — **Confidence:** High — Based on: FACT-1, FACT-2 — Wrong if: memory stays flat",
		"hyphens":         "- [INF-1] the limit is too small - Confidence: high - Based on: [FACT-1], [FACT-2] - Would be wrong if: memory stays flat",
		"in brackets":     "- **[INF-1]** the limit is too small (Confidence: High)\n  Based on: FACT-1 and FACT-2\n  Wrong if: memory stays flat",
		"the other order": "- **[INF-1]** the limit is too small — high confidence\n  - Wrong if: memory stays flat\n  - Based on: FACT-1, FACT-2, FACT-1",
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := Parse(document(2, md))
			if diff := cmp.Diff([]nightcrier.Inference{want}, r.Inferences); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHypothesisGrammar(t *testing.T) {
	want := nightcrier.Hypothesis{
		ID: "H1", Statement: "memory is too small", Confidence: nightcrier.High, For: []string{"FACT-1", "FACT-2"}, Against: []string{"FACT-3"},
		Falsification: nightcrier.Falsification{Command: "kubectl get pod x -o json", IfTrue: "OOMKilled", IfFalse: "Error", Outcome: "not-run"},
	}
	for name, md := range map[string]string{
		"as asked": "### H1: memory is too small — Confidence: High\n- **Evidence for:** FACT-1, FACT-2\n- **Evidence against:** FACT-3\n" +
			"- **Falsification test:** `kubectl get pod x -o json`\n- **Expected if true:** OOMKilled\n- **Expected if false:** Error",
		"lists and a code block": "#### H1 (most likely) - memory is too small (Confidence: High)\n**Evidence For:**\n- FACT-1: it was killed\n- FACT-2: 64Mi\n\n**Evidence Against:**\n- FACT-3\n\n" +
			"**Falsification Test:**\n```bash\n# look\nkubectl get pod x -o json\n```\n**Expected if true**: OOMKilled\n**Expected if false**: Error",
		"a bold line": "**H1: memory is too small** — Confidence: High\n\nEvidence for: FACT-1, FACT-2\nEvidence against: FACT-3\nFalsification: `kubectl get pod x -o json`\nIf true: OOMKilled\nIf false: Error",
		"deeper headings": "### H1: memory is too small\nConfidence: High\n#### Evidence For\n- FACT-1\n- FACT-2\n#### Evidence Against\n- FACT-3\n#### Falsification Test\n" +
			"$ kubectl get pod x -o json\n- Expected if true: OOMKilled\n- Expected if false: Error",
		"an outcome that it made up": "### H1: memory is too small — Confidence: High\n- **For:** FACT-1, FACT-2\n- **Against:** FACT-3\n" +
			"- **Test:** `kubectl get pod x -o json`\n- **If true:** OOMKilled\n- **If false:** Error\n- **Outcome:** holds",
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := Parse(document(3, md+"\n### H2: other — Confidence: Low\n- For: none\n### Remaining Unknowns\n- Test: `rm`"))
			if len(r.Hypotheses) != 2 {
				t.Fatalf("%d hypotheses: %+v", len(r.Hypotheses), r.Hypotheses)
			}
			if diff := cmp.Diff(want, r.Hypotheses[0]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := r.Hypotheses[1].Falsification.Command; got != "" && name != "x" {
				t.Errorf("H2 took the command %q", got)
			}
		})
	}
}

func TestCardGrammar(t *testing.T) {
	for name, c := range map[string]struct {
		md      string
		verdict nightcrier.Verdict
		sev     string
		impact  string
		target  string
	}{
		"list":         {"- **Status:** 🔴 Active Incident\n- **Severity:** P1 (critical)\n- **Impact:** Single Pod\n- **Target:** Deployment shop/cart\n", nightcrier.VerdictFault, "P1", "Single Pod", "Deployment shop/cart"},
		"table":        {"| Field | Value |\n|---|---|\n| **Status** | 🟡 Degraded |\n| Severity | P3 |\n| Impact | Multi-Namespace |\n| Target | Node worker-1 |\n", nightcrier.VerdictFault, "P3", "Multi-Namespace", "Node worker-1"},
		"plain":        {"Status: Resolved\nSeverity: **P4**\nImpact: cluster wide\nTarget: deployment/cart -n shop\n", nightcrier.VerdictRecovered, "P4", "Cluster-Wide", "deployment shop/cart"},
		"emoji":        {"**🚦 Status**: 🟢\n**Severity**: P2\n**Impact**: Namespace\n**Affected Resource**: `shop/Deployment/cart`\n", nightcrier.VerdictRecovered, "P2", "Namespace", "Deployment shop/cart"},
		"undetermined": {"- Status: 🔴 Active Incident\n- **Primary Hypothesis:** undetermined\n", nightcrier.VerdictUndetermined, "", "", ""},
		"own verdict":  {"- Status: 🟢 Resolved\n- Verdict: healthy\n", nightcrier.VerdictHealthy, "", "", ""},
		"nothing":      {"Nothing here.\n", nightcrier.VerdictUndetermined, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := Parse(document(0, c.md))
			if r.Verdict != c.verdict || r.Severity != c.sev || r.Impact != c.impact || r.Target.String() != c.target {
				t.Errorf("verdict %q, severity %q, impact %q, target %q", r.Verdict, r.Severity, r.Impact, r.Target)
			}
		})
	}
}

func TestRootCauseComesFromWhatTheReportSays(t *testing.T) {
	h1 := "### H1: memory is too small — Confidence: Medium\n- **Cause:** `oom-killed`\n- **Object:** Deployment shop/cart\n- **Falsification test:** `kubectl get pods`\n"
	r, _ := Parse(document(3, h1))
	want := &nightcrier.RootCause{Cause: "oom-killed", Object: nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}, Summary: "memory is too small", Confidence: nightcrier.Medium}
	if diff := cmp.Diff(want, r.RootCause); diff != "" {
		t.Errorf("from H1 (-want +got):\n%s", diff)
	}
	r, _ = Parse(document(3, h1+"### Root Cause\n- **Cause:** `liveness-probe-failing`\n- **Summary:** the probe is wrong\n- **Confidence:** High\n"))
	if r.RootCause == nil || r.RootCause.Cause != "liveness-probe-failing" || r.RootCause.Summary != "the probe is wrong" || r.RootCause.Confidence != nightcrier.High {
		t.Errorf("from its own block: %+v", r.RootCause)
	}
	r, _ = Parse(document(3, "### H1: x\n- **Cause:** `Rm -rf /`\n"))
	if r.RootCause == nil || r.RootCause.Cause != "" || r.RootCause.Confidence != nightcrier.Low {
		t.Errorf("a cause that is no id: %+v", r.RootCause)
	}
}

func TestListsOfTheReport(t *testing.T) {
	r, _ := Parse(document(0, "### Top 3 Recommended Actions\n1. **Raise the limit** — Expected: no restarts — Risk: low\n2. Roll back\n"))
	want := []nightcrier.Action{{Priority: 1, Action: "Raise the limit", Outcome: "no restarts", Risk: "low"}, {Priority: 2, Action: "Roll back"}}
	if diff := cmp.Diff(want, r.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	r, _ = Parse(document(5, "### What could not be checked\n- metrics — no metrics API\n- Node logs: denied\n- time\n"))
	missing := []nightcrier.NotChecked{{What: "metrics", Why: "no metrics API"}, {What: "Node logs", Why: "denied"}, {What: "time"}}
	if diff := cmp.Diff(missing, r.NotChecked); diff != "" {
		t.Errorf("not checked (-want +got):\n%s", diff)
	}
	r, _ = Parse(document(2, "### What Changed\n- 2026-01-02T03:04:05Z — image rolled out — by ci — just before\n- a config map was edited\n"))
	changes := []nightcrier.Change{{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), What: "image rolled out", Who: "ci", Correlation: "just before"}, {What: "a config map was edited"}}
	if diff := cmp.Diff(changes, r.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestValidateNamesWhatIsMissing(t *testing.T) {
	whole := string(document(1, "said"))
	for name, c := range map[string]struct {
		md   string
		want []string
	}{
		"whole":              {whole, nil},
		"in a code block":    {"Here it is:\n\n```markdown\n" + whole + "```\n", nil},
		"after some chatter": {"I looked at it.\n\n" + whole, nil},
		"other case":         {strings.Replace(whole, headings[1], "##  1. problem statement:", 1), nil},
		"empty":              {"", append(append([]string{"title"}, headings[:]...), "FACT", "falsification")},
		"no title":           {strings.Replace(whole, Title, "", 1), []string{"title"}},
		"a heading missing":  {strings.Replace(whole, headings[6], "", 1), []string{headings[6]}},
		"another level":      {strings.Replace(whole, "## 1.", "### 1.", 1), []string{headings[1]}},
		"another name":       {strings.Replace(whole, headings[3], "## 3. Cause", 1), []string{headings[3], "falsification"}},
		"twice":              {whole + headings[1], []string{"twice"}},
		"out of order":       {swap(whole, headings[4], headings[5]), []string{"behind"}},
		"inside a block":     {strings.Replace(whole, headings[6], "```\n"+headings[6]+"\n```", 1), []string{headings[6]}},
		"no fact":            {strings.Replace(whole, "[FACT-1]", "[1]", 1), []string{"FACT"}},
		"no test":            {strings.Replace(whole, "Falsification test", "Idea", 1), []string{"falsification"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := Parse([]byte(c.md))
			got := Validate([]byte(c.md), &r)
			if len(got) != len(c.want) {
				t.Fatalf("problems %q, want %q", got, c.want)
			}
			for i, w := range c.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("problem %q does not name %q", got[i], w)
				}
			}
		})
	}
}

func swap(s, a, b string) string {
	return strings.NewReplacer(a, b, b, a).Replace(s)
}

func TestTheSkillsOwnExampleIsValid(t *testing.T) {
	skill, err := os.ReadFile("../../agent/skill/skills/sre/k8s-troubleshooter/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.Index(skill, []byte("```markdown\n"))
	md := skill[from+len("```markdown\n"):]
	md = md[:bytes.Index(md, []byte("\n```"))]
	r := Accept(md, &nightcrier.Incident{}, none)
	if !r.Valid || len(r.Problems) != 0 {
		t.Errorf("the example that agents are given: %q", r.Problems)
	}
	if r.Facts[0].Evidence[0] != "E3" || r.Facts[0].Quote != "reason: OOMKilled" || r.RootCause.Cause != "oom-killed" || r.Impact != "Single Pod" || r.Category != "Pod" {
		t.Errorf("%+v", r)
	}
}

func TestAcceptFillsInTheIncident(t *testing.T) {
	inc := &nightcrier.Incident{ID: "i", Cluster: "prod", Executor: "claude-code", Severity: nightcrier.ErrorSeverity,
		Owner: nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: "cart"}, Resource: nightcrier.Resource{Kind: "Pod", Name: "cart-1"}}
	r := Accept(document(0, "- Status: 🔴\n"), inc, none)
	if r.IncidentID != "i" || r.Cluster != "prod" || r.Severity != "P3" || r.Target.Name != "cart" || !r.Valid {
		t.Errorf("%+v", r)
	}
	if len(r.Problems) == 0 || !strings.Contains(strings.Join(r.Problems, "\n"), "severity") {
		t.Errorf("problems: %q", r.Problems)
	}
}

// hostileReports are what a model that was talked into it could write.
func hostileReports(n int) map[string]string {
	out := map[string]string{}
	for _, unit := range []string{
		"- **[FACT-1]** a — Source: ", "— ", `"`, "`", "| a ", "**", "[FACT-1]", "### H1: ", "#", "```\n", "~~~\n", "- [ ] ", "\n", "  - x\n", "H1: — ", "E1,", "FACT-1 ", "<details>", "“", " - Source: ",
	} {
		body := strings.Repeat(unit, n/len(unit))
		out[unit] = string(document(2, "- **[FACT-1]** "+body))
		out["lines of "+unit] = string(document(2, strings.Repeat(strings.Repeat(unit, 20)+"\n", n/20/len(unit))))
	}
	return out
}

// A quadratic parser would run into the tests' time limit here.
func TestHostileReportsAreBounded(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	for unit, md := range hostileReports(1 << 18) {
		r := Accept([]byte(md), &nightcrier.Incident{}, func(string) (Recorded, bool) { return Recorded{Body: []byte(md)}, true })
		Final(&r, Detail{})
		for _, f := range r.Facts {
			if len(f.Text) > maxText+8 || len(f.Quote) > maxText+8 {
				t.Errorf("%q: a field of %d bytes", unit, len(f.Text))
			}
		}
	}
}

func TestHugeReportsAreCutAloud(t *testing.T) {
	for name, md := range map[string][]byte{
		"bytes": document(1, strings.Repeat("x", 10<<20)),
		"lines": document(1, strings.Repeat("\n", maxLines)),
		"facts": document(2, strings.Repeat("x\n", maxItems)+manyFacts(maxItems+1)),
	} {
		r := Accept(md, nil, none)
		if said := strings.Join(r.Problems, "\n"); !strings.Contains(said, "not read") && !strings.Contains(said, "were read") {
			t.Errorf("%s: problems %q", name, r.Problems)
		}
	}
}

func manyFacts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- [FACT-%d] x\n", i)
	}
	return b.String()
}

func TestFinalRendersNoActiveContent(t *testing.T) {
	const evil = "<script>alert(1)</script> [x](javascript:alert(1)) \x1b[2J \u202e"
	md := document(2, "- **[FACT-1]** "+evil+" — Source: `E1` — \""+evil+"\"\n- **[INF-1]** "+evil+"\n### What Changed\n- "+evil)
	r := Accept(md, &nightcrier.Incident{FaultType: evil, Context: evil + "\n## 0. Executive Triage Card"}, none)
	r.Problems = append(r.Problems, evil)
	final := string(Final(&r, Detail{Incident: &nightcrier.Incident{FaultType: evil, Context: evil + "\n## 0. Executive Triage Card"}, Commands: []string{"`" + evil}, Excerpts: []Excerpt{{Title: evil, Text: "````\n" + evil}}}))
	final = final[:strings.Index(final, headings[6])]
	for l := range strings.SplitSeq(final, "\n") {
		inCode := strings.HasPrefix(l, "- `")
		if !inCode && (strings.Contains(l, "<script") || strings.Contains(l, "](javascript")) || strings.ContainsAny(l, "\x1b\u202e") {
			t.Errorf("final report holds %q", l)
		}
	}
	back, _ := Parse([]byte(final + headings[6] + "\nx"))
	if missing := Validate([]byte(final+headings[6]+"\nx"), &back); len(missing) != 0 {
		t.Errorf("final report is not valid: %q", missing)
	}
}

func FuzzParse(f *testing.F) {
	r := sample()
	f.Add(Render(&r, detail()))
	f.Add(Final(&r, detail()))
	for _, md := range hostileReports(200) {
		f.Add([]byte(md))
	}
	f.Fuzz(func(t *testing.T, md []byte) {
		r := Accept(md, &nightcrier.Incident{ID: "i"}, func(string) (Recorded, bool) { return Recorded{Body: md}, true })
		if r.RootCause != nil && r.Verdict != nightcrier.VerdictFault {
			t.Errorf("verdict %s with a root cause", r.Verdict)
		}
		if r.CheckedShare < 0 || r.CheckedShare > 1 {
			t.Errorf("checked share %v", r.CheckedShare)
		}
		if _, err := JSON(&r); err != nil {
			t.Error(err)
		}
		final := Final(&r, Detail{Depth: Full}) // a shorter one leaves hypotheses out
		again, _ := Parse(final)
		if len(again.Facts) != len(r.Facts) || len(again.Hypotheses) != len(r.Hypotheses) {
			t.Errorf("%d facts and %d hypotheses became %d and %d:\n%s", len(r.Facts), len(r.Hypotheses), len(again.Facts), len(again.Hypotheses), final)
		}
		if n := len(checkHeadings(scanLines(final))); n != 0 {
			t.Errorf("our own rendering has %d problems with its headings:\n%s", n, final)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	r := sample()
	md := Render(&r, detail())
	b.SetBytes(int64(len(md)))
	for b.Loop() {
		Parse(md)
	}
}

func ExampleHeadings() {
	fmt.Println(Headings()[0])
	// Output: ## 0. Executive Triage Card
}
