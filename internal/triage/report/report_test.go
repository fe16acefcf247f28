package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"

	"nightcrier.dev/nightcrier"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var day = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sample is a report that uses every field.
func sample() nightcrier.Report {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	return nightcrier.Report{
		Schema: nightcrier.ReportSchema, IncidentID: "0191c1e2-7b3a-7c11-9a9b-0123456789ab", Cluster: "prod-1", Source: "agent", Executor: "claude-code", Valid: true,
		Target: cart, Verdict: nightcrier.VerdictFault, Severity: "P2", Category: "Pod", Impact: "Single Pod",
		RootCause: &nightcrier.RootCause{Cause: "oom-killed", Object: cart, Summary: "cart needs more than its 64Mi", Confidence: nightcrier.High},
		Hypotheses: []nightcrier.Hypothesis{
			{ID: "H1", Cause: "oom-killed", Object: cart, Statement: "the container exceeds its memory limit", Confidence: nightcrier.High,
				For: []string{"FACT-1", "FACT-2"}, Against: []string{},
				Falsification: nightcrier.Falsification{Command: "kubectl get pod cart-7d4b-x2x7q -n shop -o json", IfTrue: "OOMKilled", IfFalse: "another reason", Outcome: "not-run"}},
			{ID: "H2", Object: cart, Statement: "a liveness probe kills it", Confidence: nightcrier.Low, For: []string{}, Against: []string{"FACT-1"},
				Falsification: nightcrier.Falsification{Command: "kubectl describe pod cart-7d4b-x2x7q -n shop", IfTrue: "probe failures", IfFalse: "none", Outcome: "not-run"}},
		},
		Facts: []nightcrier.Fact{
			{ID: "FACT-1", Text: "container app of pod cart-7d4b-x2x7q was killed", Source: "kubectl get pod cart-7d4b-x2x7q -o json", Quote: "reason: OOMKilled", Evidence: []string{"E1", "E3"}, Check: nightcrier.Unseen},
			{ID: "FACT-2", Text: "its memory limit is 64Mi — less than the data <set>", Quote: "memory: 64Mi", Evidence: []string{"E1"}, Check: nightcrier.Unseen},
			{ID: "FACT-3", Text: "a log line says [click](javascript:alert(1))", Evidence: []string{}, Check: nightcrier.Unseen},
		},
		Inferences: []nightcrier.Inference{{ID: "INF-1", Text: "the limit is too small", BasedOn: []string{"FACT-1", "FACT-2"}, Confidence: nightcrier.Medium, WrongIf: "memory stays flat after a restart"}},
		Scope: nightcrier.Scope{Affected: []nightcrier.Object{cart}, Suspected: []nightcrier.Object{{Kind: "Ingress", Namespace: "shop", Name: "front"}},
			Unaffected: []nightcrier.Object{{Kind: "Deployment", Namespace: "shop", Name: "pay"}, {Kind: "Node", Name: "worker-1"}}},
		Changes: []nightcrier.Change{{At: day, What: "image v1.4 rolled out", Who: "ci", Correlation: "2 minutes before the first restart",
			Details: []string{"image: shop/cart:v1.3 → shop/cart:v1.4", "memory limit: 128Mi → 64Mi"}, Evidence: []string{"E2"}}},
		Actions: []nightcrier.Action{
			{Priority: 1, Action: "raise the limit to 256Mi", Outcome: "no restarts | stable", Risk: "low"},
			{Priority: 2, Action: "roll back to v1.3", Outcome: "no restarts", Risk: "loses a feature"},
		},
		NotChecked:  []nightcrier.NotChecked{{What: "metrics", Why: "no metrics API"}},
		BlastRadius: map[string]any{"summary": "one of three replicas"},
	}
}

