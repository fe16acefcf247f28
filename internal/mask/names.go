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
		{hint: "requirepass ", fold: true, find: lastOnLine},
		{hint: "masterauth ", fold: true, find: lastOnLine},
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

// lastOnLine takes the value of a line of redis.conf: requirepass X.
func lastOnLine(s string, at int) (int, int) {
	from, to, last := wordAfter(s[:min(len(s), at+window)], at+strings.IndexByte(s[at:], ' '))
	if !startsLine(s, at) || !last || to-from < 4 || isPlain(s[from:to]) {
		return -1, -1
	}
	return from, to
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
