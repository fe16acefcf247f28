package slack

import (
	"strings"
	"unicode/utf8"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// Slack's limits, in characters.
const (
	maxHeader  = 150
	maxSection = 3000
	maxField   = 2000
	maxBlocks  = 50
)

// escapeRune returns how c is written in a Slack text so that it can neither
// start a mention nor a link. Control and bidirectional characters, which only
// serve to deceive a reader, are dropped.
func escapeRune(c rune) string {
	switch {
	case c == '&':
		return "&amp;"
	case c == '<':
		return "&lt;"
	case c == '>':
		return "&gt;"
	case c == '\n':
		return "\n"
	case c == '\t', c == '\r':
		return " "
	case texts.IsHidden(c):
		return ""
	}
	return string(c)
}

// escapeText escapes s and cuts it to at most limit characters of the result: at
// the end of a sentence when one lies in the second half, else at a space, and
// never inside an entity. A cut is shown by an ellipsis.
func escapeText(s string, limit int) string {
	var b strings.Builder
	width, sentence, space := 0, 0, 0
	var last rune
	for _, c := range s {
		e := escapeRune(c)
		w := utf8.RuneCountInString(e)
		if c == '\n' || c == ' ' {
			space = b.Len()
			if c == '\n' || last == '.' || last == '!' || last == '?' {
				sentence = b.Len()
			}
		}
		if width+w > limit-2 && overflowsLimit(s, limit) {
			return cutAt(b.String(), sentence, space)
		}
		b.WriteString(e)
		width += w
		last = c
	}
	return b.String()
}

// overflowsLimit reports whether s, escaped, is longer than limit.
func overflowsLimit(s string, limit int) bool {
	width := 0
	for _, c := range s {
		if width += utf8.RuneCountInString(escapeRune(c)); width > limit {
			return true
		}
	}
	return false
}

func cutAt(s string, sentence, space int) string {
	switch {
	case sentence > len(s)/2:
		s = s[:sentence]
	case space > len(s)/2:
		s = s[:space]
	}
	return s + " …"
}
