// Package mask replaces secrets in text by a short keyed tag, so that nothing
// secret reaches a file, a prompt, a log line or a chat message, while two
// places that held the same secret can still be told to be the same.
//
// It takes only what is a secret with high confidence: values that we hold
// ourselves, tokens of known shapes, and values that stand under a key such as
// password. Names, ids and digests stay readable. Masking is irreversible,
// idempotent, and linear in the size of the text. A text keeps its lines: where a
// secret stands on several, a tag stands on each.
package mask

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
)

// The shape of a tag: ‹secret:3f9a›.
const (
	tagOpen  = "‹secret:"
	tagClose = "›"
	tagHex   = 4
	tagLen   = len(tagOpen) + tagHex + len(tagClose)
)

// Masker masks text. It is safe for concurrent use.
type Masker struct {
	key    []byte
	known  *lexicon
	memory *memory // nil learns nothing
	count  *atomic.Int64
}

// New returns a Masker whose tags are keyed by key. The known values (API keys,
// webhook URLs, tokens that this process holds) are masked wherever they stand,
// also encoded; values shorter than six bytes are ignored, since
// masking them would destroy ordinary text.
func New(key []byte, values ...string) *Masker {
	m := &Masker{key: append([]byte(nil), key...), count: new(atomic.Int64)}
	m.known = newLexicon(m.variants(values))
	return m
}

// With returns a Masker that knows these values as well. Tags, count and memory are m's.
func (m *Masker) With(values ...string) *Masker {
	more := *m
	more.known = newLexicon(m.known.words, m.variants(values))
	return &more
}

// Count returns how many secrets were masked so far.
func (m *Masker) Count() int64 { return m.count.Load() }

// Bytes is String for bytes. JSON stays valid JSON.
func (m *Masker) Bytes(b []byte) []byte { return []byte(m.String(string(b))) }

// String returns s with its secrets replaced by tags. JSON stays valid JSON.
func (m *Masker) String(s string) string {
	m.noteNames(s)
	return m.text(s, 0)
}

// text masks a text that is encoded in so many others.
func (m *Masker) text(s string, level int) string {
	before := m.learned()
	masked := m.maskKnown(s)
	masked = m.maskSecretObjects(masked)
	masked = m.maskEncoded(masked, level)
	masked = m.maskRules(masked)
	if m.learned() != before {
		// What was learned may stand before the name that gave it away.
		masked = m.maskKnown(masked)
	}
	return m.keepJSON(s, masked)
}

// Tag returns the tag that stands for value.
func (m *Masker) Tag(value string) string {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(value))
	return tagOpen + hex.EncodeToString(h.Sum(nil))[:tagHex] + tagClose
}

// onLines puts a tag in the place of a secret, on each of its lines.
func onLines(tag, secret string) string {
	if strings.IndexByte(secret, '\n') < 0 {
		return tag
	}
	var out strings.Builder
	for line := range strings.SplitAfterSeq(secret, "\n") {
		if text := strings.TrimRight(line, "\r\n"); text != "" {
			out.WriteString(tag)
			line = line[len(text):]
		}
		out.WriteString(line)
	}
	return out.String()
}

// onlyTags reports whether a text is one tag, or the same on several lines.
func onlyTags(s string) bool {
	if isTag(s) && len(s) == tagLen {
		return true
	}
	found := false
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s[tagLen:]) {
		if !isTag(s) {
			return false
		}
		found = true
	}
	return found
}

// tagFor returns the tag that stands for a value that is written in one way or another.
func (m *Masker) tagFor(text string) string { return m.Tag(plainly(text)) }

// Tagged reports whether a tag stands in a text.
func Tagged(text string) bool { return strings.Contains(text, tagOpen) }

// part is s[from:to].
type part struct{ from, to int }

// walk is one walk over a text.
type walk struct {
	m     *Masker
	s     string
	out   strings.Builder
	done  int
	ahead []part // found in front of where the walk is, by from
	found []string
}

// maskRules walks once over s and applies the rules where their hints stand.
func (m *Masker) maskRules(s string) string {
	w := walk{m: m, s: s}
	for at := 0; at < len(s); {
		switch {
		case len(w.ahead) > 0 && w.ahead[0].from <= at:
			p := w.ahead[0]
			w.ahead = w.ahead[1:]
			if w.take(p) {
				at = p.to
			}
		case s[at] == tagOpen[0] && isTag(s[at:]):
			at += tagLen
		default:
			if p := w.find(at); w.take(p) {
				at = max(at, p.to)
			} else {
				at++
			}
		}
	}
	if w.done == 0 {
		return s
	}
	m.learn(w.found)
	return w.out.String() + s[w.done:]
}

// take has a tag stand for a part, unless it is none, or is masked already.
func (w *walk) take(p part) bool {
	if p.from < w.done || p.from >= p.to || onlyTags(w.s[p.from:p.to]) {
		return false
	}
	secret := w.s[p.from:p.to]
	quote := barely(w.s, p.from)
	w.out.WriteString(w.s[w.done:p.from] + quote + onLines(w.m.tagFor(secret), secret) + quote)
	w.m.count.Add(1)
	if w.m.memory != nil {
		w.found = append(w.found, secret)
	}
	w.done = p.to
	return true
}

// find returns the secret that a hint at s[at] leads to.
func (w *walk) find(at int) part {
	near := rules.at(w.s, at)
	for i := range near {
		r := &near[i]
		if !r.at(w.s, at) {
			continue
		}
		if r.each != nil {
			w.expect(r.each(w.s, at))
		}
		if from, to := r.find(w.s, at); from >= 0 && from < to {
			return part{from, to}
		}
	}
	return part{-1, -1}
}

// expect keeps parts for when the walk gets there.
func (w *walk) expect(parts []part) {
	if len(parts) == 0 {
		return
	}
	w.ahead = append(w.ahead, parts...)
	slices.SortStableFunc(w.ahead, func(a, b part) int { return a.from - b.from })
}

// isTag reports whether s starts with a tag.
func isTag(s string) bool {
	if len(s) < tagLen || !strings.HasPrefix(s, tagOpen) || s[tagLen-len(tagClose):tagLen] != tagClose {
		return false
	}
	for _, c := range []byte(s[len(tagOpen) : len(tagOpen)+tagHex]) {
		if !isHex(c) {
			return false
		}
	}
	return true
}
