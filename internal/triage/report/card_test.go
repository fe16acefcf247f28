package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
)

func TestCard(t *testing.T) {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	cluster := nightcrier.Object{Kind: "Cluster", Name: "prod-1"}
	command := "kubectl get pod cart-1 -n shop -o yaml"
	hypothesis := func(o nightcrier.Object, outcome string) []nightcrier.Hypothesis {
		return []nightcrier.Hypothesis{{ID: "H1", Object: o, Statement: "it ends", Falsification: nightcrier.Falsification{Command: command, Outcome: outcome}}}
	}
	for name, c := range map[string]struct {
		report nightcrier.Report
		want   Card
	}{
		"a fault with a cause": {
			nightcrier.Report{Verdict: nightcrier.VerdictFault, Severity: "P2", Impact: "Namespace", Cluster: "prod-1", Target: cluster,
				RootCause:    &nightcrier.RootCause{Cause: "oom-killed", Object: cart, Summary: "cart is killed", Confidence: nightcrier.High},
				Hypotheses:   hypothesis(cart, holds),
				Facts:        []nightcrier.Fact{{Check: nightcrier.Verified}, {Check: nightcrier.Unseen}, {Check: nightcrier.Seen}},
				Consequences: []nightcrier.Consequence{{}, {}},
				Actions:      []nightcrier.Action{{Action: "raise it: `kubectl edit deployment cart -n shop`", Outcome: "it stays up", Risk: "low"}, {Action: "else"}},
				NotChecked:   []nightcrier.NotChecked{{What: "cronjobs, poddisruptionbudgets"}, {What: "logs of cart-1", Why: "denied"}, {What: "nodes"}}},
			Card{Status: Status{"Active incident", Alarm}, Severity: "P2", Impact: "Namespace", Cluster: "prod-1", Target: cluster, Mend: cart,
				Cause: "cart is killed", CauseID: "oom-killed", Confidence: nightcrier.High, Test: Test{Command: command, Says: "holds"}, Facts: 3, Checked: 2, Follows: 2,
				First:      Step{Action: "raise it: `kubectl edit deployment cart -n shop`", Command: "kubectl edit deployment cart -n shop", Outcome: "it stays up", Risk: "low", Effect: Changes},
				NotChecked: 3, Worst: nightcrier.NotChecked{What: "logs of cart-1", Why: "denied"}},
		},
		"a fault that its own test refutes": {
			nightcrier.Report{Verdict: nightcrier.VerdictFault, Severity: "P3", RootCause: &nightcrier.RootCause{Object: cart, Summary: "it ends"}, Hypotheses: hypothesis(cart, ruledOut)},
			Card{Status: Status{"Degraded", Warn}, Severity: "P3", Mend: cart, Cause: "it ends", Test: Test{command, "speaks against it", true}},
		},
		"nothing but the event": {
			nightcrier.Report{Verdict: nightcrier.VerdictUndetermined, Severity: "P1", Hypotheses: hypothesis(cart, notRun),
				NotChecked: []nightcrier.NotChecked{{What: "logs", Why: "x"}, {What: nightcrier.TheCluster, Why: "no credential"}}},
			Card{Status: Status{"Undetermined", Warn}, Severity: "P1", Cause: "undetermined; the first to test is: it ends", Test: Test{Command: command, Says: "was not run"},
				Unseen: "no credential", NotChecked: 2, Worst: nightcrier.NotChecked{What: nightcrier.TheCluster, Why: "no credential"}},
		},
		"nothing known": {
			nightcrier.Report{Verdict: nightcrier.VerdictUndetermined},
			Card{Status: Status{"Undetermined", Warn}, Cause: "Undetermined: the evidence does not carry a cause."},
		},
		"a cluster is named by no command": {
			nightcrier.Report{Verdict: nightcrier.VerdictUndetermined, Hypotheses: hypothesis(cluster, notRun)},
			Card{Status: Status{"Undetermined", Warn}, Cause: "undetermined; the first to test is: it ends"},
		},
		"healthy, whatever was weighed": {
			nightcrier.Report{Verdict: nightcrier.VerdictHealthy, Severity: "P1", Hypotheses: hypothesis(cart, holds)},
			Card{Status: Status{"Healthy", Calm}, Severity: "P1", Cause: "None: all that was looked at is healthy, and nothing shows that it was not."},
		},
		"recovered": {
			nightcrier.Report{Verdict: nightcrier.VerdictRecovered},
			Card{Status: Status{"Recovered", Calm}, Cause: "None is active: what failed has recovered."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, NewCard(&c.report)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMarkdownSaysWhatItRestsOn(t *testing.T) {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	r := nightcrier.Report{Verdict: nightcrier.VerdictFault, Target: nightcrier.Object{Kind: "Namespace", Name: "shop"},
		RootCause: &nightcrier.RootCause{Object: cart, Summary: "it ends"}, NotChecked: []nightcrier.NotChecked{{What: nightcrier.TheCluster, Why: "no <credential>."}}}
	for _, md := range []string{string(Render(&r, Detail{})), string(Final(&r, Detail{}))} {
		head, _, _ := strings.Cut(md, headings[1])
		for _, want := range []string{"\n\n**No cluster was looked at:** no &lt;credential>.\n\n## 0.", "- **Object to Mend:** Deployment shop/cart\n"} {
			if !strings.Contains(head, want) {
				t.Errorf("%q is missing in\n%s", want, head)
			}
		}
	}
	r.Target, r.NotChecked = cart, nil
	if md := string(Render(&r, Detail{})); strings.Contains(md, "No cluster") || strings.Contains(md, "Object to Mend") {
		t.Errorf("said of a report that looked, at what is to be mended:\n%s", md)
	}
}
