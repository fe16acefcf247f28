package mask

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"nightcrier.dev/nightcrier"
)

// What a run remembers. It is bounded, as whoever writes a log can have any number of
// values be learned.
const (
	maxLearned      = 2000      // values
	maxLearnedBytes = 256 << 10 // all of them together
	maxNames        = 10000
)

// How long a value is that is learned. A shorter one is likely to be a word, of a longer
// one the forms would take more room than they are worth.
const (
	minLearned = 8
	maxLearn   = 512
)

// memory is what a run has learned: values that were masked for their names, or for their
// shape, and that are masked from then on wherever they stand. It is safe for concurrent use.
type memory struct {
	key *Masker // makes the tags

	mu     sync.Mutex
	values map[string]bool
	bytes  int
	// plain are values that are no secrets whatever else says so: names of objects.
	plain  map[string]bool
	missed int64
	words  atomic.Pointer[lexicon]
}

// Learning returns a Masker that remembers what it masks: each value that is long and
// mixed enough to be no word is masked from then on wherever it stands, also encoded, by
// all that share the Masker. Names, such as those of the objects that are looked into, are
// never learned; the Masker takes note of those that it sees in objects.
func (m *Masker) Learning(names ...string) *Masker {
	own := *m
	own.memory = &memory{key: m, values: map[string]bool{}, plain: map[string]bool{}}
	own.memory.words.Store(newLexicon())
	own.Spare(names...)
	return &own
}

// Sharing returns m with the memory of another Masker: both know what either learns.
func (m *Masker) Sharing(other *Masker) *Masker {
	own := *m
	if other != nil {
		own.memory = other.memory
	}
	return &own
}

// Spare has these names never be learned.
func (m *Masker) Spare(names ...string) {
	if m.memory == nil {
		return
	}
	m.memory.forget(names)
	for _, name := range names {
		m.memory.notePlain(name)
	}
}

// Missed returns how many values were not remembered for want of room. They are masked
// where their names stand, and nowhere else.
func (m *Masker) Missed() int64 {
	if m.memory == nil {
		return 0
	}
	m.memory.mu.Lock()
	defer m.memory.mu.Unlock()
	return m.memory.missed
}

// learned changes when values are learned or forgotten.
func (m *Masker) learned() *lexicon {
	if m.memory == nil {
		return nil
	}
	return m.memory.words.Load()
}

// learn remembers values in what they encode, too.
func (m *Masker) learn(found []string) {
	if m.memory == nil || len(found) == 0 {
		return
	}
	k := m.memory
	k.mu.Lock()
	defer k.mu.Unlock()
	var fresh []string
	for _, text := range found {
		v := plainly(strings.Trim(text, `"'`))
		fresh = append(fresh, k.admit(v)...)
		if text != v && strings.IndexByte(v, ':') > 0 { // user:password
			fresh = append(fresh, k.admit(v[strings.IndexByte(v, ':')+1:])...)
		}
	}
	if len(fresh) > 0 {
		k.words.Store(newLexicon(k.words.Load().words, k.key.variants(fresh)))
	}
}

// admit takes a value in, and returns it if it is new.
func (k *memory) admit(v string) []string {
	switch {
	case !learnable(v) || k.plain[v] || k.values[v]:
		return nil
	case len(k.values) >= maxLearned || k.bytes+len(v) > maxLearnedBytes:
		k.missed++
		return nil
	}
	k.values[v] = true
	k.bytes += len(v)
	return []string{v}
}

// matches returns where learned values stand in s. A value that stands there as a name was
// none to learn, and is forgotten: whoever plants the id of a Pod as a password hides none.
func (k *memory) matches(s string) []match {
	for {
		words := k.words.Load()
		all := words.matches(s)
		var names []string
		for _, f := range all {
			if standsAsName(s, f.from, f.to) {
				names = append(names, s[f.from:f.to])
			}
		}
		if len(names) == 0 || !k.forget(names) {
			return all
		}
	}
}

// forget drops values that are names, and reports whether there were any.
func (k *memory) forget(names []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	some := false
	for _, name := range names {
		if k.values[name] {
			some = true
			delete(k.values, name)
			k.bytes -= len(name)
			k.plain[name] = true
		}
	}
	if some {
		k.words.Store(newLexicon(k.key.variants(slices.Collect(maps.Keys(k.values)))))
	}
	return some
}

// noteNames takes note of what stands as a name in s, as far as it could be learned.
func (m *Masker) noteNames(s string) {
	if m.memory == nil {
		return
	}
	for _, field := range nameFields {
		for at := 0; ; {
			n := strings.Index(s[at:], field)
			if n < 0 {
				break
			}
			at += n + len(field)
			if name := s[at:nameEnd(s, at)]; learnable(name) {
				m.memory.notePlain(name)
			}
		}
	}
}

func (k *memory) notePlain(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.values[name] && len(k.plain) < maxNames {
		k.plain[name] = true
	}
}

// nameFields are members of objects that hold names, as the API server writes them.
var nameFields = []string{`"name":"`, `"namespace":"`, `"uid":"`, `"nodeName":"`, `"image":"`, `"imageID":"`, `"containerID":"`, `"ip":"`, `"podIP":"`, `"hostIP":"`, `"resourceVersion":"`, `"pod-template-hash":"`, `"controller-revision-hash":"`}

// nameEnd returns the end of the name that begins at s[at].
func nameEnd(s string, at int) int {
	return span(s[:min(len(s), at+maxLearn)], at, isNameByte)
}

func isNameByte(c byte) bool { return isTokenByte(c) || strings.IndexByte(".:/@", c) >= 0 }

