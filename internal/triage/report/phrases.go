package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

// The statuses of the triage card.
const (
	statusActive   = "🔴 Active Incident"
	statusDegraded = "🟡 Degraded"
	statusResolved = "🟢 Resolved"
)

func statusLine(r *nightcrier.Report) string {
	switch {
	case r.Verdict == nightcrier.VerdictRecovered || r.Verdict == nightcrier.VerdictHealthy:
		return statusResolved
	case r.Severity == "P1" || r.Severity == "P2":
		return statusActive
	}
	return statusDegraded
}

func isOver(r *nightcrier.Report) bool { return statusLine(r) == statusResolved }

// describeDuration says how long the incident lasted or lasts, "" when that is not known:
// of what a person asked about only the question has a time.
func describeDuration(d Detail) string {
	inc := d.Incident
	if inc == nil || inc.FaultType == nightcrier.Asked {
		return ""
	}
	from, to := inc.Timestamp, inc.CompletedAt
	if from.IsZero() {
		from = inc.CreatedAt
	}
	if to.IsZero() {
		to = d.Now
	}
	if from.IsZero() || to.Before(from) {
		return ""
	}
	return to.Sub(from).Round(time.Second).String()
}

func primaryHypothesis(r *nightcrier.Report) string {
	if rc := r.RootCause; rc != nil {
		s := withConfidence(rc.Summary, rc.Confidence)
		if len(r.Hypotheses) > 0 && r.Hypotheses[0].Falsification.Outcome == ruledOut {
			s = "**ruled out by its own test:** " + s
		}
		return s
	}
	if len(r.Hypotheses) > 0 && !isOver(r) {
		return "undetermined; the first to test is " + withConfidence(r.Hypotheses[0].Statement, nightcrier.Low)
	}
	return markdown.EscapeLine(noCause(r))
}

func withConfidence(s string, c nightcrier.Confidence) string {
	s = markdown.EscapeLine(s)
	if c != "" {
		s += " — Confidence: " + upperFirst(string(c))
	}
	return s
}

func noCause(r *nightcrier.Report) string {
	switch r.Verdict {
	case nightcrier.VerdictHealthy:
		return "None: all that was looked at is healthy, and nothing shows that it was not."
	case nightcrier.VerdictRecovered:
		if r.Source == "builtin" && len(r.Hypotheses) > 0 {
			return "None is active: " + r.Hypotheses[0].Statement
		}
		return "None is active: what failed has recovered."
	}
	return "Undetermined: the evidence does not carry a cause."
}

// firstStep is the first of the recommended actions and what it should bring.
func firstStep(r *nightcrier.Report) string {
	if len(r.Actions) == 0 {
		return ""
	}
	s := markdown.EscapeLine(r.Actions[0].Action)
	if outcome := markdown.EscapeLine(r.Actions[0].Outcome); outcome != "" {
		s += " — expected: " + outcome
	}
	return s
}

// weakestAssumption is what the conclusion leans on most.
func weakestAssumption(r *nightcrier.Report) string {
	for _, c := range []nightcrier.Confidence{nightcrier.Low, nightcrier.Medium, nightcrier.High} {
		for _, i := range r.Inferences {
			if i.Confidence == c && i.WrongIf != "" {
				return "that " + markdown.EscapeLine(i.ID) + " holds (" + strings.TrimSuffix(markdown.EscapeLine(i.Text), ".") + "); wrong if " + markdown.EscapeLine(i.WrongIf)
			}
		}
	}
	return "that nothing outside of what was read (see section 5) plays a part"
}

func escalationTriggers(r *nightcrier.Report) []string {
	if isOver(r) {
		return nil
	}
	return []string{"the first step does not show its expected outcome within 15 minutes", "another workload or namespace shows the same symptom"}
}

func noAlternative(source string) string {
	if source == "builtin" {
		return "none: no other built-in rule matches what was seen"
	}
	return "none is named"
}

func listAlternatives(r *nightcrier.Report) []string {
	var out []string
	for i, h := range r.Hypotheses {
		if i == 0 {
			continue
		}
		s := markdown.EscapeLine(h.ID) + ": " + markdown.EscapeLine(h.Statement)
		if h.Falsification.Outcome == ruledOut {
			s += " — ruled out by its test"
		}
		if len(h.Against) > 0 {
			s += " — against it: " + strings.Join(h.Against, ", ")
		}
		out = append(out, s)
	}
	return out
}

func exitCriteria(r *nightcrier.Report) []string {
	if isOver(r) {
		return []string{"the fault is not reported again for another 15 minutes"}
	}
	object := orUnknown(markdown.EscapeLine(r.Target.String()))
	first := object + " reports ready"
	switch r.Target.Kind {
	case "Job", "CronJob":
		first = "the next run of " + object + " completes"
	case "Namespace", "Cluster":
		first = "every workload in " + object + " reports ready"
	case "Service", "Ingress":
		first = object + " answers, with ready endpoints behind it"
	case "PersistentVolumeClaim":
		first = object + " is bound"
	case "HorizontalPodAutoscaler":
		first = object + " reports ScalingActive"
	}
	return []string{first, "the symptom does not return for 15 minutes"}
}

