package mask

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"nightcrier.dev/nightcrier/internal/text"
)

// A text may be written so that a reader sees a name and a value where a search for them
// finds none: colours in the middle of a name, blanks of no width, directions, letters and
// signs of double width. Whoever cleans a text afterwards joins what they kept apart. So
// everything that package text drops or folds is looked through here, by its own table, as
// are the same characters written as escapes inside of strings.

// plain are the bytes that no disguise begins with, and heads the two bytes with which one
// begins that is no ASCII: most places of a text are dismissed by them.
var plain, heads = func() (plain [256]bool, heads [1 << 10]uint64) {
	for c := range plain {
		plain[c] = c >= ' ' && c < 0x7f && c != '\\' || c == '\n' || c == '\t'
	}
	add := func(r rune) {
		if b := string(r); r >= utf8.RuneSelf {
			n := pair(b[0], b[1])
			heads[n>>6] |= 1 << (n & 63)
		}
	}
	for r := range text.HiddenRunes() {
		add(r)
	}
	for _, t := range unicode.White_Space.R16 {
		for r := rune(t.Lo); r <= rune(t.Hi); r += rune(t.Stride) {
			add(r)
		}
	}
	for r := wideFirst; r <= wideLast; r++ {
		add(r)
	}
	add(utf8.RuneError)
	return plain, heads
}()

// isDisguised reports whether there is more in a text than a reader sees, or something else.
func isDisguised(s string) bool {
	for at := nextOdd(s, 0); at < len(s); at = nextOdd(s, at+1) {
		c, next := s[at], at
		switch {
		case c == '\\':
			if at+1 < len(s) && strings.IndexByte(escapeLetters, s[at+1]) >= 0 {
				_, next = readEscape(s, at+1-runOfSlashes(s, at+1))
				next = max(next, at)
			}
		case c < utf8.RuneSelf:
			_, next = readAt(s, at)
		default:
			_, size := utf8.DecodeRuneInString(s[at:])
			if size == 1 {
				return true
			}
			if n := pair(c, s[at+1]); heads[n>>6]&(1<<(n&63)) != 0 {
				if _, next = readAt(s, at); next > at {
					return true
				}
			}
			at += size - 1
			continue
		}
		if next > at {
			return true
		}
	}
	return false
}

// nextOdd is the first place of s, from at on, with a byte that is not plain.
func nextOdd(s string, at int) int {
	for at < len(s) {
		if at+8 <= len(s) && arePlain(s[at:at+8]) {
			at += 8
			continue
		}
		for end := min(len(s), at+8); at < end; at++ {
			if !plain[s[at]] {
				return at
			}
		}
	}
	return at
}

// arePlain reports whether eight bytes are plain, all at once: none is a control (also no
// line end), a backslash, or beyond ASCII.
func arePlain(s string) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	_ = s[7]
	word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	below := (word - each*' ') &^ word
	slash := word ^ each*'\\'
	slash = (slash - each) &^ slash
	above := word | (word + each) // beyond ASCII, or 0x7f
	return (below|slash|above)&high == 0
}

// runOfSlashes counts the backslashes that end at s[at].
func runOfSlashes(s string, at int) (n int) {
	for n < at && s[at-n-1] == '\\' {
		n++
	}
	return n
}

// reading is a text as its reader sees it.
type reading struct {
	text string
	// jumps are where what follows stands elsewhere in the text that was written.
	jumps []jump
	// orders reports whether there are orders to a terminal other than colours.
	orders bool
}

// jump says that text[at] of a reading, and what follows it, stands at from on. Other
// reports that what stands before it is seen as another character.
type jump struct {
	at, from int
	other    bool
}

