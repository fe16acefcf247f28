package diagnose

import (
	"cmp"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var logRules = area{of: []Rule{toldByLog}}

// saying is what programs say in their log when they fail for one cause. Each
// wording may capture what it is about: a path, a variable, an argument.
type saying struct {
	cause string
	// because is what the words mean, to follow "because"; what they are about,
	// if they name it, comes after.
	because string
	wrongIf string
	actions []Step
	// refine adds what the surroundings tell about it, nil for nothing.
	refine   func(f *Facts, c container, t told, n *Finding)
	wordings []wording
}

// sayings are looked through in this order: the first whose words a line has,
// counts. What is narrow stands before what is wide: a certificate that has
// expired is often reported as a connection that failed.
var sayings = slices.Concat(
	memorySayings,
	certificateSayings,
	dependencySayings,
	environmentSayings,
	startSayings,
	filesystemSayings,
	configurationSayings,
)

// told is a line of a container's log that tells why it fails.
type told struct {
	saying saying
	log    LogExcerpt
	line   string
	// what the line is about, "" if it does not name it.
	what string
	// lastWord is set when it is the gravest line itself, rather than one near it.
	lastWord bool
}

// toldByLog finds what the logs of failing containers tell as the reason.
func toldByLog(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		if !c.endedWithError() && !c.unreadyLong(f.Now) {
			continue
		}
		if t, ok := f.reasonInLog(c); ok {
			out = append(out, t.asFinding(f, c))
		}
	}
	return out
}

// reasonInLog reads the container's log for a reason that the rules know.
func (f *Facts) reasonInLog(c container) (told, bool) {
	l, ok := f.logOf(c)
	if !ok {
		return told{}, false
	}
	for i, line := range lastWords(l.Text) {
		for _, s := range sayings {
			if what, ok := s.matchLine(line); ok {
				return told{saying: s, log: l, line: text.CutLine(line, maxQuote), what: what, lastWord: i == 0}, true
			}
		}
	}
	return told{}, false
}

// matchLine reports whether the saying has the words of line, and what it is about.
func (s saying) matchLine(line string) (what string, ok bool) {
	lower := strings.ToLower(line)
	for _, w := range s.wordings {
		if !w.mayBeIn(lower) {
			continue
		}
		if m := w.FindStringSubmatch(line); m != nil {
			return text.CutLine(slices.MaxFunc(append(m[1:], ""), func(a, b string) int { return cmp.Compare(len(a), len(b)) }), 120), true
		}
	}
	return "", false
}

// wording is one way of saying something. Looking for a part of it first is what
// makes it cheap to look for hundreds.
type wording struct {
	*pattern
	// parts, in lower case, of which any line that matches has at least one. None
	// means that there is no such part.
	parts func() []string
}

func newWordings(patterns ...string) []wording {
	var out []wording
	for _, p := range patterns {
		out = append(out, wording{newPattern(p), sync.OnceValue(func() []string {
			tree, err := syntax.Parse(p, syntax.Perl)
			if err != nil {
				panic(err)
			}
			return partsOf(tree)
		})})
	}
	return out
}

func (w wording) mayBeIn(lower string) bool {
	parts := w.parts()
	return len(parts) == 0 || slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(lower, p) })
}

// partsOf are texts of which every match of the expression has one: the longest
// that can be found.
func partsOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return partsOf(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if parts := partsOf(sub); shortestLength(parts) > shortestLength(best) {
				best = parts
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			parts := partsOf(sub)
			if len(parts) == 0 {
				return nil
			}
			all = append(all, parts...)
		}
		return all
	}
	return nil
}

func shortestLength(parts []string) int {
	if len(parts) == 0 {
		return 0
	}
	return len(slices.MinFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) }))
}

