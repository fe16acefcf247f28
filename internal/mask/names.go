package mask

import (
	"encoding/base64"
	"strings"
)

// Names that are short, or words of their own, and ways to write a secret that no sign
// separates from its name.

// nameRules are tried where their words stand.
func nameRules() []rule {
	return []rule{
		{hint: "pass", fold: true, find: shortName("pass").find},
		{hint: "pw", fold: true, find: shortName("pw").find},
		{hint: "auth", fold: true, find: authName},
		{hint: "creds", fold: true, find: credsName},
		{hint: "psk", fold: true, find: pskName},
		{hint: "connect.sid", find: sessionCookie},
		{hint: "password ", fold: true, find: netrc},
		{hint: "auth", fold: true, find: dockerAuth},
		{hint: "basic ", fold: true, find: basic},
		{hint: "x-api-key", fold: true, find: apiKeyHeader},
		{hint: "sig=", fold: true, find: signature},
		{hint: "signature=", fold: true, find: signature},
		{hint: ":5432:", find: pgpass},
		{hint: "$apr1$", find: hashed},
		{hint: "$2a$", find: hashed},
		{hint: "$2b$", find: hashed},
		{hint: "$2y$", find: hashed},
	}
}

// shortName is a word that means a password at the end of a name, DB_PASS or dbPass, and
// elsewhere may be of any text: there only a value that looks random is taken.
type shortName string

func (n shortName) find(s string, at int) (int, int) {
	end := at + len(n)
	if end < len(s) && isTokenByte(s[end]) {
		return -1, -1 // passed, PASS_THROUGH
	}
	upperCase := s[at] >= 'A' && s[at] <= 'Z'
	weak := true
	if at > 0 && !endsEscape(s[:at]) {
		before := s[at-1]
		switch {
		case before == '_', upperCase && before >= 'a' && before <= 'z':
			weak = false
		case isAlnum(before):
			return -1, -1 // compass
		}
	}
	name := strings.TrimRight(s[max(0, at-3):at], "_-")
	if weak && upperCase && s[end-1] < 'a' || len(name) >= 2 && strings.EqualFold(name[len(name)-2:], "by") {
		return -1, -1 // a test's PASS: TestName, and bypasses
	}
	from, to := key{word: string(n), weak: weak}.find(s, at)
	if to-from < 4 {
		return -1, -1
	}
	return from, to
}

// nameEndsAt reports whether a name of a variable or a field ends with s[at:end], and the
// part before it, "" for none.
func nameEndsAt(s string, at, end int) (before string, ok bool) {
	if end < len(s) && isTokenByte(s[end]) {
		return "", false // author, auth_type
	}
	from := at
	for from > 0 && at-from < 64 && isTokenByte(s[from-1]) && !endsEscape(s[:from]) {
		from--
	}
	before = s[from:at]
	camel := before != "" && isUpper(s[at]) && isLower(before[len(before)-1])
	return before, before == "" || camel || strings.IndexByte("_-", before[len(before)-1]) >= 0
}

// valueOfName is the value of a name that ends at end: what stands behind a sign, or in a
// member beside it.
func valueOfName(s string, at, end int) (value, bool) {
	near := s[:min(len(s), at+window)]
	v, ok := valueAfterKey(near, end)
	if !ok {
		v, ok = sibling(s, at, end)
	}
	if ok && v.to == len(near) && v.to < len(s) {
		return valueAfterKey(s, end) // longer than any word
	}
	if !ok || v.to-v.from < 4 || isPlain(s[v.from:v.to]) || isOrdinary(s[v.from:v.to]) || v.prose && !unlikely(s[v.from:v.to]) {
		return value{}, false
	}
	return v, true
}

// authName takes the value of REDIS_AUTH, smtpAuth and the like. But for stores that know
// nothing but a password, that may be a way to log in: then a word is none.
func authName(s string, at int) (int, int) {
	end := at + len("auth")
	before, ok := nameEndsAt(s, at, end)
	if !ok || strings.Trim(before, "_-") == "" {
		return -1, -1
	}
	v, ok := valueOfName(s, at, end)
	store := strings.ToLower(strings.TrimRight(before, "_-"))
	if !ok || !isMixed(s[v.from:v.to]) && !strings.HasSuffix(store, "redis") && !strings.HasSuffix(store, "valkey") && !strings.HasSuffix(store, "cache") {
		return -1, -1
	}
	return v.from, v.to
}

// credsName takes the value of DB_CREDS and creds, unless it is the name of an object.
func credsName(s string, at int) (int, int) {
	end := at + len("creds")
	_, ok := nameEndsAt(s, at, end)
	if !ok {
		return -1, -1
	}
	v, ok := valueOfName(s, at, end)
	if !ok || !isMixed(s[v.from:v.to]) {
		return -1, -1
	}
	return v.from, v.to
}

// pskName takes a key that was shared before: PSK=x, wpa_psk: x.
func pskName(s string, at int) (int, int) {
	end := at + len("psk")
	if _, ok := nameEndsAt(s, at, end); !ok {
		return -1, -1
	}
	v, ok := valueOfName(s, at, end)
	if !ok || isObjectName(s[v.from:v.to]) {
		return -1, -1
	}
	return v.from, v.to
}

// sessionCookie takes the cookie of Express: connect.sid=s%3Ax.
func sessionCookie(s string, at int) (int, int) {
	v, ok := valueOfName(s, at, at+len("connect.sid"))
	if !ok || !looksRandom(s[v.from:v.to]) {
		return -1, -1
	}
	return v.from, v.to
}

