package mask

import (
	"slices"
	"strings"
)

// Passwords in the commands and the configuration of Redis.

func redisRules() []rule {
	return []rule{
		{hint: "auth", fold: true, find: redisAuth},
		{hint: "requirepass", fold: true, find: redisConfig},
		{hint: "masterauth", fold: true, find: redisConfig},
		{hint: " >", find: aclPassword},
		{hint: ` \u003e`, find: aclPassword},
		{hint: `">`, find: aclPassword},
	}
}

var (
	redis = named("redis-cli", "valkey-cli", "keydb-cli", "AUTH", "HELLO")
	// mechanisms are words behind AUTH that say how, not by what.
	mechanisms = []string{"none", "basic", "plain", "login", "md5", "cram-md5", "digest-md5", "scram-sha-1", "scram-sha-256", "scram-sha-512", "sha256", "xoauth2", "oauth", "oauth2", "oauthbearer", "jwt", "oidc", "saml", "ldap", "kerberos",
		"gssapi", "ntlm", "mtls", "tls", "ssl", "x509", "cert", "trust", "peer", "token", "apikey", "iam", "digest", "external", "anonymous", "internal", "bearer", "native", "default", "auto", "webhook", "rbac", "password", "passwd"}
	// states are words behind the name of a secret that say how it fares.
	states = []string{"failed", "failure", "error", "ok", "success", "succeeded", "denied", "rejected", "required", "missing", "invalid", "expired", "enabled", "disabled", "allowed", "on", "off", "command", "service", "backend", "provider", "request", "response", "timeout", "changed", "accepted", "granted", "server", "called"}
)

// isOrdinary reports whether a word behind AUTH is none that anybody would have for a
// password.
func isOrdinary(word string) bool {
	word = strings.ToLower(strings.TrimRight(word, ".,:;!"))
	return slices.Contains(mechanisms, word) || slices.Contains(states, word)
}

// redisAuth takes the last word of AUTH [user] password: on a line of its own, behind a
// prompt or redis-cli, or in texts of a list.
func redisAuth(s string, at int) (int, int) {
	end := at + len("auth")
	if !startsWord(s, at) || end >= len(s) {
		return -1, -1
	}
	near := s[:min(len(s), at+window)]
	before := strings.TrimRight(s[max(0, at-8):at], " \"'\\,")
	command := strings.HasSuffix(before, ">") || strings.HasSuffix(before, "HELLO 3") || ofCommand(s, at, redis)
	listed := skipQuote(s, end) > end && at > 0 && s[at-1] != ' '
	if !command && !(s[at] == 'A' && s[end-1] == 'H' && (startsLine(s, at) || listed)) {
		return -1, -1
	}
	from, to := -1, -1
	for n, pos := 0, end; ; n++ {
		next := nextText(near, pos)
		if next == pos {
			break
		}
		if n == 2 {
			return -1, -1 // more words than there are arguments
		}
		v := readValue(near, next)
		from, to = v.from, v.to
		pos = v.to
	}
	if to-from < 4 || isPlain(near[from:to]) || isOrdinary(near[from:to]) {
		return -1, -1
	}
	return from, to
}

// nextText is where the next argument of a command begins: in the same line, or the next
// text of a list, or the next one in quotes; at where none does.
func nextText(s string, at int) int {
	if next := nextArgument(s, at); next > at {
		return next
	}
	quote := skipQuote(s, at)
	next := skipBlank(s, quote)
	if next == quote || next >= len(s) || s[next] == '#' || breakAt(s, next) > next || quote > at && skipQuote(s, next) == next {
		return at
	}
	return next
}

// redisConfig takes the value of a line of redis.conf, requirepass X, and that of CONFIG
// SET requirepass X.
func redisConfig(s string, at int) (int, int) {
	end := span(s, at, isLetter)
	before := strings.FieldsFunc(strings.ToLower(s[max(0, at-24):at]), func(c rune) bool { return !isLetter(byte(c)) })
	set := len(before) > 1 && before[len(before)-1] == "set" && before[len(before)-2] == "config"
	near := s[:min(len(s), at+window)]
	next := nextText(near, end)
	if next == end || !set && !startsLine(s, at) {
		return -1, -1
	}
	v := readValue(near, next)
	if v.to-v.from < 4 || isPlain(near[v.from:v.to]) || wordsFollow(near, v.to) && !set {
		return -1, -1
	}
	return v.from, v.to
}

// aclPassword takes a password of a user of Redis: user NAME on >X, ACL SETUSER NAME >X.
func aclPassword(s string, at int) (int, int) {
	from := skipMark(s, at+1, '>', "u003e")
	line := at
	for line > 0 && at-line < maxPrefix && s[line-1] != '\n' && !endsEscape(s[:line]) {
		line--
	}
	if !strings.Contains(s[line:at], "user ") && !strings.Contains(strings.ToLower(s[line:at]), "setuser") {
		return -1, -1
	}
	words := strings.FieldsFunc(strings.ToLower(s[line:at]), func(c rune) bool { return c <= ' ' || strings.ContainsRune("\"'\\{}", c) })
	user, set := slices.Index(words, "user"), slices.Index(words, "setuser")
	switch {
	case set >= 0 && len(words) > set+1:
	case user >= 0 && len(words) > user+2 && (words[user+2] == "on" || words[user+2] == "off"):
	default:
		return -1, -1
	}
	to := span(s[:min(len(s), at+window)], from, func(c byte) bool { return !endsURL(c) })
	if to-from < 3 || isPlain(s[from:to]) {
		return -1, -1
	}
	return from, to
}