// ours adds to a report what no agent writes: outcomes of tests, an earlier
// incident, runbooks.
func ours(r nightcrier.Report) nightcrier.Report {
	h1, h2 := &r.Hypotheses[0].Falsification, &r.Hypotheses[1].Falsification
	h1.Outcome, h1.Evidence, h1.Why = "holds", "E14", "`OOMKilled` stands in the answer"
	h1.Shown = "reason: OOMKilled\nexitCode: 137"
	h2.Outcome, h2.Why = "not-run", "run after 5 others"
	r.Recalled = &nightcrier.Recalled{IncidentID: "0191aaaa-7b3a-7c11-9a9b-0123456789ab", At: day.Add(-48 * time.Hour), Summary: "cart needs more than its 64Mi",
		Holds: true, Why: "the same rule found the same", Notes: []nightcrier.Note{{At: day.Add(-47 * time.Hour), By: "ana", Text: "raised by hand; the chart still says 64Mi"}}}
	r.Runbooks = []nightcrier.Runbook{
		{Title: "Cart out of memory", Source: "cart-oom.md", Text: "# Cart\n\n1. look at the heap\n```\ncode\n```"},
		{Title: "KubePodCrashLooping", Source: "https://runbooks.example.com/x", Problem: "its host is not in runbooks.allowed_hosts"},
	}
	r.Consequences = []nightcrier.Consequence{{Cause: "service-no-endpoints", Object: nightcrier.Object{Kind: "Service", Namespace: "shop", Name: "cart"},
		Statement: "Service shop/cart has no endpoint", Because: r.Target}}
	return r
}

func detail() Detail {
	return Detail{
		Incident: &nightcrier.Incident{
			Timestamp: day, CreatedAt: day.Add(time.Second), StartedAt: day.Add(2 * time.Second), CompletedAt: day.Add(time.Minute), FaultType: "CrashLoop",
			Resource: nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-7d4b-x2x7q"}, Context: "back-off\nrestarting", EventCount: 3, LastEventAt: day,
		},
		Commands: []string{"get pods -n shop"},
		Excerpts: []Excerpt{{Title: "log <of> app", Text: "boom\n```\n## 1. Problem Statement\n</details>"}},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); run go test -update if that is meant:\n%s", name, diff)
	}
}

func TestGolden(t *testing.T) {
	r := sample()
	golden(t, "full.md", Render(&r, detail()))
	golden(t, "bare.md", Render(&nightcrier.Report{Source: "builtin", Verdict: nightcrier.VerdictUndetermined}, Detail{}))
	r.Facts[0].Check, r.Facts[1].Check = nightcrier.Verified, nightcrier.Seen
	r.Problems, r.AuditHead = []string{"no impact in section 0"}, strings.Repeat("3f9a", 16)
	r = ours(r)
	golden(t, "final.md", Final(&r, detail()))
	r.Severity = "P4"
	golden(t, "minimal.md", Render(&r, detail()))
}

// Somebody who was just woken reads so far: what is broken, why, how sure that
// is, and what to do first; nothing is said twice on the way.
func TestTheTopAnswersWhatMatters(t *testing.T) {
	r := sample()
	lines := strings.Split(string(Final(&r, detail())), "\n")
	top := strings.Join(lines[:15], "\n")
	for _, want := range []string{"prod-1", "Deployment shop/cart", r.RootCause.Summary + " — Confidence: High", r.Actions[0].Action, "0 of 3 facts", "P2"} {
		if n := strings.Count(top, want); n == 0 {
			t.Errorf("the first lines do not say %q:\n%s", want, top)
		}
	}
	if n := strings.Count(top, r.RootCause.Summary); n != 1 {
		t.Errorf("the hypothesis is told %d times at the top:\n%s", n, top)
	}
}

// That a fault is over stands above everything else, once, also when it came to
// be known later.
func TestOver(t *testing.T) {
	r, d := sample(), detail()
	before := Final(&r, d)
	d.Incident.Condition, d.Incident.ClearedAt = nightcrier.ConditionCleared, day.Add(time.Hour)
	want := "**The fault was over at " + d.Incident.ClearedAt.Format("2006-01-02 15:04:05 UTC") + ".**"
	for name, md := range map[string][]byte{"written then": Final(&r, d), "known later": MarkOver(before, d.Incident), "marked twice": MarkOver(Final(&r, d), d.Incident)} {
		if lines := strings.Split(string(md), "\n"); lines[2] != want || strings.Count(string(md), "was over at") != 1 {
			t.Errorf("%s begins with\n%s", name, strings.Join(lines[:5], "\n"))
		}
	}
	if strings.Contains(string(before), "was over at") || string(MarkOver([]byte("another text"), d.Incident)) != "another text" || MarkOver(before, nil) == nil {
		t.Error("a fault that is there is marked as over")
	}
}

