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
	key   []byte
	known []known
	count *atomic.Int64
}

// New returns a Masker whose tags are keyed by key. The known values (API keys,
// webhook URLs, tokens that this process holds) are masked wherever they stand,
// also base64-encoded; values shorter than six bytes are ignored, since
// masking them would destroy ordinary text.
func New(key []byte, values ...string) *Masker {
	m := &Masker{key: append([]byte(nil), key...), count: new(atomic.Int64)}
	m.known = m.variants(values)
	return m
}

// With returns a Masker that knows these values as well. Tags and count are m's.
func (m *Masker) With(values ...string) *Masker {
	return &Masker{key: m.key, known: longestFirst(slices.Concat(m.known, m.variants(values))), count: m.count}
}

// Count returns how many secrets were masked so far.
func (m *Masker) Count() int64 { return m.count.Load() }

// Bytes is String for bytes. JSON stays valid JSON.
func (m *Masker) Bytes(b []byte) []byte { return []byte(m.String(string(b))) }

// String returns s with its secrets replaced by tags. JSON stays valid JSON.
func (m *Masker) String(s string) string {
	masked := m.maskKnown(s)
	masked = m.maskSecretObjects(masked)
	return m.keepJSON(s, m.maskRules(masked))
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

// Tagged reports whether a tag stands in a text.
func Tagged(text string) bool { return strings.Contains(text, tagOpen) }

// maskRules walks once over s and applies the rules where their hints stand.
func (m *Masker) maskRules(s string) string {
	var out strings.Builder
	done := 0
	for at := 0; at < len(s); {
		if s[at] == tagOpen[0] && isTag(s[at:]) {
			at += tagLen
			continue
		}
		from, to := findSecret(s, at)
		if from < 0 || from < done || onlyTags(s[from:to]) {
			at++
			continue
		}
		out.WriteString(s[done:from])
		quote := barely(s, from)
		out.WriteString(quote + onLines(m.Tag(s[from:to]), s[from:to]) + quote)
		m.count.Add(1)
		done, at = to, to
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// findSecret returns the span of the secret that a hint at s[at] leads to, or
// -1, -1.
func findSecret(s string, at int) (from, to int) {
	for _, r := range rules.at(s, at) {
		if !r.at(s, at) {
			continue
		}
		if from, to = r.find(s, at); from >= 0 && from < to {
			return from, to
		}
	}
	return -1, -1
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
