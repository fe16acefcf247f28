package mask

import "strings"

// maxColour is how long a colour's sequence is: ESC [ 38;2;255;255;255 m.
const maxColour = 24

// escapes are the ways to write the escape character inside a string.
var escapes = []string{"u001b", "u001B", "x1b", "x1B", "033", "e"}

// skipColour skips colours of a terminal, which may stand between a name, its sign and its
// value.
func skipColour(s string, at int) int {
	for at < len(s) && (s[at] == 0x1b || s[at] == '\\') {
		open := at + 1
		if s[at] == '\\' {
			open = skipEscape(s, at)
		}
		end := span(s[:min(len(s), at+maxColour)], open+1, func(c byte) bool { return isDigit(c) || c == ';' })
		if open >= len(s) || s[open] != '[' || end >= len(s) || !isLetter(s[end]) {
			return at
		}
		at = end + 1
	}
	return at
}

// skipEscape skips an escape character that is written as \u001b, or the like.
func skipEscape(s string, at int) int {
	word := span(s, at, func(c byte) bool { return c == '\\' })
	for _, e := range escapes {
		if strings.HasPrefix(s[word:], e) {
			return word + len(e)
		}
	}
	return at
}

// skipGap skips blanks and colours.
func skipGap(s string, at int) int {
	for {
		next := skipColour(s, skipBlank(s, at))
		if next == at {
			return at
		}
		at = next
	}
}

// endsColour reports whether s ends in a colour.
func endsColour(s string) bool {
	open := strings.LastIndexByte(s[max(0, len(s)-maxColour):], '[')
	if open < 0 {
		return false
	}
	open += max(0, len(s)-maxColour)
	if has(s[open+1:len(s)-1], func(c byte) bool { return !isDigit(c) && c != ';' }) {
		return false
	}
	head := s[:open]
	if strings.HasSuffix(head, "\x1b") {
		return true
	}
	for _, e := range escapes {
		if strings.HasSuffix(head, `\`+e) {
			return true
		}
	}
	return false
}
