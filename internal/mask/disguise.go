package mask

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// A text may be written so that a reader sees a name and a value where a search for them
// finds none: colours in the middle of a name, blanks of no width, letters and signs of
// double width.

// disguises are what such texts have, as characters and as escapes inside of strings.
var disguises = []string{
	"\x1b[", `\u001b[`, `\u001B[`, `\x1b[`, `\x1B[`, `\033[`, `\e[`,
	"\u00a0", "\u00ad", "\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u2009", "\u202f", "\u2060", "\u3000", "\ufeff", "\xef\xbc", "\xef\xbd",
	`\u00a0`, `\u00ad`, `\u200`, `\u202f`, `\u2060`, `\u3000`, `\ufeff`, `\uff`,
}

func disguiseRules() (rules []rule) {
	for _, hint := range disguises {
		rules = append(rules, rule{hint: hint, disguise: true})
	}
	return rules
}

// reading is a text as its reader sees it.
type reading struct {
	text string
	// jumps are where what follows stands elsewhere in the text that was written.
	jumps []jump
}

// jump says that text[at] of a reading, and what follows it, stands at from on.
type jump struct{ at, from int }

func read(s string) reading {
	var r reading
	var out strings.Builder
	done := 0
	for at := 0; at < len(s); {
		seen, next := readAt(s, at)
		if next == at {
			at += max(1, slashesAt(s, at))
			continue
		}
		out.WriteString(s[done:at] + seen)
		r.jumps = append(r.jumps, jump{out.Len(), next})
		at, done = next, next
	}
	out.WriteString(s[done:])
	r.text = out.String()
	return r
}

// readAt is what a reader sees of a disguise at s[at], and where it ends; at for none.
func readAt(s string, at int) (seen string, next int) {
	switch c := s[at]; {
	case c == 0x1b:
		return "", skipColour(s, at)
	case c == '\\':
		if end := skipColour(s, at); end > at {
			return "", end
		}
		return readEscape(s, at)
	case c < utf8.RuneSelf:
		return "", at
	}
	r, size := utf8.DecodeRuneInString(s[at:])
	if seen, ok := seenAs(r); ok {
		return seen, at + size
	}
	return "", at
}

// readEscape reads a character that is written as \u200b.
func readEscape(s string, at int) (seen string, next int) {
	end := at + slashesAt(s, at)
	if end+5 > len(s) || s[end] != 'u' {
		return "", at
	}
	var r rune
	for _, c := range []byte(strings.ToLower(s[end+1 : end+5])) {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case isHex(c):
			r = r<<4 | rune(c-'a'+10)
		default:
			return "", at
		}
	}
	if seen, ok := seenAs(r); ok && seen != "\"" && seen != "\\" {
		return seen, end + 5
	}
	return "", at
}

// seenAs is what a reader sees of a character, if that is another one or nothing.
func seenAs(r rune) (string, bool) {
	switch {
	case r >= 0x200b && r <= 0x200f, r >= 0x2060 && r <= 0x2064, r == 0xfeff, r == 0xad:
		return "", true
	case r == 0xa0, r >= 0x2000 && r <= 0x200a, r == 0x202f, r == 0x205f, r == 0x3000:
		return " ", true
	case r >= 0xff01 && r <= 0xff5e:
		return string(r - 0xfee0), true
	}
	return "", false
}

// written is where text[at] of a reading stands in the text that was written.
func (r reading) written(at int) int {
	n := sort.Search(len(r.jumps), func(i int) bool { return r.jumps[i].at > at }) - 1
	if n < 0 {
		return at
	}
	return r.jumps[n].from + at - r.jumps[n].at
}

// maskReading masks what a reader finds in a text, where that is written.
func (m *Masker) maskReading(s string) string {
	for range maxRounds {
		r := read(s)
		w := &walk{m: m, s: r.text}
		w.everywhere()
		if w.done == 0 {
			break
		}
		m.learn(w.found)
		s = m.atWritten(s, r, w.taken)
		s, _ = m.walked(s)
	}
	return s
}

// atWritten has tags stand in a text for parts of its reading.
func (m *Masker) atWritten(s string, r reading, parts []shift) string {
	var out strings.Builder
	done := 0
	for _, p := range parts {
		from, to := r.written(p.from), r.written(p.to-1)+1
		secret, quote := r.text[p.from:p.to], barely(r.text, p.from)
		out.WriteString(s[done:from] + quote + onLines(m.tagFor(secret), s[from:to]) + quote)
		done = to
	}
	return out.String() + s[done:]
}