// readText reads a text that was written with disguises, as one reads it who does what
// orders to a terminal say, or who only does not show what begins them.
func readText(s string, obeys bool) (plain, seen reading) {
	plain = readBy(s, func(s string, at int) (string, int) {
		if s[at] == '\\' {
			return readEscape(s, at)
		}
		return "", at
	})
	orders := false
	seen = readBy(plain.text, func(s string, at int) (string, int) {
		written, next := readAt(s, at)
		if head := orderHead(s, at); head > 0 && next > at+head && s[next-1] != 'm' && s[at+head] != '\\' {
			orders = true
			if !obeys {
				return "", at + head
			}
		}
		return written, next
	})
	seen.orders = orders
	return plain, seen
}

// readBy reads a text by what is seen of it at each place.
func readBy(s string, see func(s string, at int) (seen string, next int)) (r reading) {
	var out strings.Builder
	done := 0
	for at := 0; at < len(s); {
		seen, next := see(s, at)
		if next == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += max(size, slashesAt(s, at))
			continue
		}
		out.WriteString(s[done:at])
		if seen != "" {
			r.jumps = append(r.jumps, jump{at: out.Len(), from: at})
		}
		out.WriteString(seen)
		r.jumps = append(r.jumps, jump{out.Len(), next, seen != ""})
		at, done = next, next
	}
	if done == 0 {
		return reading{text: s}
	}
	out.WriteString(s[done:])
	r.text = out.String()
	return r
}

// readAt is what a reader sees of a disguise at s[at], and where it ends; at for none.
func readAt(s string, at int) (seen string, next int) {
	switch c := s[at]; {
	case c >= ' ' && c < 0x7f, c == '\n', c == '\t', c == '\r' && at+1 < len(s) && s[at+1] == '\n':
		return "", at
	}
	if end, blank := text.HiddenAt(s, at); blank {
		return " ", end
	} else if end > at {
		return "", end
	}
	r, size := utf8.DecodeRuneInString(s[at:])
	switch {
	case r == utf8.RuneError, r == '\uFE0E', r == '\uFE0F': // the first stands where something was hidden
		return "", at + size
	case r >= utf8.RuneSelf && unicode.IsSpace(r):
		return " ", at + size
	case r >= wideFirst && r <= wideLast:
		return string(r - wideFirst + '!'), at + size
	}
	return "", at
}

// Letters and signs of double width.
const (
	wideFirst = '\uFF01'
	wideLast  = '\uFF5E'
)

// orderHead is how long the control is that begins an order to a terminal.
func orderHead(s string, at int) int {
	switch {
	case s[at] == 0x1b:
		return 1
	case s[at] == 0xc2 && at+1 < len(s) && strings.IndexByte("\x90\x98\x9b\x9d\x9e\x9f", s[at+1]) >= 0:
		return 2
	}
	return 0
}

// escapeLetters are what stands behind the backslash of an escape that may be a disguise.
const escapeLetters = "ux0ebfr"

