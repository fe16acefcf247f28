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

var logRules = scene.Area{Name: "log", Rules: []scene.Rule{findLogPatterns}}

// logPattern is what programs say in their log when they fail for one cause. Each
// wording may capture what it is about: a path, a variable, an argument.
type logPattern struct {
	cause string
	// because is what the words mean, to follow "because"; what they are about,
	// if they name it, comes after.
	because string
	wrongIf string
	actions []scene.Step
	// refine adds what the surroundings tell about it, nil for nothing.
	refine   func(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding)
	wordings []*scene.Pattern
}

// logPatterns are looked through in this order: the first whose words a line has,
// counts. What is narrow stands before what is wide: a certificate that has
// expired is often reported as a connection that failed.
var logPatterns = slices.Concat(
	memoryLogPatterns,
	certificateLogPatterns,
	exhaustionLogPatterns,
	storeLogPatterns,
	protocolLogPatterns,
	dependencyLogPatterns,
	environmentLogPatterns,
	startLogPatterns,
	filesystemLogPatterns,
	configurationLogPatterns,
)

// logMatch is a line of a container's log that tells why it fails.
type logMatch struct {
	pattern *logPattern
	log     scene.LogExcerpt
	line    string // as it is quoted
	whole   string // as far as it was read
	// what the line is about, "" if it does not name it.
	what string
	// lastWord is set when it is the gravest line itself, rather than one near it.
	lastWord bool
}

// findLogPatterns finds what the logs of failing containers tell as the reason.
func findLogPatterns(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		if !endedWithError(c) && !unreadyLong(c, f.Now) {
			continue
		}
		if t, ok := reasonInLog(f, c); ok {
			out = append(out, t.asFinding(f, c))
		}
	}
	return out
}

// reasonInLog reads the container's log for a reason that the rules know.
func reasonInLog(f *scene.Facts, c scene.Container) (logMatch, bool) {
	l, ok := f.FindLog(c)
	if !ok {
		return logMatch{}, false
	}
	for i, line := range lastWords(l.Text) {
		if p, what := firstPattern(logPatterns, line); p != nil {
			return logMatch{pattern: p, log: l, line: p.quoteIn(line), whole: line, what: what, lastWord: i == 0}, true
		}
	}
	if c.Status.State.Running == nil || c.Status.Ready || l.Previous {
		return logMatch{}, false
	}
	lines := strings.Split(strings.TrimSpace(l.Text), "\n")
	for _, line := range reverseLines(lines[max(0, len(lines)-scene.RecentLines):]) { // it goes on, and none of its lines is the last
		line = text.KeepBytes(line, 4*scene.MaxQuote)
		if quietLevel.MatchString(line) || echoOfOther.MatchString(line) || scene.StackFramePattern.MatchString(line) {
			continue
		}
		if p, what := firstPattern(runningLogPatterns, line); p != nil {
			return logMatch{pattern: p, log: l, line: p.quoteIn(line), whole: line, what: what}, true
		}
	}
	return logMatch{}, false
}

// errorField matches the error in a line of a structured log.
var errorField = scene.NewPattern(`(?:"(?:error|err|exception|cause|error\.message)": ?|\b(?:error|err)=)("(?:[^"\\]|\\.){12,}"|[^\s"]{12,})`)

// quoteIn is a line that the pattern matches as it is quoted: by what it matches.
func (s *logPattern) quoteIn(line string) string {
	quote := quoteLine(line)
	if _, ok := s.matchLine(quote, scene.NewLine(quote)); !ok {
		return text.CutMiddle(line, scene.MaxQuote)
	}
	return quote
}

// quoteLine is a line as it is quoted: of a long one of a structured log its error, of any
// other long one the head and the tail.
func quoteLine(line string) string {
	if len(line) > scene.MaxQuote {
		if all := errorField.FindAllStringSubmatch(line, 8); len(all) > 0 {
			line = strings.Trim(all[len(all)-1][1], `"`)
		}
	}
	return text.CutMiddle(line, scene.MaxQuote)
}

// firstPattern is the first pattern whose words a line has, and what it is about.
func firstPattern(patterns []logPattern, line string) (p *logPattern, what string) {
	marked := scene.NewLine(line)
	for i := range patterns {
		if what, ok := patterns[i].matchLine(line, marked); ok {
			return &patterns[i], what
		}
	}
	return nil, ""
}

// matchLine reports whether the pattern has the words of line, and what it is about.
func (s *logPattern) matchLine(line string, marked *scene.Line) (what string, ok bool) {
	for i := range s.wordings {
		w := s.wordings[i]
		if !w.MayMatch(marked) {
			continue
		}
		if m := w.FindStringSubmatch(line); m != nil {
			return text.CutLine(slices.MaxFunc(append(m[1:], ""), func(a, b string) int { return cmp.Compare(len(a), len(b)) }), 120), true
		}
	}
	return "", false
}

// givesUp are the words of a program that has said why before.
const givesUp = `(?i)giving up|exit(ing|ed| status| code)|shut(ting)? ?down|abort|terminat(ed|ing)|fail(ed|ure) (to|in|while) (start|init|boot|create|bind|run|load|acquire lead)|leader ?election lost|start(up)? failed|(cannot|unable to|can't) start|retries|attempts|application run failed|npm ERR|unhandled|uncaught|traceback|error creating bean|command failed|could not (start|initialize)|goroutine \d|timed out waiting`

// givingUp matches the last line of such a program, or one too short to say why, and gaveUp the
// words alone.
var (
	givingUp = scene.NewPattern(givesUp + `|^\s*(error|fatal)\b.{0,40}$`)
	gaveUp   = scene.NewPattern(givesUp)
)

