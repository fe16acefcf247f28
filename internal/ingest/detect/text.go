package detect

import (
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds, in bytes: of what is told, of what is said before it is masked and cut,
// and of the cluster's own words in it.
const (
	maxContext = 512
	maxSaid    = 4096
	maxQuoted  = 2048
	maxWord    = 63
)

// cutQuote cuts the cluster's own words.
func cutQuote(s string) string { return text.CutLine(s, maxQuoted) }

// cutWord cuts a reason or a name in a sentence.
func cutWord(s string) string { return text.CutLine(s, maxWord) }

// formatSentence writes what will be a context.
func formatSentence(format string, args ...any) string {
	return text.CutLine(fmt.Sprintf(format, args...), maxSaid)
}

// maskContext returns what may be told: secrets are taken out while they are whole.
func (d *Detector) maskContext(said string) string {
	return text.CutLine(text.MaskClean(said, d.cfg.Mask, text.FoldLine), maxContext)
}

// withQuote appends the cluster's words to a sentence where it has any.
func withQuote(sentence, words string) string {
	if words = cutQuote(words); words == "" {
		return sentence
	}
	return sentence + ": " + words
}

// durationInWords spells a duration as people do.
func durationInWords(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// containerName is s if Kubernetes allows it as a container's name.
func containerName(s string) string {
	ok := s != "" && len(s) <= maxWord && s[0] != '-' && s[len(s)-1] != '-' &&
		strings.IndexFunc(s, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
		}) < 0
	if !ok {
		return ""
	}
	return strings.Clone(s)
}

// upperFirst begins a sentence with what.
func upperFirst(what string) string { return strings.ToUpper(what[:1]) + what[1:] }

// String says how a container ended.
func (e *ending) String() string {
	s := fmt.Sprintf("exit code: %d", e.Code)
	if r := cutWord(e.Reason); r != "" {
		s += ", reason: " + r
	}
	if m := cutQuote(e.Message); m != "" {
		s += ", termination message: " + m
	}
	return s
}
