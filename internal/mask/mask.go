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
	"crypto/rand"
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

// Fresh returns a learning Masker whose tags nothing else has.
func Fresh(values ...string) *Masker {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return New(key, values...).Learning()
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
	left := newPatience()
	masked, disguised := m.maskRules(masked, left)
	if masked = m.maskAgain(masked, level, left); disguised {
		masked = m.maskReadObjects(masked, level, left)
	}
	if m.learned() != before {
		// What was learned may stand before the name that gave it away.
		masked = m.maskKnown(masked)
	}
	return m.keepJSON(s, masked)
}

// maskAgain masks the objects and the base64 in a text once more in which tags have come to
// stand: they may begin and end elsewhere now.
func (m *Masker) maskAgain(s string, level int, left *patience) string {
	for first := true; first || left.again(); first = false {
		again := m.maskSecretObjects(s)
		if tagsTouch(again, func(c byte) bool { return base64Bytes[c] }) {
			again = m.maskEncoded(again, level)
		}
		if again == s {
			break
		}
		s, _ = m.maskRules(again, left)
	}
	return s
}

// tagsTouch reports whether a tag stands right beside a byte of the class.
func tagsTouch(s string, class func(byte) bool) bool {
	for at := 0; ; at += len(tagOpen) {
		n := strings.Index(s[at:], tagOpen)
		if n < 0 {
			return false
		}
		at += n
		if at > 0 && class(s[at-1]) || at+tagLen < len(s) && class(s[at+tagLen]) {
			return true
		}
	}
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

// isMasked reports whether a text holds tags, and nothing else but the names and signs that
// stand before them: what a rule takes that looks further than the one did that put them
// there. What else stands beside a tag is a part of a secret.
func isMasked(s string) bool {
	found := false
	for at := strings.Index(s, tagOpen); at >= 0; at = strings.Index(s, tagOpen) {
		if !isTag(s[at:]) || !isLead(s[:at]) {
			return false
		}
		found, s = true, s[at+tagLen:]
	}
	return found && strings.TrimSpace(s) == ""
}

// isLead reports whether a text is nothing, or the name of a secret with its sign.
func isLead(s string) bool {
	s = strings.TrimSpace(s)
	name := strings.TrimRight(s, "\"'\\:=> \t")
	return s == "" || len(name) < len(s) && span(name, 0, isNameByte) == len(name) && endsInKey(name)
}

// endsInKey reports whether a name is that of a secret.
func endsInKey(name string) bool {
	return slices.ContainsFunc(keys, func(k key) bool {
		at := len(name) - len(k.word)
		return at >= 0 && strings.EqualFold(name[at:], k.word)
	})
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
	// hints are where hints stand that no tag has taken the place of so far, as places of
	// out once shifted.
	hints []int
	taken []shift
	// close are the parts beside which hints are asked again, where not all are.
	close []part
}

// shift is a part of a text that something longer or shorter stands for.
type shift struct {
	part
	by int // how much farther on everything behind it stands
}

// maxRounds is how often a text is walked over again in which tags have come to stand, by all that
// walk over it together. Only who tries to have secrets look like names of others needs more than a
// few.
const maxRounds = 16

// wholeRounds is how often all hints are asked again. From then on only those are near which
// something was taken: of a text in which one value grows round by round, most stays as it is.
const wholeRounds = 2

// patience is how often a text is still walked over again.
type patience int

func newPatience() *patience {
	p := patience(maxRounds)
	return &p
}

// again takes one of the walks that are left, and reports whether there was one.
func (p *patience) again() bool {
	*p--
	return *p >= 0
}

// maskRules walks over s and applies the rules where their hints stand. Where tags stand
// now, a rule may find what it did not before: the hints are asked again until none does,
// so that masking what is masked changes nothing. It reports whether s is disguised.
func (m *Masker) maskRules(s string, left *patience) (masked string, disguised bool) {
	if disguised = isDisguised(s); disguised {
		s = m.maskReading(s, left) // before a part of what is meant is taken for the whole
	}
	return m.walked(s, left), disguised
}

// walked is a text in whose walks nothing more is found.
func (m *Masker) walked(s string, left *patience) string {
	w := &walk{m: m, s: s}
	w.everywhere()
	for round := 1; w.done > 0; round++ {
		m.learn(w.found)
		w.out.WriteString(w.s[w.done:])
		s = w.out.String()
		if !left.again() {
			break
		}
		next := &walk{m: m, s: s, hints: w.shifted()}
		if round > wholeRounds {
			next.close = w.besideTaken()
		}
		w = next
		w.again()
	}
	return s
}

// everywhere walks over all of a text, and takes note of where hints stand.
func (w *walk) everywhere() {
	for at := rules.next(w.s, 0); at < len(w.s); {
		switch {
		case len(w.ahead) > 0 && w.ahead[0].from <= at:
			at = max(at, w.takeAhead())
		case w.s[at] == tagOpen[0] && isTag(w.s[at:]):
			at += tagLen
		default:
			p := w.find(at)
			if !w.take(p) {
				at = rules.next(w.s, at+1)
				continue
			}
			w.note(at+1, p.from)
			at = max(at+1, p.to)
		}
	}
}

// note takes note of the hints in s[from:to], which is not walked over.
func (w *walk) note(from, to int) {
	for at := rules.next(w.s, from); at < to; at = rules.next(w.s, at+1) {
		switch {
		case w.s[at] == tagOpen[0] && isTag(w.s[at:]):
			at += tagLen - 1
		case rules.hints(w.s, at):
			w.hints = append(w.hints, at)
		}
	}
}

// again walks over the hints of a text alone.
func (w *walk) again() {
	hints, from := w.hints, 0
	w.hints = make([]int, 0, len(hints))
	near := w.close
	for i, at := range append(hints, len(w.s)) {
		for len(near) > 0 && near[0].to < at {
			near = near[1:]
		}
		for len(w.ahead) > 0 && w.ahead[0].from <= at {
			from = max(from, w.takeAhead())
		}
		if i == len(hints) {
			break
		}
		if at < from || w.close != nil && (len(near) == 0 || at < near[0].from) {
			w.hints = append(w.hints, at)
		} else if p := w.find(at); w.take(p) {
			from = max(from, p.to)
		}
	}
}

// takeAhead takes the first of the parts ahead, and returns where it ends; 0 for one that
// is not taken.
func (w *walk) takeAhead() int {
	p := w.ahead[0]
	w.ahead = w.ahead[1:]
	if !w.take(p) {
		return 0
	}
	return p.to
}

// take has a tag stand for a part, unless it is none, or is masked already.
func (w *walk) take(p part) bool {
	if p.from < w.done || p.from >= p.to || isMasked(w.s[p.from:p.to]) {
		return false
	}
	if w.done == 0 {
		w.out.Grow(len(w.s))
	}
	secret := w.s[p.from:p.to]
	quote := barely(w.s, p.from)
	w.out.WriteString(w.s[w.done:p.from] + quote + onLines(w.m.tagFor(secret), secret) + quote)
	w.taken = append(w.taken, shift{p, w.out.Len() - p.to})
	w.m.count.Add(1)
	if w.m.memory != nil {
		w.found = append(w.found, secret)
	}
	w.done = p.to
	return true
}

// besideTaken is what lies around the parts that were taken, once tags stand for them.
func (w *walk) besideTaken() []part {
	all, by := make([]part, 0, len(w.taken)), 0
	for _, t := range w.taken {
		all = append(all, part{t.from + by - 2*window, t.to + t.by + 2*window})
		by = t.by
	}
	return all
}

// shifted returns where the hints stand once tags stand for what was taken.
func (w *walk) shifted() []int {
	var out []int
	by, next := 0, 0
	for _, at := range w.hints {
		for next < len(w.taken) && w.taken[next].to <= at {
			by = w.taken[next].by
			next++
		}
		if next == len(w.taken) || at < w.taken[next].from {
			out = append(out, at+by)
		}
	}
	return out
}

// find returns the secret that a hint at s[at] leads to.
func (w *walk) find(at int) part {
	near := rules.at(w.s, at)
	hint := false
	for i := range near {
		r := &near[i]
		if !r.at(w.s, at) {
			continue
		}
		if !hint {
			hint = true
			w.hints = append(w.hints, at)
		}
		if r.each != nil {
			w.expect(r.each(w.s, at))
		}
		if r.find == nil {
			continue
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
