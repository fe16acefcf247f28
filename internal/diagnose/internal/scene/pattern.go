package scene

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"

	"nightcrier.dev/nightcrier/internal/text"
)

// Pattern is a regular expression that is compiled when it is first used. The rules
// have so many that a process which diagnoses nothing, as the worker beside an agent,
// would spend most of its start on them.
type Pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// NewPattern makes the pattern of an expression; one that is none panics when it is used.
func NewPattern(text string) *Pattern { return &Pattern{text: text} }

func (p *Pattern) compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

func (p *Pattern) Match(b []byte) bool { return p.compiled().Match(b) }

func (p *Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

func (p *Pattern) FindString(s string) string { return p.compiled().FindString(s) }

func (p *Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

func (p *Pattern) FindStringSubmatchIndex(s string) []int {
	return p.compiled().FindStringSubmatchIndex(s)
}

func (p *Pattern) FindAllString(s string, n int) []string {
	return p.compiled().FindAllString(s, n)
}

func (p *Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

func (p *Pattern) ReplaceAllString(s, with string) string {
	return p.compiled().ReplaceAllString(s, with)
}

// MissingConfigPattern matches what a kubelet says of a ConfigMap, a Secret or a key that is
// not there.
var MissingConfigPattern = NewPattern(`couldn't find key|(?i:(configmaps?|secrets?) "[^"]{1,253}" not found)`)

// NotExecutablePattern matches what runtimes say about a command that is not there.
var NotExecutablePattern = NewPattern(`executable file not found|no such file or directory|exec format error|permission denied|is a directory: unknown|no command specified`)

// ImageTroublePattern matches text that is about an image that cannot be had.
var ImageTroublePattern = NewPattern(`ImagePullBackOff|ErrImage\w+|InvalidImageName|[Ff]ailed to pull|[Bb]ack-off pulling image`)

// KilledByProbePattern matches what a kubelet says when it ends a container because of
// a probe.
var KilledByProbePattern = NewPattern(`failed (liveness|startup) probe`)

// Wording is one way of saying something. Looking for a part of it first is what
// makes it cheap to look for hundreds.
type Wording struct {
	*Pattern
	// parts, in lower case, of which any line that matches has at least one. None
	// means that there is no such part.
	parts func() []string
}

// NewWordings makes a wording of each expression.
func NewWordings(patterns ...string) []Wording {
	var out []Wording
	for _, p := range patterns {
		out = append(out, Wording{NewPattern(p), sync.OnceValue(func() []string {
			tree, err := syntax.Parse(p, syntax.Perl)
			if err != nil {
				panic(err)
			}
			return partsOf(tree)
		})})
	}
	return out
}

// MayBeIn reports whether a line, in lower case, may match.
func (w Wording) MayBeIn(lower string) bool {
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

// Bounds of what is quoted, in bytes.
const (
	MaxQuote = 300
	MaxText  = 600
)

var (
	// GraveWords are the words a program ends with.
	GraveWords = NewWordings(`(?i:\b(panic|fatal|critical|emerg|traceback|segmentation fault)\b)|(?:Error|Exception):`)[0]
	// TellingWords are the words of a failure that may be passing.
	TellingWords = NewWordings(`(?i)\b(error|err|exception|failed|failure|refused|denied|cannot|can't|unable|no such|not found|timed? ?out|invalid|missing|required)\b`)[0]
	// StackFramePattern matches a line of a stack trace, which names exceptions in passing.
	StackFramePattern = NewPattern(`^\s+at [\w.$<>/@:-]+`)
	// LostLogPattern is what a kubelet answers in place of a log it has lost.
	LostLogPattern = NewPattern(`^unable to retrieve container logs for `)
)

// ErrorLine picks the line of a log that most likely says why the program
// ended: the last grave one, else the last telling one, else the last.
func ErrorLine(log string) string {
	lines := strings.Split(log, "\n")
	for _, words := range []Wording{GraveWords, TellingWords} {
		for i := len(lines) - 1; i >= 0; i-- {
			if line := text.KeepBytes(lines[i], 4*MaxQuote); words.MayBeIn(strings.ToLower(line)) && words.MatchString(line) && !StackFramePattern.MatchString(line) {
				return line
			}
		}
	}
	return LastLine(log)
}

// causedBy begins the lines in which a program says what its last error comes from.
var causedBy = NewPattern(`^\s*(?i:caused by|root cause|reason):? \S`)

// linesOfError is how many lines of a log the trace of one error has at most.
const linesOfError = 80

// InnermostReason is what the error that begins in a line of a log comes from in the end:
// the last cause that its trace names, else the line itself.
func InnermostReason(lines []string, at int) string {
	reason := lines[at]
	for _, line := range lines[at+1 : min(at+1+linesOfError, len(lines))] {
		switch {
		case causedBy.MatchString(line):
			reason = strings.TrimSpace(line)
		case !IsContinued(line) && !GraveWords.MatchString(line): // the next message
			return reason
		}
	}
	return reason
}

// wrapsReason matches what is said around the reason of a failure, and in place of one.
var wrapsReason = NewPattern(`(?i)context deadline exceeded|timed out waiting for the condition|(?:command failed with )?exit(?:ed with)? (?:status|code):? ?\d+|\(combined from similar events\):|rpc error: code = \w+ desc =|Unable to attach or mount volumes|(?:unmounted|unattached) volumes=\[[^\]]*\]|failed to process volumes=\[[^\]]*\]|back-?off \S* ?\S* ?restarting failed container.*|\b(?:giving up|exiting|fatal|panic|critical|error|exception|failed|failure|unknown|aborted|terminated|shutting down)\b|\d{4}-\d\d-\d\d[T ][\d:.,]+Z?`)

// wordsOfReason match the words that are left of a message when what wraps its reason is taken away.
var wordsOfReason = NewPattern(`[A-Za-z]{2,}`)

// ReasonIn is a message, if it says why something failed: "" for one that says only that it did.
func ReasonIn(message string) string {
	if len(wordsOfReason.FindAllString(wrapsReason.ReplaceAllString(message, " "), 3)) < 3 {
		return ""
	}
	return message
}

// IsContinued reports whether a line of a log goes on with what the one before it says.
func IsContinued(line string) bool {
	return line == "" || line[0] == ' ' || line[0] == '\t' || causedBy.MatchString(line)
}

// MakeSentence begins s with a capital and ends it with a full stop.
func MakeSentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// LastLine returns the last line that is not blank.
func LastLine(log string) string {
	log = strings.TrimRightFunc(log, unicode.IsSpace)
	return log[strings.LastIndexByte(log, '\n')+1:]
}

// ListeningPattern matches what servers say when they are up.
var ListeningPattern = NewPattern(`(?i)\b(?:listening|listen|serving|started|running|bound|bind|ready)\b[^\n]{0,80}?(?:\bport\(?s?\)?:?[ =]|[\w\]*]:|[ "'=(]:)(\d{2,5})\b`)
