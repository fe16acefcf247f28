package eval

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// put writes a case file and returns the directory above it.
func put(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name, CaseFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLoad(t *testing.T) {
	dir := put(t, "deep/oom", "about: x\ntarget: Deployment/cart\nnamespace: shop\nexpect: {verdict: fault, cause: oom-killed, object: Deployment/cart}\n")
	cases, err := Load(dir)
	if err != nil || len(cases) != 1 {
		t.Fatalf("%v, %v", cases, err)
	}
	c := cases[0]
	if c.Name != "deep/oom" || c.Dir != filepath.Join(dir, "deep/oom") || c.Expect.Cause != "oom-killed" {
		t.Errorf("loaded %+v", c)
	}
	if kind, name := c.Asked(); kind != "Deployment" || name != "cart" {
		t.Errorf("asks about %s %s", kind, name)
	}
}

func TestBadCasesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"expect: {}":                                     "expect.verdict is missing",
		"expect: {verdict: broken}":                      `expect.verdict "broken" is not one of`,
		"expect: {verdict: fault}":                       "expect.cause is missing",
		"expect: {verdict: fault, cause: oom-killed}":    "expect.object is missing",
		"expect: {verdict: healthy, cause: oom-killed}":  "make no sense",
		"expect: {verdict: healthy}\ntarget: cart":       `target: "cart" is neither`,
		"expect: {verdict: healthy}\nfrom: memory":       "from",
		"expect: {verdict: healthy}\nforbidden: [a b]":   `forbidden: "b" is neither`,
		"expect: {verdict: healthy}\nverdict: healthy":   "unknown field",
		"expect: {verdict: healthy}\nnamespace: ../../x": `namespace "../../x" is no name`,
		"expect: {verdict: healthy}\nnamespace: ..":      `namespace ".." is no name`,
		"expect: [": "yaml",
		"expect: {verdict: healthy, alsoVerdicts: [ok]}": "expect.alsoVerdicts",
	} {
		dir := put(t, "bad", text)
		_, err := Load(dir)
		if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join("bad", CaseFile)) {
			t.Errorf("%q: %v, want %s and the file", text, err, want)
		}
	}
	if _, err := Load(t.TempDir()); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "holds no case") {
		t.Errorf("no cases: %v", err)
	}
	if _, err := Load(put(t, "big", strings.Repeat("#", maxCaseFile+1))); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a huge case file: %v", err)
	}
}

var cart = nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}

func fault(cause string, o nightcrier.Object, conf nightcrier.Confidence) *nightcrier.Report {
	return &nightcrier.Report{Verdict: nightcrier.VerdictFault, RootCause: &nightcrier.RootCause{Cause: cause, Object: o, Confidence: conf}}
}

func verdict(v nightcrier.Verdict) *nightcrier.Report { return &nightcrier.Report{Verdict: v} }

func TestScore(t *testing.T) {
	oom := Case{Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictFault, Cause: "oom-killed", Object: "Deployment/cart", AlsoObjects: []string{"Node/n1"}}}
	well := Case{Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictHealthy}}
	noisy := Case{Namespace: "shop", Expect: Expect{Verdict: Noise}, Forbidden: []string{"probe-failing Deployment/cart", "node-not-ready"}}
	open := Case{Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictUndetermined}}
	elsewhere := nightcrier.Object{Kind: "Deployment", Namespace: "other", Name: "cart"}
	guessed := verdict(nightcrier.VerdictHealthy)
	guessed.Hypotheses = []nightcrier.Hypothesis{{Cause: "probe-failing", Object: cart, Confidence: nightcrier.High}}
	weighed := verdict(nightcrier.VerdictHealthy)
	weighed.Hypotheses = []nightcrier.Hypothesis{{Cause: "probe-failing", Object: cart, Confidence: nightcrier.Low}}
	for _, c := range []struct {
		name string
		of   Case
		got  *nightcrier.Report
		want string
	}{
		{"right", oom, fault("oom-killed", cart, nightcrier.High), Exact},
		{"the other right object", oom, fault("oom-killed", nightcrier.Object{Kind: "Node", Name: "n1"}, nightcrier.High), Exact},
		{"right object", oom, fault("crash-on-start", cart, nightcrier.High), Object},
		{"same name elsewhere", oom, fault("oom-killed", elsewhere, nightcrier.High), Wrong},
		{"abstained", oom, verdict(nightcrier.VerdictUndetermined), Abstained},
		{"overlooked", oom, verdict(nightcrier.VerdictHealthy), Wrong},
		{"well", well, verdict(nightcrier.VerdictHealthy), Exact},
		{"well is not recovered", well, verdict(nightcrier.VerdictRecovered), Wrong},
		{"noise of what is well", well, verdict(Noise), Exact},
		{"fault where there is none", well, fault("oom-killed", cart, nightcrier.Low), FalseAlarm},
		{"noise is healthy", noisy, verdict(nightcrier.VerdictHealthy), Exact},
		{"a forbidden claim, stated", noisy, guessed, FalseAlarm},
		{"a forbidden claim, weighed", noisy, weighed, Exact},
		{"a forbidden cause of any object", noisy, fault("node-not-ready", cart, nightcrier.High), FalseAlarm},
		{"open", open, verdict(nightcrier.VerdictUndetermined), Exact},
		{"not open", open, verdict(nightcrier.VerdictHealthy), Wrong},
	} {
		if got, _ := scoreReport(c.of, c.got).Outcome(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCalibration(t *testing.T) {
	var scores []Score
	for i := range 20 { // 19 of 20 right: what high means
		scores = append(scores, Score{Confidence: nightcrier.High, Exact: i > 0})
	}
	scores = append(scores, Score{}, Score{Exact: true}) // states nothing
	if e := calibrationError(calibrate(scores)); e > 0.001 {
		t.Errorf("error %v of a calibrated set", e)
	}
	for range 20 { // medium and never right
		scores = append(scores, Score{Confidence: nightcrier.Medium})
	}
	if e := calibrationError(calibrate(scores)); math.Abs(e-0.75/2) > 0.001 {
		t.Errorf("error %v, want half of 0.75", e)
	}
}

func TestRun(t *testing.T) {
	cases := []Case{
		{Name: "a", Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictHealthy}},
		{Name: "b", Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictHealthy}},
		{Name: "c", Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictHealthy}},
		{Name: "d", Namespace: "shop", Expect: Expect{Verdict: nightcrier.VerdictFault, Cause: "x", Object: "Deployment/cart"}},
	}
	look := func(_ context.Context, c Case) (*nightcrier.Report, error) {
		switch c.Name {
		case "b":
			return nil, errors.New("no snapshot")
		case "c":
			return fault("oom-killed", cart, nightcrier.High), nil
		}
		return &nightcrier.Report{Verdict: nightcrier.VerdictHealthy, Usage: nightcrier.Usage{APIRequests: 4, DurationMS: 7}}, nil
	}
	res, err := Run(t.Context(), cases, look)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range res.Cases {
		order = append(order, s.Case)
	}
	if got := strings.Join(order, ""); got != "cbda" {
		t.Errorf("order %s, the worst are not first", got)
	}
	if s := res.Totals; s.Cases != 4 || s.Exact != 1 || s.FalseAlarms != 1 || s.Errors != 1 || s.MSP50 != 0 || s.MSP95 != 7 || s.ReadsMean != 2 {
		t.Errorf("totals %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, cases, look); nightcrier.CodeOf(err) != nightcrier.Interrupted {
		t.Errorf("interrupted: %v", err)
	}
}
