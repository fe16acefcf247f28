package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden are the characters that a reader does not see. What cleans a text drops them, and
// what looks for secrets in one looks through them: both by this table.
var hidden = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// HiddenRunes yields the characters of the table.
func HiddenRunes() iter.Seq[rune] {
	return func(yield func(rune) bool) {
		for _, t := range hidden {
			for _, r := range t.R16 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					if !yield(c) {
						return
					}
				}
			}
			for _, r := range t.R32 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}

// HiddenAt returns the end of what is hidden at s[at], at where nothing is: one character,
// or an order to a terminal with its parameters and texts. Line ends and tabs are not
// hidden. Blank reports that a reader may see a blank in its place.
func HiddenAt(s string, at int) (end int, blank bool) {
	r, size := utf8.DecodeRuneInString(s[at:])
	switch r {
	case '\n', '\t':
		return at, false
	case '\r':
		return at + 1, !strings.HasPrefix(s[at+1:], "\n")
	case '\v', '\f', '\u0085', '\u2028', '\u2029':
		return at + size, true
	case '\x1b', '\u0090', '\u0098', '\u009b', '\u009d', '\u009e', '\u009f':
		return orderEnd(s, at+size, r), false
	}
	if !IsHidden(r) {
		return at, false
	}
	return at + size, false
}

// Bounds of an order to a terminal, beyond which its first character alone counts.
const (
	maxOrder     = 64   // a colour, a place of the cursor
	maxOrderText = 4096 // a title, an address
)

// orderEnd returns the end of an order to a terminal (ECMA-48) of which s[at:] follows its
// first character, at where it has none. One with a quote in it is taken for none: it may
// stand in a string that ends there.
func orderEnd(s string, at int, first rune) int {
	none := at
	if first == '\x1b' {
		if at >= len(s) {
			return none
		}
		kind := strings.IndexByte("[]PX^_", s[at])
		if kind < 0 {
			end := spanBytes(s, at, '#', '/')
			if end < len(s) && end-at < maxOrder && (end > at || strings.IndexByte(`78=>\`, s[end]) >= 0) && s[end] >= '0' && s[end] <= '~' {
				return end + 1 // a set of characters, the cursor, the keypad, an end
			}
			return none
		}
		first, at = rune("\u009b\u009d\u0090\u0098\u009e\u009f"[2*kind+1]), at+1
	}
	if first == '\u009b' {
		end := spanBytes(s, spanBytes(s, at, '0', '?'), '#', '/')
		if end < len(s) && end-at < maxOrder && s[end] >= '@' && s[end] <= '~' && s[end] != '\\' {
			return end + 1
		}
		return none
	}
	// It holds a text up to what closes it; any other control says that it never was one.
	for end := at; end < min(len(s), at+maxOrderText); end++ {
		switch c := s[end]; {
		case c == '\a':
			return end + 1
		case strings.HasPrefix(s[end:], "\x1b\\"), strings.HasPrefix(s[end:], "\u009c"):
			return end + 2
		case c < ' ', c == '"', c == 0x7F, c == 0xC2 && end+1 < len(s) && s[end+1] < 0xA0:
			return none
		}
	}
	return none
}

// spanBytes returns the end of the run of bytes from one to another that begins at s[at].
func spanBytes(s string, at int, from, to byte) int {
	for at < len(s) && s[at] >= from && s[at] <= to {
		at++
	}
	return at
}