// Bounds of how far from its gravest line a log is searched for the reason.
const (
	linesAfter  = 12
	linesBefore = 8
)

// lastWords are the lines of a log that may tell why the program ended: what
// stands before a text about its usage, the gravest line, what it says after it,
// and where that line only says that it gives up, or no line is grave, the lines
// before it, nearest first.
func lastWords(log string) []string {
	lines := strings.Split(strings.TrimRight(log, "\n\r \t"), "\n")
	for i, line := range lines {
		lines[i] = text.KeepBytes(line, 4*scene.MaxQuote)
	}
	grave := scene.ErrorLine(log)
	at := max(0, slices.Index(lines, grave))
	for i := len(lines) - 1; i > at; i-- {
		if lines[i] == grave {
			at = i
		}
	}
	var out []string
	if i := slices.IndexFunc(lines, usage.MatchString); i > 0 {
		out = append(out, reverseLines(lines[max(0, i-2):i])...)
	}
	out = append(out, grave)
	out = append(out, lines[min(at+1, len(lines)):min(at+1+linesAfter, len(lines))]...)
	if givingUp.MatchString(grave) || !scene.GraveWords.MatchString(grave) && !scene.TellingWords.MatchString(grave) {
		out = append(out, reverseLines(lines[max(0, at-linesBefore):at])...)
	}
	return slices.DeleteFunc(out, scene.StackFramePattern.MatchString)
}

// decidingLine is the line of a log that says most of why a program ended, and whether it
// says why at all: one that only says that it gives up stands back behind what it said before.
func decidingLine(log string) (line string, why bool) {
	all := lastWords(log)
	for _, l := range all {
		tells := scene.GraveWords.MatchString(l) || scene.TellingWords.MatchString(l)
		if tells && !gaveUp.MatchString(l) && scene.ReasonIn(l) != "" {
			return quoteLine(l), true
		}
	}
	line = quoteLine(scene.ErrorLine(log))
	return line, false
}

// usage begins what a program prints when its arguments are wrong.
var usage = scene.NewPattern(`(?i)^\s*usage\b`)

func reverseLines(lines []string) []string {
	out := slices.Clone(lines)
	slices.Reverse(out)
	return out
}

// rankTold is above how a container ended, as the log says why it did, and
// below what the cluster itself states as the reason.
const rankTold = scene.RankShown + 20

// asFinding is what the log tells, as a cause.
func (t logMatch) asFinding(f *scene.Facts, c scene.Container) scene.Finding {
	n := scene.Finding{
		Cause: t.pattern.cause, Object: f.Mend(), Confidence: nightcrier.Medium,
		Observed: []scene.Observation{ObserveLog(c, t.log, t.line)},
		WrongIf:  t.pattern.wrongIf,
		Actions:  t.pattern.actions,
	}
	n.Test = scene.LogsTest(c).DecidesBetween("the last lines say the same", "the last lines say something else")
	fails := "is not ready"
	switch end := c.LastTermination(); {
	case c.Status.Ready && (end == nil || c.HasRecovered(f.Now)):
		fails = "cannot do its work"
	case end != nil:
		n.Observed = append(n.Observed, c.ObserveEnd(end))
		fails = fmt.Sprintf("fails (exit code %d, %s)", end.ExitCode, text.CountNoun(int(c.Status.RestartCount), "restart"))
		if t.lastWord && !killedFromOutside(end) {
			n.Confidence = nightcrier.High
		}
	case isLooping(c):
		fails = "ends again and again"
	}
	because := t.pattern.because
	if t.what != "" {
		because += " (" + t.what + ")"
	}
	n.Summary = fmt.Sprintf("%s %s because %s", c.DescribeIn(f), fails, because)
	if t.pattern.refine != nil {
		t.pattern.refine(f, c, t, &n)
	}
	n.Summary += "; its log says: " + t.line
	return n
}

// endedWithError reports whether the container last ended with an error, or ends again
// and again.
func endedWithError(c scene.Container) bool {
	end := c.LastTermination()
	return isLooping(c) || end != nil && end.ExitCode != 0
}

// unreadyLong reports whether the container has been running for longer than
// most need to start, without getting ready.
func unreadyLong(c scene.Container, now time.Time) bool {
	const starting = 2 * time.Minute
	if c.Status.Ready || c.Status.State.Waiting != nil || c.Status.State.Terminated != nil {
		return false
	}
	since := c.Pod.Object.CreationTimestamp
	if r := c.Status.State.Running; r != nil && !r.StartedAt.IsZero() {
		since = r.StartedAt
	}
	return now.Sub(since.Time) > starting
}

// mountOf is the volume that path lies in, nil if it is in the image.
func mountOf(c scene.Container, path string) (*corev1.VolumeMount, *corev1.Volume) {
	var mount *corev1.VolumeMount
	for i, m := range c.Spec.VolumeMounts {
		in := path == m.MountPath || strings.HasPrefix(path, strings.TrimSuffix(m.MountPath, "/")+"/")
		if in && (mount == nil || len(m.MountPath) > len(mount.MountPath)) {
			mount = &c.Spec.VolumeMounts[i]
		}
	}
	if mount == nil {
		return nil, nil
	}
	vols := c.Pod.Object.Spec.Volumes
	if i := slices.IndexFunc(vols, func(v corev1.Volume) bool { return v.Name == mount.Name }); i >= 0 {
		return mount, &vols[i]
	}
	return mount, nil
}