// blastRadius tells how much is affected; the impact has its own line, and what
// the credential could do is a sentence already.
func blastRadius(m map[string]any) string {
	var out []string
	pods, counted := m["pods"]
	notReady, has := m["notReadyPods"]
	switch counted = counted && has; {
	case counted && fmt.Sprint(pods) == "0":
		out = append(out, "no Pods of its own")
	case counted:
		out = append(out, markdown.EscapeLine(fmt.Sprintf("%v of %v Pods not ready", notReady, pods)))
	}
	for _, k := range sortedKeys(m) {
		if k == "impact" || k == "credentialRisks" || counted && (k == "pods" || k == "notReadyPods") {
			continue
		}
		out = append(out, markdown.EscapeLine(fmt.Sprintf("%s: %v", k, m[k])))
	}
	return strings.Join(out, "; ")
}

func userImpact(r *nightcrier.Report) string {
	if isOver(r) {
		return "none now"
	}
	return "not measured"
}

func listInferences(r *nightcrier.Report) []string {
	var out []string
	for _, i := range r.Inferences {
		s := fmt.Sprintf("**[%s]** %s", markdown.EscapeLine(i.ID), withConfidence(i.Text, i.Confidence))
		if len(i.BasedOn) > 0 {
			s += "\n  - Based on: " + strings.Join(i.BasedOn, ", ")
		}
		if i.WrongIf != "" {
			s += "\n  - Wrong if: " + markdown.EscapeLine(i.WrongIf)
		}
		out = append(out, s)
	}
	return out
}

func notChecked(r *nightcrier.Report) []string {
	var out []string
	for _, n := range r.NotChecked {
		out = append(out, markdown.EscapeLine(n.What)+" — "+markdown.EscapeLine(n.Why))
	}
	return out
}

func listUnknowns(r *nightcrier.Report) []string {
	var out []string
	for _, n := range r.NotChecked {
		out = append(out, "what "+texts.CutBytes(markdown.EscapeLine(n.What), maxUnknown)+" would have shown")
	}
	for _, f := range r.Facts {
		if f.Check == nightcrier.Unseen {
			out = append(out, "whether "+markdown.EscapeLine(f.ID)+" holds: no recorded evidence shows it")
		}
	}
	if more := len(out) - maxUnknowns; more > 0 {
		out = append(out[:maxUnknowns], fmt.Sprintf("and %d more", more))
	}
	return out
}

func fixForward(r *nightcrier.Report) []string {
	if r.RootCause == nil {
		return nil
	}
	object := orUnknown(markdown.EscapeLine(r.RootCause.Object.String()))
	owner := " — owner: the team that owns " + object
	if r.RootCause.Object.Kind == "Node" {
		return []string{"find out what took " + object + " down before it takes work again" + owner}
	}
	return []string{"put what helped into the manifests that " + object + " is delivered from, or the next rollout undoes it" + owner}
}

// listInputs lists the evidence that facts cite, once each.
func listInputs(r *nightcrier.Report) []string {
	var out []string
	for _, f := range r.Facts {
		if s := sourceOf(f); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// The outcomes of a falsification test.
const (
	holds    = "holds"
	ruledOut = "ruled-out"
	// notRun is also the outcome of a test that decided nothing, and of every test
	// until we have run it: what an agent says of it counts for nothing.
	notRun = "not-run"
)

// describeOutcome tells what came of a falsification test.
func describeOutcome(f nightcrier.Falsification) string {
	s := "not run yet"
	switch {
	case f.Outcome == holds:
		s = "✓ holds"
	case f.Outcome == ruledOut:
		s = "✗ ruled out"
	case f.Evidence != "":
		s = "run, and not decided"
	case f.Why != "":
		s = "not run"
	}
	if f.Why != "" {
		s += ": " + markdown.EscapeLine(f.Why)
	}
	if f.Evidence != "" {
		s += " (" + markdown.QuoteCode(f.Evidence) + ")"
	}
	return s
}

// describeCost says what an agent cost, to the digit that the budget counts in.
func describeCost(u nightcrier.Usage) string {
	said := fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
	if u.CostUSD == 0 {
		return said + "; in dollars it is not known: the model has no price"
	}
	usd := strings.TrimRight(strconv.FormatFloat(u.CostUSD, 'f', 9, 64), "0")
	whole, places, _ := strings.Cut(usd, ".")
	return fmt.Sprintf("$%s.%s: %s", whole, places+"00"[min(len(places), 2):], said)
}

func noSandbox(source string) string {
	if source == "builtin" {
		return "no agent was started, so no sandbox was needed"
	}
	return "it was not recorded which layers held"
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func orUnknown(s string) string { return orOther(s, "unknown") }

func orNone(s string) string { return orOther(s, "none") }

func orDash(s string) string { return orOther(s, "-") }

func orOther(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
