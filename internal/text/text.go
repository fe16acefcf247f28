package text

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis is the mark of a cut.
const ellipsis = "…"

// KeepBytes returns the first n bytes of s, or some fewer: it splits no character, and no
// tag that stands for a secret.
func KeepBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for end := n; end > n-utf8.UTFMax; end-- {
		if end == 0 || utf8.RuneStart(s[end]) {
			from, _ := tagAround(s, end)
			return s[:from]
		}
	}
	return s[:n] // no text
}

// The tags of package mask, ‹secret:3f9a›: the half of one would say that something else
// stood there.
const (
	tagOpen  = "‹"
	tagClose = "›"
	maxTag   = 24
)

// tagAround returns where the tag begins and ends that a cut at s[at] would split, at where
// it splits none.
func tagAround(s string, at int) (from, to int) {
	from = max(0, at-maxTag)
	open := strings.LastIndex(s[from:at], tagOpen)
	if open < 0 || strings.Contains(s[from+open:at], tagClose) {
		return at, at
	}
	from += open
	shut := strings.Index(s[from:min(len(s), from+maxTag)], tagClose)
	if shut < 0 {
		return at, at
	}
	return from, from + shut + len(tagClose)
}

// KeepWords is KeepBytes that breaks no word: the half of a secret is known for none. Of one that
// is left out, what stands before a sign is kept that no token has, so that a document without
// blanks is not lost. One of more than 4 KiB is broken all the same, and so is one that stands first.
func KeepWords(s string, n int) string {
	kept := KeepBytes(s, n)
	if len(kept) == len(s) {
		return s
	}
	blank := strings.LastIndexFunc(kept, unicode.IsSpace)
	ahead := s[len(kept):min(len(s), len(kept)+maxWord+1)]
	rest := strings.IndexFunc(ahead, unicode.IsSpace)
	if rest < 0 {
		rest = len(ahead)
	}
	if rest == 0 || blank < 0 || len(kept)-blank-1+rest > maxWord {
		return kept
	}
	if joint := strings.LastIndexAny(kept, joints); joint > blank {
		return kept[:joint+1]
	}
	return kept[:blank]
}

// joints are the signs at which a word is broken.
const joints = `,;"{}[]`

// KeepLines is KeepBytes that breaks no line where one ends in the second half.
func KeepLines(s string, n int) string {
	s, whole := KeepBytes(s, n), s
	if at := strings.LastIndexByte(s, '\n'); len(s) < len(whole) && at > len(s)/2 {
		return s[:at+1]
	}
	return s
}

// KeepLastLines is KeepLines for the end of a text.
func KeepLastLines(s string, n int) string {
	if len(s) <= n {
		return s
	}
	whole := s
	s = s[len(s)-max(n, 0):]
	if at := strings.IndexByte(s, '\n'); at >= 0 && at < len(s)/2 {
		return s[at+1:]
	}
	for from := range utf8.UTFMax {
		if from == len(s) || utf8.RuneStart(s[from]) {
			_, to := tagAround(whole, len(whole)-len(s)+from)
			return whole[to:]
		}
	}
	return s // no text
}

// CutBytes returns s in at most n bytes.
func CutBytes(s string, n int) string {
	s = valid(s)
	switch {
	case len(s) <= n:
		return s
	case n < len(ellipsis):
		return ""
	}
	return KeepBytes(s, n-len(ellipsis)) + ellipsis
}

// maxWord is the longest word, in bytes, that KeepWords and CutWords leave out.
const maxWord = 4 << 10

// CutWords is CutBytes that breaks no word, as KeepWords.
func CutWords(s string, n int) string {
	s = valid(s)
	if len(s) <= n || n < len(ellipsis) {
		return CutBytes(s, n)
	}
	return KeepWords(s, n-len(ellipsis)) + ellipsis
}

// CutRunes returns s in at most n characters.
func CutRunes(s string, n int) string {
	if n <= 0 {
		return ""
	}
	s = valid(s)
	last := 0 // where the character begins that the mark replaces
	for at := range s {
		switch n--; {
		case n == 0:
			last = at
		case n < 0:
			last, _ = tagAround(s, last)
			return s[:last] + ellipsis
		}
	}
	return s
}

