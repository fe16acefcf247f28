package mask

import (
	"slices"
	"strings"
)

// Secrets in addresses: the user's part of a URL, which may be written in escapes or have
// no scheme, and paths that whoever knows them may post to.

func urlRules() []rule {
	rules := []rule{
		{hint: "://", find: userinfo("://")},
		{hint: "%3a//", fold: true, find: userinfo("%3a//")},
		{hint: `:\/\/`, find: userinfo(`:\/\/`)},
		{hint: "%3a%2f%2f", fold: true, find: escapedUserinfo},
		{hint: "%253a%252f%252f", fold: true, find: escapedUserinfo},
		{hint: "@tcp(", find: dsnPassword},
		{hint: "@unix(", find: dsnPassword},
		{hint: ":thin:", fold: true, find: oracleURL},
		{hint: ":oci:", fold: true, find: oracleURL},
		{hint: ":AA", find: telegramToken},
		{hint: "api.telegram.org/bot", find: telegramURL},
		{hint: "api.telegram.org/file/bot", find: telegramURL},
	}
	for c := byte('0'); c <= 'z'; c++ {
		if isAlnum(c) {
			rules = append(rules, rule{hint: "@" + string(c), find: addressPassword})
		}
	}
	for _, name := range []string{"sqlplus ", "sqlldr ", "expdp ", "impdp ", "rman "} {
		rules = append(rules, rule{hint: name, find: oracleLogin})
	}
	for _, w := range webhooks {
		rules = append(rules, rule{hint: w.hint, find: w.find})
	}
	return rules
}

// userinfo takes the password of scheme://user:password@host, or a lone userinfo that is
// long enough to be a token. The sign is how :// is written.
func userinfo(sign string) func(s string, at int) (int, int) {
	return func(s string, at int) (int, int) { return userinfoAt(s, at+len(sign)) }
}

func userinfoAt(s string, from int) (int, int) {
	host := -1
	end := from
	for ; end < len(s) && !endsURL(s[end]) && strings.IndexByte("/?#", s[end]) < 0; end++ {
		if s[end] == '@' {
			host = end
		}
	}
	user := from
	if host < 0 {
		if host = lateHost(s, from, end); host < 0 {
			return -1, -1
		}
	}
	if isTag(s[from:host]) {
		user += tagLen
	}
	if colon := strings.IndexByte(s[user:host], ':'); colon >= 0 {
		return user + colon + 1, host
	}
	if host-from >= 16 {
		return from, host
	}
	return -1, -1
}

func endsURL(c byte) bool { return isSpace(c) || strings.IndexByte("\"'`<>\\\x1b", c) >= 0 }

// lateHost finds the @ before the host of a URL whose password has a /, ? or # in it, as
// nobody should write it: user:p/a#ss@host. What stands before the first such sign is then
// no host, as no port follows it. -1 when there is none.
func lateHost(s string, from, end int) int {
	colon := strings.LastIndexByte(s[from:end], ':')
	if colon < 0 || s[from] == '[' || span(s, from+colon+1, isDigit) == end {
		return -1
	}
	last, host := -1, false
	for i := end; i < min(len(s), from+maxPrefix) && !endsURL(s[i]); i++ {
		if s[i] == '@' {
			last = i
			host = host || i+1 < len(s) && (isAlnum(s[i+1]) || s[i+1] == '[')
		}
	}
	if !host {
		return -1
	}
	return last
}

// dsnPassword takes the password of user:password@tcp(host)/db, which has no
// scheme; the hint stands behind it.
func dsnPassword(s string, at int) (int, int) {
	from, colon := at, -1
	for from > 0 && at-from < 256 && !isSpace(s[from-1]) && !strings.ContainsRune("\"'`=<>()", rune(s[from-1])) {
		from--
		if s[from] == ':' {
			colon = from
		}
	}
	// A tag holds a colon as well, which is none of the user's.
	if colon < 0 || strings.HasSuffix(s[:at], tagClose) {
		return -1, -1
	}
	return colon + 1, at
}

// escapedUserinfo takes the password of a URL that is a part of another one:
// https%3A%2F%2Fuser%3Apassword%40host. It may be escaped twice.
func escapedUserinfo(s string, at int) (int, int) {
	percent := "%"
	if strings.HasPrefix(s[at:], "%25") {
		percent = "%25"
	}
	from := at + 3*len(percent+"3a")
	end := span(s[:min(len(s), at+2*maxPrefix)], from, func(c byte) bool { return !endsURL(c) && strings.IndexByte("&/?#", c) < 0 })
	text := strings.ToLower(s[from:end])
	for _, slash := range []string{"2f", "3f"} {
		if n := strings.Index(text, percent+slash); n >= 0 {
			text = text[:n]
		}
	}
	host, colon := strings.LastIndex(text, percent+"40"), strings.Index(text, percent+"3a")
	if colon < 0 || colon > host {
		return -1, -1
	}
	return from + colon + len(percent+"3a"), from + host
}