// isMixed reports whether a value is no word and no name: it has letters, and digits or
// signs.
func isMixed(v string) bool {
	return len(v) > maxLearn || len(v) >= 6 && hasLetter(v) && (hasDigit(v) || has(v, isSign)) && v[0] != '/' && !strings.Contains(v, "://") && !hasShape(v)
}

func isSign(c byte) bool { return strings.IndexByte("!#$%^&*?~", c) >= 0 }

// unlikely reports whether a text is so mixed that nobody would take it for a word of a
// sentence.
func unlikely(v string) bool {
	return learnable(v) || len(v) <= maxLearn && isMixed(v) && hasDigit(v) && has(v, isSign) && !isPlain(v) && !has(v, func(c byte) bool { return c <= ' ' })
}

// startsLine reports whether only blanks stand before s[at] on its line, whose break may
// be written as \n, or in its string.
func startsLine(s string, at int) bool {
	for at > 0 && (s[at-1] == ' ' || s[at-1] == '\t') {
		at--
	}
	return at == 0 || s[at-1] == '\n' || strings.IndexByte("\"'`", s[at-1]) >= 0 || endsEscape(s[:at])
}

// wordAfter is the word behind a hint, without its quotes, and whether it is the last one
// on its line.
func wordAfter(s string, at int) (from, to int, last bool) {
	from = skipBlank(s, at)
	from = skipQuote(s, from)
	to = from
	for to < len(s) && !isSpace(s[to]) && strings.IndexByte("\"'`;", s[to]) < 0 && !(s[to] == '\\' && endsValue(s, to)) {
		to++
	}
	return from, to, !wordsFollow(s, to)
}

// netrc takes the password of machine X login Y password Z, and one that has a line of its
// own and looks random.
func netrc(s string, at int) (int, int) {
	if at > 0 && isTokenByte(s[at-1]) && !endsEscape(s[:at]) {
		return -1, -1
	}
	from, to, last := wordAfter(s[:min(len(s), at+window)], at+len("password"))
	if to-from < 4 || isPlain(s[from:to]) {
		return -1, -1
	}
	before := s[max(0, at-maxPrefix):at]
	entry := strings.Contains(before, "login ") && (strings.Contains(before, "machine ") || strings.Contains(before, "default "))
	if entry || startsLine(s, at) && last && looksRandom(s[from:to]) {
		return from, to
	}
	return -1, -1
}

// userAndPassword reports whether a text is base64 of user:password.
func userAndPassword(text string) bool {
	if len(text) < 8 || len(text) > window {
		return false
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return err == nil && strings.IndexByte(string(plain), ':') > 0 && !has(string(plain), func(c byte) bool { return c < ' ' || c == 0x7f })
}

// dockerAuth takes the auth of a registry in a docker configuration.
func dockerAuth(s string, at int) (int, int) {
	end := at + len("auth")
	if at > 0 && isTokenByte(s[at-1]) && !endsEscape(s[:at]) || end < len(s) && isTokenByte(s[end]) {
		return -1, -1
	}
	v, ok := valueAfterKey(s[:min(len(s), at+window)], end)
	if !ok || v.to <= v.from || !userAndPassword(s[v.from:v.to]) {
		return -1, -1
	}
	return v.from, v.to
}

// basic takes the credential of HTTP's Basic outside of a header.
func basic(s string, at int) (int, int) {
	if !opens(s, at) {
		return -1, -1
	}
	from := at + len("basic ")
	to := span(s[:min(len(s), from+window)], from, isBase64)
	if !userAndPassword(s[from:to]) {
		return -1, -1
	}
	return from, to
}

// apiKeyHeader takes the value of a header that a proxy sets: X-Api-Key X;
func apiKeyHeader(s string, at int) (int, int) {
	end := at + len("x-api-key")
	from, to, _ := wordAfter(s[:min(len(s), at+window)], skipQuote(s, end))
	if from == end || end < len(s) && isTokenByte(s[end]) || !looksRandom(s[from:to]) || isPlain(s[from:to]) {
		return -1, -1
	}
	return from, to
}

// signature takes what signs a URL: whoever has it can use the URL.
func signature(s string, at int) (int, int) {
	if at == 0 || strings.IndexByte("?&-;", s[at-1]) < 0 && !strings.HasSuffix(s[:at], "u0026") {
		return -1, -1
	}
	from := at + strings.IndexByte(s[at:], '=') + 1
	to := span(s[:min(len(s), from+window)], from, func(c byte) bool { return isBase64(c) || isTokenByte(c) || c == '%' })
	if to-from < 20 || !looksRandom(s[from:to]) {
		return -1, -1
	}
	return from, to
}

// pgpass takes the password of a line host:5432:database:user:password.
func pgpass(s string, at int) (int, int) {
	field := func(c byte) bool { return isTokenByte(c) || c == '.' || c == '*' }
	database := at + len(":5432:")
	user := span(s, database, field)
	if user == database || user >= len(s) || s[user] != ':' {
		return -1, -1
	}
	end := span(s, user+1, field)
	if end == user+1 || end >= len(s) || s[end] != ':' {
		return -1, -1
	}
	from, to, _ := wordAfter(s[:min(len(s), end+window)], end+1)
	if from != end+1 || to-from < 4 || isPlain(s[from:to]) {
		return -1, -1
	}
	return from, to
}

// hashed takes a password's hash, which can be guessed at.
func hashed(s string, at int) (int, int) {
	to := span(s, at+1, func(c byte) bool { return isAlnum(c) || c == '.' || c == '/' || c == '$' })
	if to-at < 30 {
		return -1, -1
	}
	return at, to
}
