package review

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Policy is what the operator allows.
type Policy struct {
	// Max is how many findings a review has on lines, 0 for 3.
	Max int
	// Approve has a pull request approved of which all was reviewed and nothing found; RequestChanges
	// has one held back that has a blocker.
	Approve, RequestChanges bool
	// DryRun has nothing posted.
	DryRun bool
	// Instructions are the files of the base that say how the repository is worked on, and Skip
	// patterns of files that are not reviewed.
	Instructions []string
	Skip         []string
}

const (
	defaultMax = 3
	// sureEnough is how sure an agent has to be for people to be told.
	sureEnough = 0.5
	// maxListed is how many of the others are named, and maxKept how many fingerprints are kept.
	maxListed = 20
	maxKept   = 400
)

// Agent is a step that looked.
type Agent struct {
	Step string `json:"step"`
	// Summary is what it says of the whole, Failure why it delivered nothing.
	Summary string  `json:"summary,omitempty"`
	Failure string  `json:"failure,omitempty"`
	Model   string  `json:"model,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`

	findings []Finding
}

// Plan is what is posted: all of it, and nothing else.
type Plan struct {
	Review  *Review  `json:"review,omitempty"`
	Summary *Summary `json:"summary,omitempty"`
	Checks  []Check  `json:"checks"`
	// OnLines, Listed, Unsure and Repeated count the findings: those that stand on lines, that
	// the summary has, that are too unsure to be told, and that were told before.
	OnLines  int `json:"on_lines"`
	Listed   int `json:"listed"`
	Unsure   int `json:"unsure"`
	Repeated int `json:"repeated"`
}

// looked is all that a plan follows from.
type looked struct {
	about  About
	diff   Diff
	agents []Agent
	posted Posted
	policy Policy
	runID  string
}

// memory is what the summary of a pull request keeps for the next review of it.
type memory struct {
	Head   string   `json:"head"`
	Prints []string `json:"prints,omitempty"`
}

// summaryMarker begins the summary.
const summaryMarker = "<!-- nightcrier:summary -->"

var (
	memoryLine = regexp.MustCompile(`<!-- nightcrier:memory (\{[^\n<>]*\}) -->`)
	printLine  = regexp.MustCompile(`<!-- nightcrier:finding ([0-9a-f]{16}) -->`)
)

// recall reads what was told before: what stands on lines, also in threads that are resolved, and what
// the summary keeps.
func (p Posted) recall() (m memory) {
	if found := memoryLine.FindStringSubmatch(p.Summary); found != nil {
		if json.Unmarshal([]byte(found[1]), &m) != nil || !isCommit(m.Head) {
			m = memory{}
		}
	}
	for _, c := range p.Comments {
		for _, found := range printLine.FindAllStringSubmatch(c.Body, 4) {
			if !slices.Contains(m.Prints, found[1]) {
				m.Prints = append(m.Prints, found[1])
			}
		}
	}
	return m
}

var commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

func isCommit(s string) bool { return commit.MatchString(s) }

// plan decides what is posted.
func (l *looked) plan() Plan {
	before := l.posted.recall()
	var all []found
	for _, a := range l.agents {
		for _, f := range a.findings {
			p := l.diff.place(f)
			p.By = []string{a.Step}
			all = append(all, p)
		}
	}
	all = mergeFindings(all)
	var p Plan
	var onLines, listed []found
	limit := l.policy.Max
	if limit <= 0 {
		limit = defaultMax
	}
	prints := before.Prints
	for _, f := range all {
		switch {
		case slices.Contains(before.Prints, f.Print):
			p.Repeated++
			continue
		case f.Confidence < sureEnough:
			p.Unsure++
			continue
		case f.Unplaced == "" && len(onLines) < limit:
			onLines = append(onLines, f)
		default:
			listed = append(listed, f)
		}
		prints = append(prints, f.Print)
	}
	p.OnLines, p.Listed = len(onLines), len(listed)
	l.planReview(&p, onLines, slices.ContainsFunc(all, func(f found) bool { return f.Severity == Blocker && f.Confidence >= sureEnough }), len(all))
	for _, a := range l.agents {
		p.Checks = append(p.Checks, l.checkOf(a, all))
	}
	if len(onLines)+len(listed) > 0 || l.posted.Summary != "" {
		kept := memory{l.about.Head, prints[max(0, len(prints)-maxKept):]}
		body := l.summaryBody(&p, listed, kept)
		if body != l.posted.Summary {
			p.Summary = &Summary{summaryMarker, body}
		}
	}
	return p
}

// planReview is the review itself. Nothing is posted where there is nothing to say on a line, and the
// verdict is none that the operator allows.
func (l *looked) planReview(p *Plan, onLines []found, blocked bool, all int) {
	r := Review{Marker: "<!-- nightcrier:review " + l.runID + " -->", Head: l.about.Head, Verdict: Remark}
	switch {
	case blocked && l.policy.RequestChanges:
		r.Verdict = RequestChanges
	case l.policy.Approve && all == 0 && l.isWhole():
		r.Verdict = Approve
	}
	if len(onLines) == 0 && r.Verdict == Remark {
		return
	}
	switch r.Verdict {
	case Approve:
		r.Body = "All of it was reviewed, and nothing was found."
	case RequestChanges:
		r.Body = "There is something that should not be merged as it is."
	}
	r.Body = strings.TrimSpace(r.Body + "\n" + r.Marker)
	for _, f := range onLines {
		r.Comments = append(r.Comments, Comment{Path: f.Path, Side: f.Side, Line: f.Line, Start: f.Start, Body: f.commentBody()})
	}
	p.Review = &r
}

// isWhole reports whether every file was looked at whole, and by every agent.
func (l *looked) isWhole() bool {
	return l.diff.Cut == "" && l.about.HiddenLines == 0 && l.about.Since == "" && len(l.agents) > 0 &&
		!slices.ContainsFunc(l.agents, func(a Agent) bool { return a.Failure != "" }) &&
		!slices.ContainsFunc(l.about.Files, func(f ShownFile) bool { return f.LeftOut != "" || f.Cut != "" })
}

// checkOf is what one agent found, on all lines that it names.
func (l *looked) checkOf(a Agent, all []found) Check {
	c := Check{Name: "nightcrier / " + a.Step, ExternalID: "nightcrier:" + l.runID + ":" + a.Step, Head: l.about.Head, Conclusion: Success, Title: "Nothing was found"}
	if a.Failure != "" {
		c.Conclusion, c.Title = Failure, "It could not look"
		c.Summary = inertLine(a.Failure)
		return c
	}
	n := 0
	for _, f := range all {
		if !slices.Contains(f.By, a.Step) {
			continue
		}
		n++
		if f.Unplaced == "" && f.Side == Right && len(c.Annotations) < maxFindings {
			level := map[Severity]string{Blocker: "failure", Warning: "warning", Suggestion: "notice"}[f.Severity]
			c.Annotations = append(c.Annotations, Annotation{Path: f.Path, Start: max(f.Start, 0), End: f.Line, Level: level, Title: f.Title, Message: f.Body})
			if at := &c.Annotations[len(c.Annotations)-1]; at.Start == 0 {
				at.Start = at.End
			}
		}
	}
	if n > 0 {
		c.Conclusion, c.Title = Neutral, fmt.Sprintf("%d found", n)
	}
	c.Summary = paragraphs(inert(a.Summary), l.leftOutText(), l.footer())
	return c
}
