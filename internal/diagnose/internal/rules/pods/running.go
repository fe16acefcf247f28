package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var runningRules = scene.Area{Name: "running", Rules: []scene.Rule{complainsWhileReady, logsErrors}, Causes: runningCauses}

var runningCauses = []scene.Cause{
	{ID: "errors-in-log", Category: "Pod", Meaning: "a container runs and counts as ready, and its log is full of errors", Rank: scene.RankFollows + 5, Symptom: true},
}

// runningLogPatterns are what the log of a container may tell that runs: the rest of what
// logs tell is why a program does not start.
var runningLogPatterns = slices.Concat(
	certificateLogPatterns,
	storeLogPatterns,
	exhaustionLogPatterns,
	memoryLogPatterns,
	dependencyLogPatterns,
	withCauses(environmentLogPatterns, "heap-exhausted", "rbac-denied"),
	withCauses(filesystemLogPatterns, "disk-full", "read-only-filesystem", "permission-denied"),
	protocolLogPatterns,
)

func withCauses(all []logPattern, causes ...string) (out []logPattern) {
	for _, p := range all {
		if slices.Contains(causes, p.cause) {
			out = append(out, p)
		}
	}
	return out
}

// overAfter is how many times as long as complaints are apart until they count as over.
const overAfter = 4

// complaint is what a log says again and again of one cause.
type complaint struct {
	logMatch
	often int // attempts that failed, as far as they can be told apart
	total int // lines of the log that was looked at
	first time.Time
	last  time.Time // zero if the lines have no times
	line  int       // of the last
}

// complainsWhileReady finds containers that run and keep failing at what they do: something
// that they need cannot be reached, or they have run out of something.
func complainsWhileReady(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range runningContainers(f) {
		l, ok := currentLog(f, c)
		if !ok {
			continue
		}
		t, ok := worstComplaint(f, l)
		if !ok {
			continue
		}
		out = append(out, judgeComplaint(f, c, t)...)
	}
	slices.SortStableFunc(out, func(a, b scene.Finding) int { return cmp.Compare(b.Weight, a.Weight) })
	return out
}

// runningContainers yields the containers that run and are ready, of all Pods that were
// looked at.
func runningContainers(f *scene.Facts) func(yield func(scene.Container) bool) {
	return func(yield func(scene.Container) bool) {
		seen := map[string]bool{}
		give := func(p *scene.Read[corev1.Pod]) bool {
			if seen[p.Object.Name] || f.IsPast(p) {
				return true
			}
			seen[p.Object.Name] = true
			for _, c := range scene.PodContainers(p) {
				if c.Status.Ready && !c.IsDone() && !yield(c) {
					return false
				}
			}
			return true
		}
		for i := range f.Pods {
			if !give(&f.Pods[i]) {
				return
			}
		}
		for p := range f.AllPods() {
			if !give(p) {
				return
			}
		}
	}
}

// currentLog is the log of the instance of a container that runs.
func currentLog(f *scene.Facts, c scene.Container) (scene.LogExcerpt, bool) {
	i := slices.IndexFunc(f.Logs, func(l scene.LogExcerpt) bool {
		return !l.Previous && l.Pod == c.Pod.Object.Name && l.Container == c.Status.Name && l.Namespace == c.Pod.Object.Namespace
	})
	if i < 0 {
		return scene.LogExcerpt{}, false
	}
	return f.Logs[i], true
}

var (
	// quietLevel matches lines that complain of nothing, whatever their words.
	quietLevel = scene.NewPattern(`(?i)\blevel["']?[=:]\s?["']?(?:info|debug|trace)\b|\s\[?(?:INFO|DEBUG|TRACE)\]?[\s:]|^[ID]\d{4} `)
	// echoOfOther matches what a server says of a client that refuses it.
	echoOfOther = scene.NewPattern(`remote error: tls|client disconnected|broken pipe|connection reset by peer`)
	// overAgain matches what a program says when what failed works again.
	overAgain = scene.NewPattern(`(?i)re-?establish|re-?connect(?:ed|ion succe)|recovered|restored|back (?:online|to normal)|caught up|is (?:up|healthy|reachable|available) again|succeeded after`)
)

