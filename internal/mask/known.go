package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// minKnown is the length in bytes below which a known value is not looked for.
const minKnown = 6

// known is one spelling of a value that we hold.
type known struct{ text, tag string }

// variants returns every spelling of the values, the longest first, so that a
// value that contains another one is taken whole.
func (m *Masker) variants(values []string) []known {
	seen := map[string]bool{}
	var out []known
	for _, v := range values {
		v = strings.TrimSpace(v)
		for _, text := range spellings(v) {
			if len(text) >= minKnown && !seen[text] {
				seen[text] = true
				out = append(out, known{text, onLines(m.Tag(v), text)})
			}
		}
	}
	return longestFirst(out)
}

func longestFirst(list []known) []known {
	slices.SortStableFunc(list, func(a, b known) int { return len(b.text) - len(a.text) })
	return list
}

// spellings returns v as it stands in plain text, in JSON, in a URL, in hex, and in base64
// at each of the three alignments that it can have inside a longer value.
func spellings(v string) []string {
	if len(v) < minKnown {
		return nil
	}
	out := []string{v, url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v))}
	if quoted, err := json.Marshal(v); err == nil { // with <, > and & escaped, or not
		text := string(quoted[1 : len(quoted)-1])
		out = append(out, text, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text))
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

func (m *Masker) maskKnown(s string) string {
	for _, k := range m.known {
		if n := strings.Count(s, k.text); n > 0 {
			m.count.Add(int64(n))
			s = strings.ReplaceAll(s, k.text, k.tag)
		}
	}
	return s
}
