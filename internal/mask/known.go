package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"sort"
	"strings"
)

// minKnown is the length in bytes below which a known value is not looked for.
const minKnown = 6

// known is one spelling of a value, and the tag of that value.
type known struct{ text, tag string }

// variants returns every spelling of the values.
func (m *Masker) variants(values []string) []known {
	var out []known
	for _, v := range values {
		v = strings.TrimSpace(v)
		tag := m.Tag(v)
		for _, text := range spellings(v) {
			if len(text) >= minKnown {
				out = append(out, known{text, tag})
			}
		}
	}
	return out
}

// spellings returns v as it stands in plain text, in JSON, in JSON within JSON, in a URL,
// in hex, and in base64 at each of the three alignments that it can have inside a longer
// value.
func spellings(v string) []string {
	if len(v) < minKnown {
		return nil
	}
	digits := hex.EncodeToString([]byte(v))
	out := []string{v, digits, strings.ToUpper(digits)}
	for _, text := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		out = append(out, text, lowerEscapes(text))
	}
	once := escaped(v)
	out = append(out, once...)
	for _, text := range once {
		out = append(out, escaped(text)...)
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for pad := range 3 {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", pad) + v))
			// The first characters also encode the padding, the last ones what
			// would follow: only those in between depend on v alone.
			skip := []int{0, 2, 3}[pad]
			last := (pad + len(v)) * 8 / 6
			if last-skip >= minKnown+2 {
				out = append(out, text[skip:last])
			}
		}
		out = append(out, enc.EncodeToString([]byte(v)))
	}
	return out
}

// escaped returns v as it stands in a JSON string, with <, > and & escaped, or not.
func escaped(v string) []string {
	quoted, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	text := string(quoted[1 : len(quoted)-1])
	return []string{text, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)}
}

// lowerEscapes writes the escapes of a URL as %2f, not as %2F.
func lowerEscapes(s string) string {
	out := []byte(s)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], strings.ToLower(s[i+1:i+3]))
		}
	}
	return string(out)
}

// lexicon finds words in a text in one walk, however many words there are. It is made
// once and only read.
type lexicon struct {
	words []known // sorted by text, each text once
	// under is for each word the longest other one that it begins with, or -1.
	under []int
	// heads has a bit for what the four bytes at each of the first stride places of a word
	// hash to: a text is dismissed by looking at every stride-th place of it.
	heads [1 << 10]uint64
}

// newLexicon holds the words of all lists. Of a text that stands in two of them the first
// one's tag is taken.
func newLexicon(lists ...[]known) *lexicon {
	words := slices.Concat(lists...)
	slices.SortStableFunc(words, func(a, b known) int { return strings.Compare(a.text, b.text) })
	words = slices.CompactFunc(words, func(a, b known) bool { return a.text == b.text })
	x := &lexicon{words: words, under: make([]int, len(words))}
	var open []int // the words that the one before begins with
	for i, w := range words {
		for len(open) > 0 && !strings.HasPrefix(w.text, words[open[len(open)-1]].text) {
			open = open[:len(open)-1]
		}
		x.under[i] = -1
		if len(open) > 0 {
			x.under[i] = open[len(open)-1]
		}
		open = append(open, i)
		for at := range stride {
			bit := hashed4(w.text[at : at+4])
			x.heads[bit>>6] |= 1 << (bit & 63)
		}
	}
	return x
}

// stride is how many places of a text are dismissed by one look.
const stride = minKnown - 4 + 1

// hashed4 hashes four bytes to 16 bits.
func hashed4(s string) uint32 {
	_ = s[3]
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 0x9e3779b1 >> 16
}

// next is the first of the next stride places, from at on, at one of which a word may
// begin; len(s) when there are none.
func (x *lexicon) next(s string, at int) int {
	heads := &x.heads
	for at += stride - 1; at+4 <= len(s); at += stride {
		if bit := hashed4(s[at : at+4]); heads[bit>>6&(1<<10-1)]&(1<<(bit&63)) != 0 {
			return at - stride + 1
		}
	}
	return len(s)
}

// longest returns the longest word that s begins with, nil when there is none.
func (x *lexicon) longest(s string) *known {
	// Whatever s begins with, the last word that is not behind it begins with as well.
	n := sort.Search(len(x.words), func(i int) bool { return x.words[i].text > s }) - 1
	for n >= 0 && !strings.HasPrefix(s, x.words[n].text) {
		n = x.under[n]
	}
	if n < 0 {
		return nil
	}
	return &x.words[n]
}

// match is where words stand that overlap, and the tag of the longest.
type match struct {
	from, to int
	tag      string
}

// matches returns where words stand in s, in order. What is a tag is no text.
func (x *lexicon) matches(s string) []match {
	if len(x.words) == 0 {
		return nil
	}
	var all []match
	longest := 0
	for first := x.next(s, 0); first < len(s); first = x.next(s, first+stride) {
		for at := first; at < min(len(s), first+stride); at++ {
			w := x.longest(s[at:])
			if w == nil || inTag(s, at) {
				continue
			}
			to := at + len(w.text)
			if len(all) == 0 || all[len(all)-1].to <= at {
				all, longest = append(all, match{at, to, w.tag}), len(w.text)
				continue
			}
			last := &all[len(all)-1]
			last.to = max(last.to, to)
			if len(w.text) > longest {
				longest, last.tag = len(w.text), w.tag
			}
		}
	}
	return all
}

// inTag reports whether s[at] is within a tag.
func inTag(s string, at int) bool {
	from := max(0, at-tagLen+1)
	mark := tagOpen[:len("‹")]
	open := strings.LastIndex(s[from:min(len(s), at+len(mark))], mark)
	return open >= 0 && isTag(s[from+open:])
}

// maskKnown has tags stand for the values that we hold, and for those that were learned.
func (m *Masker) maskKnown(s string) string {
	s = m.replace(s, m.known.matches(s))
	if m.memory == nil {
		return s
	}
	return m.replace(s, m.memory.matches(s))
}

func (m *Masker) replace(s string, all []match) string {
	if len(all) == 0 {
		return s
	}
	var out strings.Builder
	done := 0
	for _, f := range all {
		out.WriteString(s[done:f.from] + onLines(f.tag, s[f.from:f.to]))
		done = f.to
	}
	m.count.Add(int64(len(all)))
	return out.String() + s[done:]
}