// worstComplaint is what a log complains about most, of what it still complains about. That
// something ran out is what follows where what it waits for cannot be reached.
func worstComplaint(f *scene.Facts, l scene.LogExcerpt) (complaint, bool) {
	all := slices.DeleteFunc(readComplaints(f, l), func(c complaint) bool { return c.often < 2 })
	if len(all) == 0 {
		return complaint{}, false
	}
	worst := slices.MaxFunc(all, func(a, b complaint) int { return cmp.Compare(a.often, b.often) })
	if worst.pattern.cause == "pool-exhausted" {
		for _, c := range all {
			if strings.HasPrefix(c.pattern.cause, "dependency-") && 4*c.often >= worst.often {
				return c, true
			}
		}
	}
	return worst, true
}

// readComplaints are what a log complains about now, one of each cause.
func readComplaints(f *scene.Facts, l scene.LogExcerpt) []complaint {
	lines := strings.Split(strings.TrimSpace(l.Text), "\n")
	var all []complaint
	var at time.Time
	over := -1
	for i, line := range lines {
		line = text.KeepBytes(line, 4*scene.MaxQuote)
		if t, dated := lineTime(line); dated {
			at = t
		}
		if overAgain.MatchString(line) {
			over = i
		}
		p, what := firstPattern(runningLogPatterns, line) // first, as most lines have the words of none
		if p == nil || quietLevel.MatchString(line) && !scene.TellingWords.MatchString(line) || echoOfOther.MatchString(line) || scene.StackFramePattern.MatchString(line) {
			continue
		}
		m := logMatch{pattern: p, log: l, line: p.quoteIn(line), whole: line, what: what}
		k := slices.IndexFunc(all, func(c complaint) bool { return c.pattern.cause == p.cause })
		if k < 0 {
			k, all = len(all), append(all, complaint{first: at})
		}
		if c := &all[k]; at.IsZero() || !at.Equal(c.last) || c.logMatch.line == m.line { // else more of the same attempt
			c.often++
		}
		all[k].logMatch, all[k].last, all[k].line, all[k].total = m, at, i, len(lines)
	}
	return slices.DeleteFunc(all, func(c complaint) bool { return over > c.line || !c.isCurrent(f.Now, len(lines)) })
}

// isCurrent reports whether what is complained about is still so: it was said lately, and
// the time since is not much longer than the time between two complaints.
func (c complaint) isCurrent(now time.Time, lines int) bool {
	if c.last.IsZero() || lines-c.line > scene.RecentLines {
		return lines-c.line <= scene.RecentLines
	}
	since := now.Sub(c.last)
	apart := time.Minute
	if c.often > 1 {
		apart = max(apart, c.last.Sub(c.first)/time.Duration(c.often-1))
	}
	return since < scene.FreshFor && since <= overAfter*apart
}

// judgeComplaint is what a complaint comes to. Its own words carry it where somebody asks
// about who complains, or where it does hardly anything else; else what the cluster shows
// of the other side must.
func judgeComplaint(f *scene.Facts, c scene.Container, t complaint) []scene.Finding {
	n := t.asFinding(f, c)
	corroborated := n.Confidence == nightcrier.High
	n.Confidence, n.Rank, n.Weight = nightcrier.Medium, scene.RankFollows+15, t.often
	n.Summary += t.describeTimes()
	asked := f.AskedAbout || f.Scene.IsConcern(f.Mend())
	switch {
	case forTelemetry.MatchString(t.logMatch.line):
		n.Confidence = nightcrier.Low
	case corroborated:
		return []scene.Finding{n}
	case !asked && t.often < 3:
		return nil
	case asked, 3*t.often >= min(t.total, scene.RecentLines):
		return []scene.Finding{n}
	default:
		n.Confidence = nightcrier.Low
	}
	out := []scene.Finding{n}
	if t.namesOther() || !strings.HasPrefix(n.Cause, "dependency-") {
		return out
	}
	for _, v := range settingsOf(f.Scene, c) {
		if bad, ok := badAddress(f, c, v); ok {
			bad.Rank = scene.RankFollows + 15
			bad.Observed = append(bad.Observed, ObserveLog(c, t.log, t.logMatch.line))
			out = append([]scene.Finding{bad}, out...)
		}
	}
	return out
}