func TestAHypothesisIsToldOnceInTheAnalysis(t *testing.T) {
	r := sample()
	r.RootCause.Summary = r.Hypotheses[0].Statement
	_, analysis, _ := strings.Cut(string(Render(&r, detail())), headings[3])
	if n := strings.Count(analysis, r.RootCause.Summary); n != 1 {
		t.Errorf("told %d times:\n%s", n, analysis)
	}
}

func TestBlastRadius(t *testing.T) {
	for _, tt := range []struct {
		give map[string]any
		want string
	}{
		{map[string]any{"pods": 3, "notReadyPods": 1, "impact": "Single Pod"}, "1 of 3 Pods not ready"},
		{map[string]any{"pods": 0, "notReadyPods": 0.0}, "no Pods of its own"},
		{map[string]any{"pods": 3, "namespaces": "shop"}, "namespaces: shop; pods: 3"},
		{map[string]any{"summary": "one of three"}, "summary: one of three"},
		{nil, ""},
	} {
		if got := blastRadius(tt.give); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.give, got, tt.want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	want := sample()
	got, problems := Parse(Render(&want, detail()))
	if len(problems) != 0 {
		t.Errorf("problems: %q", problems)
	}
	ignored := cmpopts.IgnoreFields(nightcrier.Report{}, "IncidentID", "Cluster", "Executor", "Valid", "Problems")
	want.BlastRadius = map[string]any{"summary": "summary: one of three replicas"}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if missing := Validate(Render(&want, detail()), &got); len(missing) != 0 {
		t.Errorf("invalid: %q", missing)
	}
}

func TestEveryDepthIsValid(t *testing.T) {
	r := sample()
	for _, d := range []Depth{Full, Concise, Minimal} {
		md := Render(&r, Detail{Depth: d})
		got, _ := Parse(md)
		if missing := Validate(md, &got); len(missing) != 0 {
			t.Errorf("depth %d: %q", d, missing)
		}
	}
}

func TestNoSectionIsEmpty(t *testing.T) {
	for name, r := range map[string]nightcrier.Report{"sample": sample(), "nothing known": {}} {
		for _, d := range []Depth{Full, Concise, Minimal} {
			for n, s := range outlineSections(scanLines(Render(&r, Detail{Depth: d}))) {
				for _, b := range s {
					if said := strings.TrimSpace(joined(b.lines)); said == "" && b.title != "" || len(s) == 1 && said == "" {
						t.Errorf("%s, depth %d: %q of section %d is empty", name, d, b.title, n)
					}
				}
			}
		}
	}
}

func joined(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// TestSchema holds reports to the schema that is published.
func TestSchema(t *testing.T) {
	published, err := os.ReadFile("../../../docs/report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc jsonschema.Schema
	if err := json.Unmarshal(published, &doc); err != nil {
		t.Fatal(err)
	}
	s, err := doc.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(data []byte) error {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	full := sample()
	full.LookAgainAt = time.Date(2026, 3, 1, 3, 15, 0, 0, time.UTC)
	empty := nightcrier.Report{Source: "builtin", Verdict: nightcrier.VerdictUndetermined}
	accepted := Accept(Render(&full, detail()), detail().Incident, none)
	for name, r := range map[string]nightcrier.Report{"full": full, "ours": ours(sample()), "empty": empty, "accepted": accepted, "rubbish": Accept([]byte("hello"), nil, none)} {
		data, err := JSON(&r)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{`{}`, `{"schema":"nightcrier.report/v1","verdict":"maybe"}`} {
		if validate([]byte(bad)) == nil {
			t.Errorf("the schema accepts %s", bad)
		}
	}
}

func TestTheDocumentNamesTheHeadings(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range append(Headings(), Title) {
		if !bytes.Contains(doc, []byte("`"+h+"`")) {
			t.Errorf("docs/report.md does not name %q", h)
		}
	}
}

func TestJSONHasNoNulls(t *testing.T) {
	r := nightcrier.Report{Hypotheses: []nightcrier.Hypothesis{{}}, Facts: []nightcrier.Fact{{}}, Inferences: []nightcrier.Inference{{}}}
	data, err := JSON(&r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "rootCause")
	rest, _ := json.Marshal(m)
	if bytes.Contains(rest, []byte("null")) {
		t.Errorf("%s", rest)
	}
	if r.Facts[0].Evidence != nil {
		t.Error("JSON changed its argument")
	}
}

func none(string) (Recorded, bool) { return Recorded{}, false }
