package scene

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"nightcrier.dev/nightcrier/internal/text"
)

// Pattern is a regular expression that is compiled when it is first needed. The rules
// have so many that a process which diagnoses nothing, as the worker beside an agent,
// would spend most of its start on them, and a diagnosis most of its time.
type Pattern struct {
	text   string
	screen func() screen
	re     func() *regexp.Regexp
}

// NewPattern makes the pattern of an expression; one that is none panics when it is used.
func NewPattern(text string) *Pattern {
	return &Pattern{
		text:   text,
		screen: sync.OnceValue(func() screen { return newScreen(text) }),
		re:     sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) }),
	}
}

// NewWordings makes patterns of expressions: ways of saying one thing.
func NewWordings(texts ...string) (all []*Pattern) {
	for _, t := range texts {
		all = append(all, NewPattern(t))
	}
	return all
}

// mayMatch reports whether it is worth while to ask the expression about s.
func (p *Pattern) mayMatch(s string) bool { return p.screen().mayMatchText(s) }

// MayMatch reports whether the expression may match a line.
func (p *Pattern) MayMatch(l *Line) bool { return p.screen().mayMatchLine(l) }

func (p *Pattern) Match(b []byte) bool { return p.MatchString(string(b)) }

func (p *Pattern) MatchString(s string) bool { return p.mayMatch(s) && p.re().MatchString(s) }

func (p *Pattern) FindStringSubmatch(s string) []string {
	if !p.mayMatch(s) {
		return nil
	}
	return p.re().FindStringSubmatch(s)
}

func (p *Pattern) FindStringSubmatchIndex(s string) []int {
	if !p.mayMatch(s) {
		return nil
	}
	return p.re().FindStringSubmatchIndex(s)
}

func (p *Pattern) FindAllString(s string, n int) []string {
	if !p.mayMatch(s) {
		return nil
	}
	return p.re().FindAllString(s, n)
}

func (p *Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	if !p.mayMatch(s) {
		return nil
	}
	return p.re().FindAllStringSubmatch(s, n)
}

func (p *Pattern) ReplaceAllString(s, with string) string {
	if !p.mayMatch(s) {
		return s
	}
	return p.re().ReplaceAllString(s, with)
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

// Bounds of what is quoted, in bytes.
const (
	MaxQuote = 300
	MaxText  = 600
)

var (
	// GraveWords are the words a program ends with.
	GraveWords = NewPattern(`(?i:\b(panic|fatal|critical|emerg|traceback|segmentation fault)\b)|(?:Error|Exception):`)
	// TellingWords are the words of a failure that may be passing.
	TellingWords = NewPattern(`(?i)\b(error|err|exception|failed|failure|refused|denied|cannot|can't|unable|no such|not found|timed? ?out|invalid|missing|required)\b`)
	// StackFramePattern matches a line of a stack trace, which names exceptions in passing.
	StackFramePattern = NewPattern(`^\s+at [\w.$<>/@:-]+`)
	// LostLogPattern is what a kubelet answers in place of a log it has lost.
	LostLogPattern = NewPattern(`^unable to retrieve container logs for `)
)

// ErrorLine picks the line of a log that most likely says why the program
// ended: the last grave one, else the last telling one, else the last.
func ErrorLine(log string) string {
	lines := strings.Split(log, "\n")
	for _, words := range []*Pattern{GraveWords, TellingWords} {
		for i := len(lines) - 1; i >= 0; i-- {
			if line := text.KeepBytes(lines[i], 4*MaxQuote); words.MatchString(line) && !StackFramePattern.MatchString(line) {
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