// givingUp matches the last line of a program that has said why before.
var givingUp = newPattern(`(?i)giving up|exit(ing|ed| status| code)|shut(ting)? ?down|abort|terminat(ed|ing)|fail(ed|ure) (to|in|while) (start|init|boot|create|bind|run|load|acquire lead)|leader ?election lost|start(up)? failed|(cannot|unable to|can't) start|retries|attempts|application run failed|npm ERR|unhandled|uncaught|traceback|error creating bean|^\s*(error|fatal)\b.{0,40}$|command failed|could not (start|initialize)|goroutine \d|timed out waiting`)

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
		lines[i] = text.KeepBytes(line, 4*maxQuote)
	}
	grave := errorLine(log)
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
	if givingUp.MatchString(grave) || !gravest.MatchString(grave) && !telling.MatchString(grave) {
		out = append(out, reverseLines(lines[max(0, at-linesBefore):at])...)
	}
	return slices.DeleteFunc(out, stackFrame.MatchString)
}

// usage begins what a program prints when its arguments are wrong.
var usage = newPattern(`(?i)^\s*usage\b`)

func reverseLines(lines []string) []string {
	out := slices.Clone(lines)
	slices.Reverse(out)
	return out
}

// rankTold is above how a container ended, as the log says why it did, and
// below what the cluster itself states as the reason.
const rankTold = rankShown + 20

// asFinding is what the log tells, as a cause.
func (t told) asFinding(f *Facts, c container) Finding {
	n := Finding{
		Cause: t.saying.cause, Object: f.Mend(), Confidence: nightcrier.Medium,
		Observed: []Observation{sawLog(c, t.log, t.line)},
		WrongIf:  t.saying.wrongIf,
		Actions:  t.saying.actions,
	}
	n.Test = testByLogs(c).decidesBetween("the last lines say the same", "the last lines say something else")
	fails := "is not ready"
	switch end := c.lastEnd(); {
	case c.status.Ready && c.hasRecovered(f.Now):
		fails = "cannot do its work"
	case end != nil:
		n.Observed = append(n.Observed, c.sawEnd(end))
		fails = fmt.Sprintf("fails (exit code %d, %s)", end.ExitCode, text.CountNoun(int(c.status.RestartCount), "restart"))
		if t.lastWord && !killedFromOutside(end) {
			n.Confidence = nightcrier.High
		}
	case isLooping(c):
		fails = "ends again and again"
	}
	because := t.saying.because
	if t.what != "" {
		because += " (" + t.what + ")"
	}
	n.Summary = fmt.Sprintf("%s %s because %s", c.describeIn(f), fails, because)
	if t.saying.refine != nil {
		t.saying.refine(f, c, t, &n)
	}
	n.Summary += "; its log says: " + t.line
	return n
}

// endedWithError reports whether the container last ended with an error, or ends again
// and again.
func (c container) endedWithError() bool {
	end := c.lastEnd()
	return isLooping(c) || end != nil && end.ExitCode != 0
}

// unreadyLong reports whether the container has been running for longer than
// most need to start, without getting ready.
func (c container) unreadyLong(now time.Time) bool {
	const starting = 2 * time.Minute
	if c.status.Ready || c.status.State.Waiting != nil || c.status.State.Terminated != nil {
		return false
	}
	since := c.pod.Object.CreationTimestamp
	if r := c.status.State.Running; r != nil && !r.StartedAt.IsZero() {
		since = r.StartedAt
	}
	return now.Sub(since.Time) > starting
}

// mountOf is the volume that path lies in, nil if it is in the image.
func (c container) mountOf(path string) (*corev1.VolumeMount, *corev1.Volume) {
	var mount *corev1.VolumeMount
	for i, m := range c.spec.VolumeMounts {
		in := path == m.MountPath || strings.HasPrefix(path, strings.TrimSuffix(m.MountPath, "/")+"/")
		if in && (mount == nil || len(m.MountPath) > len(mount.MountPath)) {
			mount = &c.spec.VolumeMounts[i]
		}
	}
	if mount == nil {
		return nil, nil
	}
	vols := c.pod.Object.Spec.Volumes
	if i := slices.IndexFunc(vols, func(v corev1.Volume) bool { return v.Name == mount.Name }); i >= 0 {
		return mount, &vols[i]
	}
	return mount, nil
}
