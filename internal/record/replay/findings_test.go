package replay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// ofCart is what was found out of a cart that has too little memory.
func ofCart() *nightcrier.Report {
	at := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	return &nightcrier.Report{
		CreatedAt: time.Unix(1, 0), Source: "agent", Valid: true, Verdict: nightcrier.VerdictFault, Impact: "nobody can pay",
		RootCause: &nightcrier.RootCause{Cause: "oom", Object: at, Summary: "it has too little memory", Confidence: nightcrier.High},
		Hypotheses: []nightcrier.Hypothesis{
			{ID: "H1", Cause: "oom", Object: at, Statement: "too little", Falsification: nightcrier.Falsification{Outcome: "holds"}},
			{ID: "H2", Cause: "probe", Object: at, Falsification: nightcrier.Falsification{Outcome: "ruled-out"}},
		},
		Facts: []nightcrier.Fact{
			{ID: "F1", Text: "the container was killed at 2026-11-26T03:04:05Z (E3)", Evidence: []string{"E3"}, Check: nightcrier.Verified},
			{ID: "F2", Text: "its limit is", Quote: "64Mi", Check: nightcrier.Seen},
		},
	}
}

// What an engineer would act on is compared, and nothing else.
func TestFindingsAreCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*nightcrier.Report)
		want   []string
	}{
		"another verdict":       {func(r *nightcrier.Report) { r.Verdict = nightcrier.VerdictRecovered }, []string{"verdict"}},
		"another cause":         {func(r *nightcrier.Report) { r.RootCause.Cause = "probe" }, []string{"root cause"}},
		"another object":        {func(r *nightcrier.Report) { r.RootCause.Object.Name = "till" }, []string{"object"}},
		"no cause":              {func(r *nightcrier.Report) { r.RootCause = nil }, []string{"root cause", "object"}},
		"another fact":          {func(r *nightcrier.Report) { r.Facts[1].Quote = "128Mi" }, []string{"fact: its limit is (128Mi)", "fact: its limit is (64Mi)"}},
		"a fact less":           {func(r *nightcrier.Report) { r.Facts = r.Facts[:1] }, []string{"fact: its limit is (64Mi)"}},
		"a fact that is unseen": {func(r *nightcrier.Report) { r.Facts[1].Check = nightcrier.Unseen }, []string{"fact: its limit is (64Mi)"}},
		"another outcome":       {func(r *nightcrier.Report) { r.Hypotheses[0].Falsification.Outcome = "ruled-out" }, []string{"explanation: oom Deployment shop/cart"}},
		"not valid":             {func(r *nightcrier.Report) { r.Valid = false }, []string{"valid"}},
		"ours":                  {func(r *nightcrier.Report) { r.Source = "builtin" }, []string{"report of"}},
		"another time":          {func(r *nightcrier.Report) { r.CreatedAt, r.Usage.DurationMS = time.Unix(9, 0), 7 }, nil},
		"a time in a fact": {func(r *nightcrier.Report) {
			r.Facts[0].Text = "the container was killed at 2027-01-02 13:04:05.6+02:00  (E30)"
		}, nil},
		"other ids": {func(r *nightcrier.Report) {
			r.IncidentID, r.Facts[0].ID, r.Facts[0].Evidence, r.Hypotheses[0].ID, r.AuditHead = "x", "F9", []string{"E7"}, "H9", "y"
		}, nil},
		"another order": {func(r *nightcrier.Report) { slices.Reverse(r.Facts); slices.Reverse(r.Hypotheses) }, nil},
		"other words": {func(r *nightcrier.Report) {
			r.Impact, r.RootCause.Summary, r.Hypotheses[0].Statement = "paying fails", "memory is short", "short"
			r.Actions = append(r.Actions, nightcrier.Action{Action: "give it more"})
		}, nil},
	} {
		now := ofCart()
		tt.change(now)
		var got []string
		for _, d := range Findings(ofCart(), now) {
			got = append(got, d.Where)
			if d.Then == d.Now {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Questions are compared wherever they stand: in our own steps, an agent's, and in the audit
// of its guard. When, how often and in which order is no difference.
func TestQuestionsAreCompared(t *testing.T) {
	ask := func(step string, names ...string) map[string]string {
		packed := tapeOf(t, asIs, func(r *Recorder) {
			for _, n := range names {
				keep(t, r, n, "{}")
			}
		})
		return map[string]string{File(step): string(packed)}
	}
	pod, list := Name("get", "v1", "Pod", "shop", "cart-1"), Name("list", "Pod", "shop", "", "", 500)
	_, then, err := newWorkspace(t, ask(Prepare, pod, list, Now, Sources, Name("metrics", "up", 100, 200, "15s")))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		asked          []string
		added, dropped string
	}{
		"the same, later, in another order, twice": {[]string{Name("metrics", "up", 300, 400, "15s"), list, pod, pod, Reader}, "", ""},
		"one more":    {[]string{pod, list, Name("metrics", "up", 1, 2, "15s"), Name("logs", "shop", "cart-1", "app", false, 200, 0)}, "logs shop cart-1 app false 200 0", ""},
		"one less":    {[]string{pod, Name("metrics", "up", 1, 2, "15s")}, "", "list Pod shop 500"},
		"another one": {[]string{pod, list, Name("metrics", "down", 1, 2, "15s")}, "metrics down", "metrics up"},
	} {
		_, now, err := newWorkspace(t, ask(Prepare, tt.asked...))
		if err != nil {
			t.Fatal(err)
		}
		added, dropped, _ := Questions(then, now)
		if strings.Join(added, "; ") != tt.added || strings.Join(dropped, "; ") != tt.dropped {
			t.Errorf("%s: added %q, dropped %q", name, added, dropped)
		}
	}
}