// describeTimes says how often a log complains, and since when.
func (c complaint) describeTimes() string {
	if c.last.IsZero() || c.often < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times from %s to %s)", c.often, c.first.Format(time.TimeOnly), c.last.Format(time.TimeOnly))
}

// Of how many attempts that failed, and of which share of its lines, a log of unknown
// errors tells of trouble.
const (
	manyErrors = 5
	errorShare = 3
)

// loggedError matches a line that a program itself calls an error.
var loggedError = scene.NewPattern(`(?i)\blevel["']?[=:]\s?["']?(?:error|fatal|critical|panic)\b|"severity": ?"(?:error|critical)|^(?:\S+ )?[EF]\d{4} |\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b|^\[?error\]?:|^\w*Error:|Exception(?::| in thread)|^panic:`)

// logsErrors finds containers that run and of whose log a good part is errors that no rule
// knows. That is what there is to tell an engineer who was told that something is wrong
// there; it is no cause where nobody complains.
func logsErrors(f *scene.Facts) []scene.Finding {
	asked := f.AskedAbout || f.Scene.IsConcern(f.Mend())
	var out []scene.Finding
	for c := range runningContainers(f) {
		l, ok := currentLog(f, c)
		if !ok {
			continue
		}
		t, ok := unknownErrors(f, l)
		if !ok {
			continue
		}
		if _, known := worstComplaint(f, l); known {
			continue
		}
		n := scene.Finding{
			Cause: "errors-in-log", Object: f.Mend(), Confidence: nightcrier.Low, Weight: t.often,
			Summary:  fmt.Sprintf("%s runs and counts as ready, and keeps logging errors%s: %s", c.DescribeIn(f), t.describeTimes(), t.logMatch.line),
			Observed: []scene.Observation{ObserveLog(c, l, t.logMatch.line)},
			WrongIf:  "it always logs this, also when all is well",
			Test:     scene.LogsTest(c).DecidesBetween("the last lines are errors of this kind", "they are not"),
			Actions: []scene.Step{
				{Action: "Read the log of " + c.String() + " around the first of these errors", Outcome: "names what they began with", Risk: "none: read only"},
				{Action: "Compare with the last rollout, and with what it calls", Outcome: "tells its own fault from that of another", Risk: "none: read only"},
			},
		}
		if asked {
			n.Confidence = nightcrier.Medium
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b scene.Finding) int { return cmp.Compare(b.Weight, a.Weight) })
	return out
}

// unknownErrors are the errors of a log, with the one that is told: of the last attempt that
// failed the innermost reason.
func unknownErrors(f *scene.Facts, l scene.LogExcerpt) (complaint, bool) {
	lines := strings.Split(strings.TrimSpace(l.Text), "\n")
	c := complaint{line: -1}
	var at time.Time
	for i, line := range lines {
		line = text.KeepBytes(line, 4*scene.MaxQuote)
		if !scene.IsContinued(line) {
			c.total++
		}
		if t, dated := lineTime(line); dated {
			at = t
		}
		if !loggedError.MatchString(line) || forTelemetry.MatchString(line) || scene.StackFramePattern.MatchString(line) {
			continue
		}
		if at.IsZero() || !at.Equal(c.last) {
			c.often++
		}
		if c.first.IsZero() {
			c.first = at
		}
		c.last, c.line = at, i
	}
	if c.often < manyErrors || errorShare*c.often < min(c.total, scene.RecentLines) || !c.isCurrent(f.Now, len(lines)) {
		return complaint{}, false
	}
	c.logMatch = logMatch{log: l, line: quoteLine(scene.InnermostReason(lines, c.line))}
	return c, true
}