// standsAsName reports whether s[from:to] is the value of a member that holds names, or a
// part of it: the digest of an image.
func standsAsName(s string, from, to int) bool {
	start := from
	for start > 0 && from-start < maxLearn && isNameByte(s[start-1]) {
		start--
	}
	if to < len(s) && s[to] == '@' && from > 0 && s[from-1] == ':' {
		return false // the password of a URL
	}
	if end := nameEnd(s, to); end >= len(s) || s[end] != '"' {
		return false
	}
	return slices.ContainsFunc(nameFields, func(field string) bool { return strings.HasSuffix(s[:start], field) })
}

// learnable reports whether a value is too mixed to be a word, a name, a number, a version,
// a date, or an address: those are masked where a name says that they are secret, and stay
// readable elsewhere.
func learnable(v string) bool {
	if len(v) < minLearned || len(v) > maxLearn || isPlain(v) || isDate(v) || isAPIVersion(v) || v[0] == '/' || strings.Contains(v, "://") || Tagged(v) {
		return false
	}
	turns, last := 0, byte(0) // changes between letters, digits and signs in one word of it
	var lower, upper bool
	for i := range len(v) {
		class := classOf(v[i])
		switch class {
		case 0:
			return false
		case '-':
			last = 0
			continue
		case 'a', 'A':
			lower, upper = lower || class == 'a', upper || class == 'A'
			class = 'a'
		}
		if last != 0 && class != last {
			turns++
		}
		last = class
	}
	return (turns >= 3 || turns == 2 && lower && upper) && !hasShape(v)
}

// classOf is 'a' for a small letter, 'A' for a capital, '0' for a digit, '-' for what
// separates names, their words and their values, '!' for any other sign, and 0 for what
// is none.
func classOf(c byte) byte {
	switch {
	case c <= ' ' || c == 0x7f:
		return 0
	case isDigit(c):
		return '0'
	case c >= 'a' && c <= 'z':
		return 'a'
	case isLetter(c):
		return 'A'
	case strings.IndexByte("-._:/,=()", c) >= 0:
		return '-'
	}
	return '!'
}

// isDate reports whether v begins with a date.
func isDate(v string) bool {
	const form = "0000-00-00"
	if len(v) < len(form) {
		return false
	}
	for i := range len(form) {
		if isDigit(v[i]) != (form[i] == '0') || form[i] == '-' && v[i] != '-' {
			return false
		}
	}
	return true
}

// isAPIVersion reports whether v is the version of a kind of objects, networking.k8s.io/v1.
func isAPIVersion(v string) bool {
	group, version, ok := strings.Cut(v, "/")
	return ok && strings.IndexByte(group, '.') > 0 && span(group, 0, func(c byte) bool { return isSmall(c) || c == '.' || c == '-' }) == len(group) &&
		len(version) > 1 && len(version) <= len("v10alpha10") && version[0] == 'v' && isDigit(version[1]) && span(version, 0, isSmall) == len(version)
}

// plainly returns the value that a text is a spelling of: that in escapes, in those of a
// URL, or in base64.
func plainly(text string) string {
	if strings.IndexByte(text, '\\') >= 0 {
		var plain string
		if json.Unmarshal([]byte(`"`+text+`"`), &plain) == nil {
			text = plain
		}
	}
	if strings.IndexByte(text, '%') >= 0 {
		if plain, err := url.PathUnescape(text); err == nil {
			text = plain
		}
	}
	if plain, ok := decoded(text); ok && learnable(plain) {
		return plain
	}
	return undisguised(text)
}

// decoded returns what a text is the base64 of, if that is text.
func decoded(text string) (string, bool) {
	if len(text) < minLearned || len(text) > 2*maxLearn {
		return "", false
	}
	text = strings.TrimRight(text, "=")
	plain, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		plain, err = base64.RawURLEncoding.DecodeString(text)
	}
	return string(plain), err == nil && !has(string(plain), func(c byte) bool { return c < ' ' || c >= 0x7f })
}

// sealed is what of a memory another process is given.
type sealed struct {
	Values []string `json:"values"`
	Plain  []string `json:"plain"`
}

// Seal returns what was learned, encrypted by the key of the tags: another process that
// has the key reads it, and a disk holds no secret in clear.
func (m *Masker) Seal() ([]byte, error) {
	if m.memory == nil {
		return nil, nil
	}
	k := m.memory
	k.mu.Lock()
	raw, err := json.Marshal(sealed{slices.Sorted(maps.Keys(k.values)), slices.Sorted(maps.Keys(k.plain))})
	k.mu.Unlock()
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "mask: encode what was learned: %w", err)
	}
	aead, err := m.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, raw, nil), nil
}

// Unseal learns what another Masker of the same key has sealed.
func (m *Masker) Unseal(box []byte) error {
	if m.memory == nil || len(box) == 0 {
		return nil
	}
	aead, err := m.aead()
	if err != nil {
		return err
	}
	var raw []byte
	if n := aead.NonceSize(); len(box) >= n {
		raw, err = aead.Open(nil, box[:n], box[n:], nil)
	}
	var s sealed
	if err != nil || json.Unmarshal(raw, &s) != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "mask: what was learned cannot be read: it is broken or was sealed by another key")
	}
	for _, name := range s.Plain {
		m.memory.notePlain(name)
	}
	m.learn(s.Values)
	return nil
}

// aead encrypts by a key of its own, so that a tag says nothing of it.
func (m *Masker) aead() (cipher.AEAD, error) {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte("nightcrier: learned values"))
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "mask: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "mask: %w", err)
	}
	return aead, nil
}
