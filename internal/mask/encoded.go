package mask

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// minEncoded is the length of the shortest base64 that is looked into: that of a name, a
// sign and a short value.
const minEncoded = 20

// wrapped is how long a line of base64 is at least that goes on with the next one.
const wrapped = 60

// base64Bytes are those of both alphabets, without the padding.
var base64Bytes = func() (class [256]bool) {
	for c := range class {
		b := byte(c)
		class[c] = isTokenByte(b) || b == '+' || b == '/'
	}
	return class
}()

// maskEncoded has tags stand for base64 of texts in which there are secrets.
func (m *Masker) maskEncoded(s string, level int) string {
	if level >= maxEmbedded {
		return s
	}
	var out strings.Builder
	done := 0
	for at := nextRun(s, 0); at < len(s); {
		text, from, to := runAt(s, at)
		if plain, ok := textOf(text); ok && m.text(plain, level+1) != plain {
			out.WriteString(s[done:from] + onLines(m.Tag(text), s[from:to]))
			done = to
		}
		at = nextRun(s, to)
	}
	if done == 0 {
		return s
	}
	return out.String() + s[done:]
}

// nextRun is where the next run of base64 begins that is long enough, len(s) if none does.
func nextRun(s string, at int) int {
	for end := at + minEncoded - 1; end < len(s); {
		i := end
		for i > end-minEncoded && base64Bytes[s[i]] {
			i--
		}
		if i == end-minEncoded {
			return i + 1
		}
		end = i + minEncoded
	}
	return len(s)
}

// runAt returns the base64 that begins at s[at], with the lines on which it goes on, and
// where it stands.
func runAt(s string, at int) (text string, from, to int) {
	from = at
	if at > 0 && s[at-1] == '\\' && strings.IndexByte("nrt", s[at]) >= 0 {
		from++ // the letter of an escape
	}
	for line := from; ; {
		to = span(s, line, func(c byte) bool { return base64Bytes[c] })
		text += s[line:to]
		next := skipBlank(s, breakAt(s, to))
		if n := to - line; n < wrapped || n%4 != 0 || next == to || next >= len(s) || !base64Bytes[s[next]] {
			break
		}
		line = next
	}
	return text, from, span(s, to, func(c byte) bool { return c == '=' })
}

// textOf decodes base64 of text. That something else is no text mostly shows in its first
// bytes.
func textOf(run string) (string, bool) {
	enc := base64.RawStdEncoding
	if strings.ContainsAny(run, "-_") {
		enc = base64.RawURLEncoding
	}
	var head [9]byte
	if len(run) < 12 {
		return "", false
	}
	if _, err := enc.Decode(head[:], []byte(run[:12])); err != nil || !isText(string(head[:])) || !beginsValid(head[:]) {
		return "", false
	}
	if len(run)%4 == 1 {
		run = run[:len(run)-1]
	}
	plain, err := enc.DecodeString(run)
	return string(plain), err == nil && utf8.Valid(plain) && isText(string(plain))
}

// isText reports whether there is no byte in s that no text has.
func isText(s string) bool {
	return !has(s, func(c byte) bool { return c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f })
}

// beginsValid reports whether b is UTF-8 that may be cut within a character.
func beginsValid(b []byte) bool {
	for cut := range utf8.UTFMax {
		if utf8.Valid(b[:len(b)-cut]) {
			return true
		}
	}
	return false
}
