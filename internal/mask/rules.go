package mask

import (
	"encoding/base64"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// window bounds how many bytes a rule looks at before it can say no, which
// keeps hostile text linear: a rule that says yes is never asked again about
// the same bytes.
const window = 4096

// rule finds one kind of secret. It is tried only where its hint stands, so
// that a text is walked once whatever the number of rules.
type rule struct {
	// hint is lower case when fold is set.
	hint string
	fold bool
	// find returns the span of the secret for a hint at s[at], or -1, -1. It
	// looks at no more of s than it will mask, or at most one line or token. Nil finds none.
	find func(s string, at int) (from, to int)
	// each finds several secrets, which lie behind the hint: those of a list. Nil finds none.
	each func(s string, at int) []part
}

func (r *rule) at(s string, at int) bool {
	if len(s)-at < len(r.hint) {
		return false
	}
	if len(r.hint) > 2 && (s[at+2]^r.hint[2])&^0x20 != 0 {
		return false // whatever the case
	}
	got := s[at : at+len(r.hint)]
	return got == r.hint || r.fold && strings.EqualFold(got, r.hint)
}

// index finds the rules whose hint may stand at a place. It is made once and
// only read.
type index struct {
	// pairs holds a bit for each two bytes that a hint begins with: most places
	// of a text are dismissed by it.
	pairs [1 << 10]uint64
	// before is how many pairs there are in the words before each of them.
	before [1 << 10]uint16
	byPair [][]rule // in the order of the pairs
	// thirds has a bit, for each of them, for the third byte of each hint, whatever its case.
	thirds []uint32
}

var rules = newIndex(allRules())

func newIndex(rules []rule) *index {
	var x index
	byPair := map[uint16][]rule{}
	for _, r := range rules {
		for _, a := range cases(r.hint[0], r.fold) {
			for _, b := range cases(r.hint[1], r.fold) {
				n := pair(a, b)
				x.pairs[n>>6] |= 1 << (n & 63)
				byPair[n] = append(byPair[n], r)
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(byPair)) {
		x.byPair = append(x.byPair, byPair[n])
		x.thirds = append(x.thirds, thirdBytes(byPair[n]))
	}
	for i := 1; i < len(x.before); i++ {
		x.before[i] = x.before[i-1] + uint16(bits.OnesCount64(x.pairs[i-1]))
	}
	return &x
}

// thirdBytes has a bit for the third byte of the hint of each rule: all of them where one
// has no more than two.
func thirdBytes(rules []rule) (bits uint32) {
	for _, r := range rules {
		if len(r.hint) < 3 {
			return ^uint32(0)
		}
		bits |= 1 << (r.hint[2] & 31)
	}
	return bits
}

// cases returns c, and its upper case when hints are folded and it has one.
func cases(c byte, fold bool) []byte {
	if up := upper(c); fold && up != c {
		return []byte{c, up}
	}
	return []byte{c}
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// at returns the rules to try at s[at].
func (x *index) at(s string, at int) []rule {
	if at+1 >= len(s) {
		return nil
	}
	if i := x.indexOf(pair(s[at], s[at+1])); i >= 0 {
		return x.byPair[i]
	}
	return nil
}

// indexOf is which of the pairs one is, -1 for none.
func (x *index) indexOf(n uint16) int {
	word, bit := x.pairs[n>>6], uint64(1)<<(n&63)
	if word&bit == 0 {
		return -1
	}
	return int(x.before[n>>6]) + bits.OnesCount64(word&(bit-1))
}

// next is the first place of s, from at on, at which a hint may stand. The last two bytes
// are always such places.
func (x *index) next(s string, at int) int {
	for ; at+2 < len(s); at++ {
		if i := x.indexOf(pair(s[at], s[at+1])); i >= 0 && x.thirds[i]>>(s[at+2]&31)&1 != 0 {
			break
		}
	}
	return at
}

// hints reports whether there is a rule whose hint stands at s[at].
func (x *index) hints(s string, at int) bool {
	return slices.ContainsFunc(x.at(s, at), func(r rule) bool { return r.at(s, at) })
}

func allRules() []rule {
	rules := []rule{
		{hint: tagOpen}, // leads to nothing, but is seen
		{hint: "-----BEGIN ", find: pemKey},
		{hint: "-----END ", find: keyEnd},
		{hint: base64PEM, find: encodedPEM},
		{hint: "eyJ", find: jwt},
		{hint: "authorization", fold: true, find: authorization},
		{hint: "bearer ", fold: true, find: bearer},
		{hint: "set-cookie:", fold: true, find: cookie},
		{hint: "cookie:", fold: true, find: cookie},
	}
	for _, t := range tokens {
		rules = append(rules, rule{hint: t.prefix, find: t.find})
	}
	for _, k := range keys {
		rules = append(rules, rule{hint: k.word, fold: true, find: k.find, each: k.many})
	}
	rules = append(rules, urlRules()...)
	rules = append(rules, nameRules()...)
	rules = append(rules, commandRules()...)
	rules = append(rules, redisRules()...)
	for _, p := range patterns {
		rules = append(rules, p.rule())
	}
	return rules
}

// token is a secret that its prefix gives away.
type token struct {
	prefix string
	// min is how many characters must follow the prefix; exact, when set, how
	// many must follow and no more.
	min   int
	exact bool
	class func(byte) bool
}

var tokens = []token{
	{prefix: "AKIA", min: 16, exact: true, class: isUpperAlnum},
	{prefix: "ASIA", min: 16, exact: true, class: isUpperAlnum},
	{prefix: "ABIA", min: 16, exact: true, class: isUpperAlnum},
	{prefix: "ACCA", min: 16, exact: true, class: isUpperAlnum},
	{prefix: "AIza", min: 35, class: isTokenByte},
	{prefix: "ghp_", min: 30, class: isAlnum},
	{prefix: "gho_", min: 30, class: isAlnum},
	{prefix: "ghu_", min: 30, class: isAlnum},
	{prefix: "ghs_", min: 30, class: isAlnum},
	{prefix: "ghr_", min: 30, class: isAlnum},
	{prefix: "github_pat_", min: 22, class: isTokenByte},
	{prefix: "glpat-", min: 20, class: isTokenByte},
	{prefix: "xoxb-", min: 10, class: isTokenByte},
	{prefix: "xoxp-", min: 10, class: isTokenByte},
	{prefix: "xoxa-", min: 10, class: isTokenByte},
	{prefix: "xoxr-", min: 10, class: isTokenByte},
	{prefix: "xoxs-", min: 10, class: isTokenByte},
	{prefix: "xoxo-", min: 10, class: isTokenByte},
	{prefix: "xoxe-", min: 10, class: isTokenByte},
	{prefix: "xapp-", min: 10, class: isTokenByte},
	{prefix: "sk-ant-", min: 16, class: isTokenByte},
	{prefix: "sk-proj-", min: 16, class: isTokenByte},
	{prefix: "sk-or-", min: 16, class: isTokenByte},
	{prefix: "sk-", min: 32, class: isAlnum},
	{prefix: "sk_live_", min: 16, class: isAlnum},
	{prefix: "rk_live_", min: 16, class: isAlnum},
	{prefix: "sk_test_", min: 16, class: isAlnum},
	{prefix: "rk_test_", min: 16, class: isAlnum},
	{prefix: "npm_", min: 36, class: isAlnum},
	{prefix: "hvs.", min: 20, class: isTokenByte},
	{prefix: "ya29.", min: 20, class: isTokenByte},
	{prefix: "AGE-SECRET-KEY-", min: 40, class: isUpperAlnum},
}

func (t token) find(s string, at int) (int, int) {
	if !opens(s, at) {
		return -1, -1
	}
	body := at + len(t.prefix)
	end := span(s, body, t.class)
	if end-body < t.min || t.exact && end-body != t.min {
		return -1, -1
	}
	return at, end
}

// pemKey takes the body of a PEM private key, up to the next run of dashes, or
// what looks like its body when the text was cut.
func pemKey(s string, at int) (int, int) {
	line := s[at+len("-----BEGIN "):]
	if len(line) > 64 {
		line = line[:64]
	}
	head := strings.Index(line, "-----")
	if head < 0 || !strings.HasSuffix(line[:head], "PRIVATE KEY") && !strings.HasSuffix(line[:head], "PRIVATE KEY BLOCK") {
		return -1, -1
	}
	from := at + len("-----BEGIN ") + head + len("-----")
	// A quote ends the string that the key stands in; what follows is another's.
	if n := strings.Index(s[from:min(len(s), from+maxKey)], "-----"); n >= 0 && strings.IndexByte(s[from:from+n], '"') < 0 {
		return from, from + n
	}
	return from, unfinishedKey(s, from)
}

// maxKey bounds how far the end of a key is looked for, in bytes, and maxForeign how many
// lines of something else may stand between two lines of a key.
const (
	maxKey     = 64 << 10
	maxForeign = 8
)

// unfinishedKey is where the lines of a key end that has no end. Each may begin with words
// of its own, and other lines may stand between them.
func unfinishedKey(s string, from int) int {
	if from < len(s) && s[from] != '\n' && s[from] != '\r' { // it stands inside a string
		return span(s, from, func(c byte) bool { return isBase64(c) || isSpace(c) || c == '\\' })
	}
	near := s[:min(len(s), from+maxKey)]
	end := from
	for at, foreign := lineBreak(near, from), 0; at < len(near) && foreign <= maxForeign; foreign++ {
		next := lineBreak(near, at+1)
		text := strings.TrimRight(near[at+1:next], "\r")
		word := len(text) - wordBefore(text, len(text))
		if word >= keyLine || word == len(text) && foreign == 0 || strings.HasPrefix(text, "Proc-Type:") || strings.HasPrefix(text, "DEK-Info:") {
			end, foreign = at+1+len(text), -1
		}
		at = next
	}
	return end
}

// lineBreak is where the line ends that s[at] is on.
func lineBreak(s string, at int) int {
	return at + span(s[min(at, len(s)):], 0, func(c byte) bool { return c != '\n' })
}

// base64PEM is the base64 of "-----BEGIN".
const base64PEM = "LS0tLS1CRUdJTi"

// encodedPEM takes the base64 of a PEM private key. It decodes only the first
// line, which says what the block is.
func encodedPEM(s string, at int) (int, int) {
	head := s[at:min(len(s), at+64)]
	head = head[:span(head, 0, isBase64)/4*4]
	line, err := base64.StdEncoding.DecodeString(head)
	if err != nil || !strings.Contains(string(line), "PRIVATE KEY") {
		return -1, -1
	}
	return at, span(s, at, isBase64)
}

// jwt takes header.payload.signature.
func jwt(s string, at int) (int, int) {
	if at > 0 && isTokenByte(s[at-1]) && !endsEscape(s[:at]) {
		return -1, -1
	}
	head := span(s, at, isTokenByte)
	if head-at < 12 || head >= len(s) || s[head] != '.' {
		return -1, -1
	}
	body := span(s, head+1, isTokenByte)
	if body-head < 8 || body >= len(s) || s[body] != '.' {
		return -1, -1
	}
	return at, span(s, body+1, isTokenByte)
}

// authorization takes the credential of an Authorization header behind the name
// of its scheme.
func authorization(s string, at int) (int, int) {
	near := s[:min(len(s), at+window)]
	v, ok := valueAfterKey(near, at+len("authorization"))
	if !ok {
		return -1, -1
	}
	from := v.from
	if word := span(s, from, isTokenByte); word < len(s) && s[word] == ' ' && isScheme(s[from:word]) {
		from = word + 1
	}
	credential := func(c byte) bool { return !isSpace(c) && strings.IndexByte("\"'`\\,;<>", c) < 0 }
	end := span(near, from, credential)
	if end == at+window {
		return from, span(s, end, credential)
	}
	if end-from < 4 || s[end-1] == ':' || wordsFollow(s, end) && !looksRandom(s[from:end]) {
		return -1, -1
	}
	return from, end
}

func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "negotiate", "digest", "apikey", "key", "geniekey", "bot", "splunk", "ssws":
		return true
	}
	return false
}

// bearer takes a bearer token outside of a header.
func bearer(s string, at int) (int, int) {
	if !opens(s, at) {
		return -1, -1
	}
	from := at + len("bearer ")
	end := span(s, from, func(c byte) bool { return isBase64(c) || isTokenByte(c) || c == '.' || c == '~' })
	if end-from < 16 || !hasDigit(s[from:end]) {
		return -1, -1
	}
	return from, end
}

// maxCookieName is how far behind the colon a cookie's name can end.
const maxCookieName = 128

// cookie takes the rest of a Cookie header.
func cookie(s string, at int) (int, int) {
	from := skipBlank(s, at+strings.IndexByte(s[at:], ':')+1)
	if name := span(s, from, func(c byte) bool { return isTokenByte(c) || c == '.' }); name == from || name-from > maxCookieName || name >= len(s) || s[name] != '=' {
		return -1, -1
	}
	return from, span(s, from, func(c byte) bool { return c != '\n' && c != '\r' && c != '"' && c != '\\' })
}
