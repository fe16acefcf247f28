package diagnose

import (
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is quoted, in bytes.
const (
	maxQuote = 300
	maxText  = 600
)

var (
	// gravest are the words a program ends with.
	gravest = newWordings(`(?i:\b(panic|fatal|critical|emerg|traceback|segmentation fault)\b)|(?:Error|Exception):`)[0]
	// telling are the words of a failure that may be passing.
	telling = newWordings(`(?i)\b(error|err|exception|failed|failure|refused|denied|cannot|can't|unable|no such|not found|timed? ?out|invalid|missing|required)\b`)[0]
	// stackFrame matches a line of a stack trace, which names exceptions in passing.
	stackFrame = newPattern(`^\s+at [\w.$<>/@:-]+`)
	// notALog is what a kubelet answers in place of a log it has lost.
	notALog = newPattern(`^unable to retrieve container logs for `)
)

// errorLine picks the line of a log that most likely says why the program
// ended: the last grave one, else the last telling one, else the last.
func errorLine(log string) string {
	lines := strings.Split(log, "\n")
	for _, words := range []wording{gravest, telling} {
		for i := len(lines) - 1; i >= 0; i-- {
			if line := text.KeepBytes(lines[i], 4*maxQuote); words.mayBeIn(strings.ToLower(line)) && words.MatchString(line) && !stackFrame.MatchString(line) {
				return line
			}
		}
	}
	return lastLine(log)
}

// makeSentence begins s with a capital and ends it with a full stop.
func makeSentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// lastLine returns the last line that is not blank.
func lastLine(log string) string {
	log = strings.TrimRightFunc(log, unicode.IsSpace)
	return log[strings.LastIndexByte(log, '\n')+1:]
}