// CutLine returns s on one line, as FoldLine does, in at most n bytes. It reads no
// further than it needs to.
func CutLine(s string, n int) string { return CutBytes(fold(s, n+maxTag), n) }

// CutMiddle returns s on one line, in at most n bytes. What is too long loses its middle:
// an error says at its end why. The end begins with a whole word, so that it can be looked
// for where it is from.
func CutMiddle(s string, n int) string {
	const mark = " " + ellipsis + " "
	s = FoldLine(s)
	if len(s) <= n || n <= 8*len(mark) {
		return CutBytes(s, n)
	}
	head := KeepBytes(s, (n-len(mark))/2)
	from := len(s) - (n - len(mark) - len(head))
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	if before, _ := utf8.DecodeLastRuneInString(s[:from]); isWordRune(before) {
		if end := strings.IndexFunc(s[from:], func(r rune) bool { return !isWordRune(r) }); end > 0 && end <= maxPart {
			from += end
		}
	}
	_, from = tagAround(s, from)
	return head + mark + strings.TrimLeft(s[from:], " ")
}

// maxPart is how much of a word is left out with the middle that it stands in, in bytes.
const maxPart = 40

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// FoldLine returns s on one line: white space of any kind is one space between words, and
// what is hidden is dropped, orders to a terminal whole.
func FoldLine(s string) string { return fold(s, math.MaxInt) }

// fold is FoldLine that stops when it has written more than n bytes.
func fold(s string, n int) string {
	var b strings.Builder
	b.Grow(max(0, min(len(s), n)))
	space := false
	s = valid(s)
	for at := 0; at < len(s) && b.Len() <= n; {
		end, blank := HiddenAt(s, at)
		r, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case blank, end == at && unicode.IsSpace(r):
			space = b.Len() > 0
		case end == at:
			if space {
				b.WriteByte(' ')
				space = false
			}
			b.WriteString(s[at : at+size])
		}
		at = max(end, at+size)
	}
	return b.String()
}

// DropHidden returns s without what is hidden but line ends and tabs. What only some
// readers take for a line end or a blank is a blank.
func DropHidden(s string) string {
	return replaceHidden(s, func(blank string) string { return blank })
}

// replaceHidden replaces what is hidden by what becomes of it: seen is the blank that some
// readers see in its place, or "". A carriage return that belongs to a line end is dropped.
func replaceHidden(s string, becomes func(seen string) string) string {
	var b strings.Builder
	s = valid(s)
	done := 0
	for at := 0; at < len(s); {
		if c := s[at]; c >= ' ' && c < 0x7F {
			at++
			continue
		}
		end, blank := HiddenAt(s, at)
		if end == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
			continue
		}
		b.WriteString(s[done:at])
		switch {
		case blank:
			b.WriteString(becomes(" "))
		case s[at] != '\r':
			b.WriteString(becomes(""))
		}
		at, done = end, end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// MarkHidden returns s with U+FFFD for each character that is hidden, but line ends and
// tabs, and for each order to a terminal: a reader shall know that something stands there.
func MarkHidden(s string) string {
	return replaceHidden(s, func(string) string { return string(utf8.RuneError) })
}

// IsHidden reports whether a reader does not see a character, though a terminal may obey
// it, a line may turn round at it, or a model may read it: controls (line ends and tabs
// among them), directions, joiners, tags and fillers.
func IsHidden(r rune) bool {
	if r < 0x80 {
		return r < ' ' || r == 0x7F
	}
	return unicode.In(r, hidden...) && r != '\uFE0E' && r != '\uFE0F' // which tell ☎ from ☎️
}

// MaskClean masks s before it is cleaned, and again what a cleaner has joined: it may take a
// text for one line of which masking has seen several, or the other way round. A nil mask
// masks nothing.
func MaskClean(s string, mask, clean func(string) string) string {
	if mask == nil {
		return clean(s)
	}
	masked := mask(s)
	cleaned := clean(masked)
	if cleaned == masked {
		return cleaned
	}
	return mask(cleaned)
}

// valid is s in UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

// DigestOf is the SHA-256 of data, in hexadecimal.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