// addressPassword takes the password of user:password@host:5432, which has no scheme. Where
// no port follows it takes only what looks random.
func addressPassword(s string, at int) (int, int) {
	from := at
	for from > 0 && at-from < maxPrefix && isUserinfoByte(s[from-1]) {
		from--
	}
	user, password, ok := strings.Cut(s[from:at], ":")
	if !ok || user == "" || slices.Contains(schemes, strings.ToLower(user)) || len(password) < 3 || span(password, 0, isDigit) == len(password) && len(password) <= 5 || span(user, 0, isHostByte) < len(user) || strings.HasPrefix(password, "//") || isPlain(password) {
		return -1, -1
	}
	host := span(s[:min(len(s), at+maxPrefix)], at+1, isHostByte)
	port := host
	if host < len(s) && s[host] == ':' {
		port = span(s, host+1, isDigit)
	}
	digits := port - host - 1
	switch {
	case strings.HasPrefix(s[at:], "@sha"):
		return -1, -1 // the digest of an image
	case digits >= 2 && digits <= 5 && (port == len(s) || !isTokenByte(s[port])):
	case host < len(s) && s[host] == '/' && looksRandom(password) && !hasShape(password):
	default:
		return -1, -1
	}
	return at - len(password), at
}

// schemes are words before the colon of an address that are no users.
var schemes = []string{"sip", "sips", "mailto", "xmpp", "acct", "ssh", "git", "scp", "npm", "svc", "service", "jdbc"}

func isHostByte(c byte) bool { return isTokenByte(c) || c == '.' }

func isUserinfoByte(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte("\"'`=<>()[]{},;|\\@", c) < 0
}

// oracleURL takes the password of jdbc:oracle:thin:user/password@host.
func oracleURL(s string, at int) (int, int) {
	return slashPassword(s, at+1+strings.IndexByte(s[at+1:], ':')+1)
}

// oracleLogin takes that of sqlplus user/password@host.
func oracleLogin(s string, at int) (int, int) {
	if !startsWord(s, at) && (at == 0 || s[at-1] != '/') {
		return -1, -1
	}
	near := s[:min(len(s), at+maxCommand)]
	from := at + strings.IndexByte(s[at:], ' ') + 1
	for from < len(near) && (near[from] == '-' || strings.HasPrefix(near[from:], "target ")) { // rman target user/x
		from = skipBlank(near, span(near, from, func(c byte) bool { return !isSpace(c) }))
	}
	return slashPassword(s, skipQuote(s, from))
}

// slashPassword takes the password of user/password@ that begins at s[from].
func slashPassword(s string, from int) (int, int) {
	near := s[:min(len(s), from+maxPrefix)]
	slash := span(near, min(from, len(near)), isTokenByte)
	if slash == from || slash >= len(near) || near[slash] != '/' {
		return -1, -1
	}
	open := skipQuote(near, slash+1)
	to := span(near, open, func(c byte) bool { return !endsURL(c) && c != '@' })
	if to == open || to >= len(near) || near[to] != '@' && skipQuote(near, to) == to || isPlain(near[open:to]) {
		return -1, -1
	}
	return open, to
}

// webhook is an address behind the hint of which stands what lets anybody post to it.
type webhook struct {
	hint string
	min  int // how much has to follow
}

var webhooks = []webhook{
	{"hooks.slack.com/", 12},
	{"/api/webhooks/", 30}, // Discord
	{"/hooks/", 24},        // Mattermost, Rocket.Chat
	{"hooks.zapier.com/hooks/", 12},
	{"/webhookb2/", 30},
	{"/open-apis/bot/v2/hook/", 20}, // Lark
	{"webexapis.com/v1/webhooks/incoming/", 20},
	{"/cgi-bin/webhook/send?key=", 20}, // WeCom
	{"hc-ping.com/", 20},
	{"events.pagerduty.com/integration/", 20},
	{"maker.ifttt.com/trigger/", 20},
	{"hook.eu1.make.com/", 16}, {"hook.us1.make.com/", 16},
}

// find takes the path behind the hint.
func (w webhook) find(s string, at int) (int, int) {
	from := at + len(w.hint)
	end := span(s[:min(len(s), from+2*maxPrefix)], from, func(c byte) bool { return isTokenByte(c) || strings.IndexByte("/:@.", c) >= 0 })
	if end-from < w.min || w.hint[0] == '/' && !hasKey(s[from:end]) {
		return -1, -1
	}
	return from, end
}

// hasKey reports whether a part of a path is a key: long, mixed, and no name.
func hasKey(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if len(part) >= 16 && looksRandom(part) && !hasShape(part) {
			return true
		}
	}
	return false
}

// telegramURL takes what stands between bot and the method.
func telegramURL(s string, at int) (int, int) {
	from := at + strings.LastIndex(s[at:min(len(s), at+len("api.telegram.org/file/bot"))], "bot") + len("bot")
	end := span(s, from, func(c byte) bool { return isTokenByte(c) || c == ':' })
	if end-from < 20 {
		return -1, -1
	}
	return from, end
}

// telegramToken takes the token of a bot: its number, and 35 characters behind :AA.
func telegramToken(s string, at int) (int, int) {
	from := at
	for from > 0 && isDigit(s[from-1]) {
		from--
	}
	end := span(s, at+1, isTokenByte)
	if n := at - from; n < 6 || n > 12 || end-at != 36 || !opens(s, from) && !strings.HasSuffix(s[:from], "bot") {
		return -1, -1
	}
	return from, end
}
