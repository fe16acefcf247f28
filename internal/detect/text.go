package detect

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds, in bytes: of what is told, of what is said before it is masked and cut,
// and of the cluster's own words in it.
const (
	maxContext = 512
	maxSaid    = 4096
	maxQuoted  = 2048
	maxWord    = 63
)

// clean returns at most limit bytes of s on one line, without the characters
// that would steer a terminal or reorder what is read.
func clean(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			space = b.Len() > 0
			continue
		case unicode.Is(unicode.Cf, r) || r == utf8.RuneError:
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		if b.Len()+utf8.RuneLen(r) > limit-len("…") {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// quote is the cluster's own words.
func quote(s string) string { return clean(s, maxQuoted) }

// word is a reason or a name in a sentence.
func word(s string) string { return clean(s, maxWord) }

// say writes what will be a context.
func say(format string, args ...any) string { return clean(fmt.Sprintf(format, args...), maxSaid) }

// context is what may be told: secrets are taken out while they are whole.
func (d *Detector) context(said string) string {
	if d.cfg.Mask != nil {
		said = d.cfg.Mask(said)
	}
	return clean(said, maxContext)
}

// with appends the cluster's words to a sentence where it has any.
func with(sentence, words string) string {
	if words = quote(words); words == "" {
		return sentence
	}
	return sentence + ": " + words
}

// lasting spells a duration as people do.
func lasting(d time.Duration) string {
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

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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

// title begins a sentence with what.
func title(what string) string { return strings.ToUpper(what[:1]) + what[1:] }

// String says how a container ended.
func (e *ending) String() string {
	s := fmt.Sprintf("exit code: %d", e.Code)
	if r := word(e.Reason); r != "" {
		s += ", reason: " + r
	}
	if m := quote(e.Message); m != "" {
		s += ", termination message: " + m
	}
	return s
}