// readEscape reads a character that is written as \u200b, and is a disguise.
func readEscape(s string, at int) (seen string, next int) {
	slashes := slashesAt(s, at)
	word := at + slashes
	if word >= len(s) || at > 0 && s[at-1] == 0x1b { // which ends an order
		return "", at
	}
	r, end := rune(-1), word+1
	switch s[word] {
	case 'u':
		r, end = readUnicode(s, word, slashes)
	case 'x', '0', 'e':
		if esc := skipEscape(s, at); esc > at && esc < len(s) && (s[esc] == '[' || s[esc] == ']') {
			r, end = 0x1b, esc
		}
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'r':
		if breakAt(s, at) == at { // a line ends otherwise
			r = '\r'
		}
	}
	if r < 0 {
		return "", at
	}
	written := string(r)
	if seen, next := readAt(written, 0); next == 0 || seen == `"` || seen == `\` {
		return "", at
	}
	switch more := slashesAt(s, end); {
	case r != 0x1b || more == 0:
		return written, end
	case more >= 2*slashes: // its end, in the same escapes
		return written + `\`, end + 2*slashes
	}
	return "", end
}

// readUnicode reads u200b at s[at], or two of them that are one character; -1 for none.
func readUnicode(s string, at, slashes int) (r rune, end int) {
	r = readHex(s, at+1)
	if end = at + 5; !utf16.IsSurrogate(r) {
		return r, end
	}
	if next := end + slashes; next < len(s) && slashesAt(s, end) == slashes && s[next] == 'u' {
		if pair := utf16.DecodeRune(r, readHex(s, next+1)); pair != utf8.RuneError {
			return pair, next + 5
		}
	}
	return -1, end
}

// readHex reads the four digits at s[at], -1 where there are none.
func readHex(s string, at int) (r rune) {
	if at+4 > len(s) {
		return -1
	}
	for _, c := range []byte(strings.ToLower(s[at : at+4])) {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case isHex(c):
			r = r<<4 | rune(c-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// undisguised is what a reader sees of a text.
func undisguised(s string) string {
	if !isDisguised(s) {
		return s
	}
	_, seen := readText(s, true)
	return seen.text
}

// written is where text[at] of a reading stands in the text that was written.
func (r reading) written(at int) int {
	n := r.jumpBefore(at)
	if n < 0 {
		return at
	}
	return r.jumps[n].from + at - r.jumps[n].at
}

// writtenEnd is where text[:at] ends in the text that was written, without what is hidden
// behind it.
func (r reading) writtenEnd(at int) int {
	n := r.jumpBefore(at - 1)
	if next := n + 1; next < len(r.jumps) && r.jumps[next].at == at && r.jumps[next].other {
		return r.jumps[next].from
	}
	return r.written(at-1) + 1
}

// jumpBefore is the last jump up to text[at], -1 for none.
func (r reading) jumpBefore(at int) int {
	return sort.Search(len(r.jumps), func(i int) bool { return r.jumps[i].at > at }) - 1
}

// maskReading masks what a reader finds in a text, where that is written.
func (m *Masker) maskReading(s string, left *patience) string {
	for first := true; first || left.again(); first = false {
		before := s
		plain, seen := readText(s, true)
		s = m.maskSeen(s, plain, seen)
		if seen.orders && s == before {
			plain, seen = readText(s, false)
			s = m.maskSeen(s, plain, seen)
		}
		if s == before {
			break
		}
		s = m.walked(s, left)
	}
	return s
}

// maskSeen masks what is known, and what a name gives away, in a reading of a text.
func (m *Masker) maskSeen(s string, plain, seen reading) string {
	var out strings.Builder
	done := 0
	put := func(from, to int, tag, quote string) {
		from, to = plain.written(seen.written(from)), plain.writtenEnd(seen.writtenEnd(to))
		out.WriteString(s[done:from] + quote + onLines(tag, s[from:to]) + quote)
		done = to
	}
	known := m.known.matches(seen.text)
	if len(known) == 0 && m.memory != nil {
		known = m.memory.matches(seen.text)
	}
	for _, f := range known {
		put(f.from, f.to, f.tag, "")
	}
	m.count.Add(int64(len(known)))
	if len(known) == 0 {
		w := &walk{m: m, s: seen.text}
		w.everywhere()
		m.learn(w.found)
		for _, p := range w.taken {
			put(p.from, p.to, m.tagFor(seen.text[p.from:p.to]), barely(seen.text, p.from))
		}
	}
	return out.String() + s[done:]
}

// maskReadObjects masks the Secrets and the base64 that a reader finds in a text. Where they
// are disguised, all of the text loses its disguises: who takes it apart cannot say where
// it was written.
func (m *Masker) maskReadObjects(s string, level int, left *patience) string {
	for _, obeys := range []bool{true, false} {
		_, seen := readText(s, obeys)
		if masked := m.maskEncoded(m.maskSecretObjects(seen.text), level); masked != seen.text {
			masked, _ = m.maskRules(masked, left)
			s = m.maskAgain(masked, level, left)
		}
		if !seen.orders {
			break
		}
	}
	return s
}
