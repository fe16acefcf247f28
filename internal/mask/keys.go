package mask

import (
	"slices"
	"strings"
)

// key is a word that ends the name of a secret: password in DB_PASSWORD=….
type key struct {
	word string
	// weak marks words that ordinary text uses as well; only values that look
	// random are taken.
	weak bool
}

var keys = []key{
	{word: "password"}, {word: "passwd"}, {word: "passphrase"}, {word: "pwd"},
	{word: "apikey"}, {word: "api_key"}, {word: "api-key"}, {word: "api key"},
	{word: "secretkey"}, {word: "secret_key"}, {word: "secret-key"},
	{word: "accesskey"}, {word: "access_key"}, {word: "access-key"},
	{word: "accountkey"}, {word: "account_key"}, {word: "privatekey"}, {word: "private_key"},
	{word: "signingkey"}, {word: "signing_key"}, {word: "encryptionkey"}, {word: "encryption_key"},
	{word: "client-key-data"}, {word: "client_secret"}, {word: "clientsecret"}, {word: "client-secret"},
	{word: "requirepass"}, {word: "masterauth"}, {word: "storepass"}, {word: "keypass"},
	{word: "presharedkey"}, {word: "preshared_key"}, {word: "preshared-key"}, {word: "pre_shared_key"}, {word: "pre-shared-key"},
	{word: "sessionid", weak: true}, {word: "sessid", weak: true},
	{word: "master_key", weak: true}, {word: "master-key", weak: true}, {word: "masterkey", weak: true},
	{word: "app_key", weak: true}, {word: "appkey", weak: true}, {word: "auth_key", weak: true}, {word: "authkey", weak: true},
	{word: "shared_key", weak: true}, {word: "storage_key", weak: true}, {word: "session_key", weak: true}, {word: "jwt_key", weak: true},
	{word: "hmac_key", weak: true}, {word: "license_key", weak: true}, {word: "key_base", weak: true},
	{word: "token", weak: true}, {word: "secret", weak: true}, {word: "credential", weak: true},
}

func (k key) find(s string, at int) (int, int) {
	end := at + len(k.word)
	if at > 0 && s[at-1] == '/' && !ofDomain(s, at-1, end) {
		// A path or an annotation such as checksum/secret, not a key, unless that is set.
		return k.declared(s, at, end)
	}
	if k.plural(s, end) {
		end++
		k.weak = true // how many there are, or how they are made
	}
	end = skipWhich(s, end)
	near, ok := valueAfterKey(s[:min(len(s), at+window)], end)
	if !ok {
		near, ok = k.beside(s, at, end)
	}
	if !ok {
		return k.unsigned(s, at, end)
	}
	if near.from >= near.to {
		return k.onNextLine(s, at, near.from)
	}
	if near.to == at+window {
		// Longer than any word: a secret, taken to its end.
		v, _ := valueAfterKey(s, end)
		return v.from, v.to
	}
	if k.namesObject(s, at, s[near.from:near.to]) {
		return -1, -1
	}
	return k.judge(s, near)
}

// unsigned finds the value of a name that ends at end with no sign behind it.
func (k key) unsigned(s string, at, end int) (int, int) {
	if from, to := k.behind(s, at, end); from >= 0 {
		return from, to
	}
	if from, to := k.declared(s, at, end); from >= 0 {
		return from, to
	}
	if v, ok := pairBeside(s, at, end); ok {
		return k.judge(s, v)
	}
	return k.said(s, end)
}

// which are the ends of names that tell several secrets of one name apart, as while one
// is replaced by the next: DB_PASSWORD_OLD.
var which = []string{"old", "new", "prev", "previous", "current", "next", "backup", "primary", "secondary"}

// skipWhich skips such an end, or a number, of the name at s[at].
func skipWhich(s string, at int) int {
	from := at
	if from < len(s) && strings.IndexByte("_-.", s[from]) >= 0 {
		from++
	}
	end := span(s, from, isAlnum)
	word := strings.ToLower(s[from:end])
	number := strings.TrimPrefix(word, "v")
	if isNumber := number != "" && len(number) <= 3 && span(number, 0, isDigit) == len(number); !isNumber && (from == at || !slices.Contains(which, word)) {
		return at
	}
	return end
}

// plural reports whether the name goes on with an s. Kubernetes lists Secrets by their
// names.
func (k key) plural(s string, end int) bool {
	return k.word != "secret" && end < len(s) && (s[end] == 's' || s[end] == 'S')
}

// beside finds the value of a name that stands in a place of its own: in a member of the
// same object, in an attribute of the same element, or in another column.
func (k key) beside(s string, at, end int) (value, bool) {
	if v, ok := sibling(s, at, end); ok {
		return v, true
	}
	if v, ok := cellBehind(s, at, end); ok {
		v.prose = v.prose || k.weak
		return v, true
	}
	return value{}, false
}

// ofDomain reports whether the slash at s[at] stands behind a domain, as in the key of an
// annotation, and the name that ends at end is no image's: acme.io/password: x.
func ofDomain(s string, at, end int) bool {
	from := at
	for from > 0 && at-from < 253 && (isAlnum(s[from-1]) || s[from-1] == '-' || s[from-1] == '.') {
		from--
	}
	if strings.IndexByte(s[from:at], '.') <= 0 || from > 0 && strings.IndexByte("/@", s[from-1]) >= 0 {
		return false
	}
	return end >= len(s) || s[end] != ':' || end+1 < len(s) && isSpace(s[end+1])
}

// holders are words before "secret" that make a name that of a Secret, not of a value.
var holders = []string{"existing", "tls", "pull", "cert", "certificate", "credentials", "registry", "image"}

// namesObject reports whether a value is the name of an object that holds secrets, and none
// itself: secret: cart-db-7f9a1b2c.
func (k key) namesObject(s string, at int, text string) bool {
	if !k.weak {
		return false
	}
	from := at
	for from > 0 && at-from < 64 && isTokenByte(s[from-1]) {
		from--
	}
	before := strings.ToLower(strings.Trim(s[from:at], "_-"))
	holds := slices.ContainsFunc(holders, func(h string) bool { return strings.HasSuffix(before, h) })
	switch k.word {
	case "secret":
		if strings.HasSuffix(before, "existing") {
			return true
		}
		// SECRET=x is a variable, and client_secret: x a secret.
		return isObjectName(text) && isLower(s[at+1]) && (before == "" || holds)
	case "token":
		return isObjectName(text) && (strings.Contains(text, "-token-") || strings.Contains(text, "-dockercfg-"))
	case "credential":
		return isObjectName(text)
	}
	return false
}

// judge says whether the value is a secret.
func (k key) judge(s string, v value) (int, int) {
	text := s[v.from:v.to]
	if isPlain(text) || k.word == "pwd" && text[0] == '/' || k.weak && v.lines && strings.ContainsAny(text, " \n") {
		return -1, -1
	}
	if (k.weak || v.prose) && !looksRandom(text) || v.doubtful && !unlikely(text) {
		return -1, -1
	}
	return v.from, v.to
}

// value is what stands behind a key.
type value struct {
	from, to int
	quoted   bool
	// prose is set when more words follow on the line: "token: unexpected end".
	prose bool
	// lines is set when it is a block of lines.
	lines bool
	// doubtful is set when it may be a word that has nothing to do with the name.
	doubtful bool
}

// valueAfterKey reads `=value`, `: value`, `": "value"`, or the "value" field
// that follows a name in a list of environment variables.
func valueAfterKey(s string, at int) (value, bool) {
	key := at
	at = skipColour(s, skipQuote(s, skipColour(s, at)))
	if next, ok := skipToValueField(s, at); ok {
		return readValue(s, next), true
	}
	index := skipIndex(s, at)
	sep := skipGap(s, index)
	if sep >= len(s) || s[sep] != '=' && (s[sep] != ':' || index > at) {
		return value{}, false
	}
	next := sep + 1
	if next < len(s) && (s[next] == '=' || s[next] == '>') {
		next++
	}
	next = skipNodeMarks(s, skipGap(s, next))
	if v, ok := valueBelow(s, key, next); ok {
		return v, true
	}
	return readValue(s, inside(s, next)), true
}

// skipNodeMarks skips a tag and an anchor of YAML, !!str and &name, with a value behind them.
func skipNodeMarks(s string, at int) int {
	for at < len(s) && (s[at] == '!' || s[at] == '&') {
		end := span(s[:min(len(s), at+64)], at+1, func(c byte) bool { return isTokenByte(c) || c == '!' || c == '.' || c == ':' || c == ',' })
		next := skipBlank(s, end)
		if next == end || next >= len(s) || breakAt(s, next) > next {
			break
		}
		at = next
	}
	return at
}

// inside returns where the value begins of what opens at s[at]: that of a list of
// texts, of {"value": …}, or of a value on the next line.
func inside(s string, at int) int {
	if at >= len(s) {
		return at
	}
	open := at
	if line := span(s, at, func(c byte) bool { return c == '\\' }); line > at && line < len(s) && s[line] == 'n' {
		open = line // a line break, written in a string
	}
	switch s[open] {
	case '[':
		if first := skipSpace(s, at+1); skipQuote(s, first) > first {
			return first
		}
	case '{', '\n', 'n':
		if next, ok := skipToValueField(s, open+1); ok && (s[open] != 'n' || open > at) {
			return next
		}
	}
	return at
}

// skipToValueField accepts `, "value": ` and a new line with `value: `.
func skipToValueField(s string, at int) (int, bool) {
	at = skipSpace(s, at)
	if at < len(s) && s[at] == ',' {
		at = skipSpace(s, at+1)
	}
	at = skipQuote(s, at)
	if !strings.HasPrefix(s[at:], "value") {
		return 0, false
	}
	at = skipBlank(s, skipQuote(s, at+len("value")))
	if at >= len(s) || s[at] != ':' && s[at] != '=' {
		return 0, false
	}
	return skipBlank(s, at+1), true
}

// behind takes the argument of a flag, --password X, and the text of an element,
// <password>X</password>. The key ends at end.
func (k key) behind(s string, at, end int) (int, int) {
	near := s[:min(len(s), at+window)]
	if from := skipMark(near, end, '>', `u003e`); from > end {
		to := from
		for to < len(near) && near[to] != '<' && near[to] != '\\' && near[to] != '\n' {
			to++
		}
		if close := skipMark(near, to, '<', `u003c`); close > to && strings.HasPrefix(near[close:], "/") && !isPlain(near[from:to]) {
			return from, to
		}
		return -1, -1
	}
	flag := at
	for flag > 0 && at-flag < 64 && isTokenByte(s[flag-1]) {
		flag--
	}
	from := skipBlank(near, end)
	next := nextArgument(near, end)
	if s[flag] == '-' {
		from = max(from, next, nextWord(near, end))
	}
	if s[flag] != '-' || from == end || from >= len(near) || near[from] == '-' {
		return -1, -1
	}
	v := readValue(near, from)
	if v.to-v.from < 4 || isPlain(s[v.from:v.to]) || k.namesObject(s, at, s[v.from:v.to]) {
		return -1, -1
	}
	// In a list the next word is the password; elsewhere it may be one of a text.
	if !looksRandom(s[v.from:v.to]) && (k.weak || next == end && !ofCommand(s, at, takePassword)) {
		return -1, -1
	}
	return v.from, v.to
}

// nextArgument is where the next of a list of texts begins, behind the one that ends at at;
// at when there is none.
func nextArgument(s string, at int) int {
	quote := skipQuote(s, at)
	comma := skipSpace(s, quote)
	if quote == at || comma >= len(s) || s[comma] != ',' {
		return at
	}
	next := skipSpace(s, comma+1)
	if open := skipQuote(s, next); open == next || open >= len(s) || s[open] == '-' {
		return at
	}
	return next
}

// skipMark skips a character, or its escape with the backslashes in front.
func skipMark(s string, at int, mark byte, escape string) int {
	if at < len(s) && s[at] == mark {
		return at + 1
	}
	if i := span(s, at, func(c byte) bool { return c == '\\' }); i > at && strings.HasPrefix(s[i:], escape) {
		return i + len(escape)
	}
	return at
}

// readValue reads a quoted value up to its closing quote, an unquoted one up to
// a character that ends it.
func readValue(s string, at int) value {
	if at+1 < len(s) && (s[at] == 'N' || s[at] == 'E') && s[at+1] == '\'' {
		at++ // a text of SQL
	}
	if open := skipQuote(s, at); open > at {
		quote := s[at:open]
		return value{from: open, to: closing(s, open, quote), quoted: true}
	}
	end := at
	for end < len(s) && !endsValue(s, end) {
		end++
	}
	return value{from: at, to: end, prose: s[max(at-1, 0)] == ' ' && wordsFollow(s, end)}
}

// closing finds the end of a quoted value. A quote with more backslashes in
// front than the opening one belongs to the value.
func closing(s string, at int, quote string) int {
	mark := quote[len(quote)-1]
	for i := at; i < len(s); i++ {
		switch {
		case s[i] == '\n', s[i] == '"' && mark != '"' && endsString(s, i):
			return i
		case s[i] == mark:
			slashes := 0
			for i-slashes > at && s[i-slashes-1] == '\\' {
				slashes++
			}
			if slashes <= len(quote)-1 {
				return i - slashes
			}
			if slashes%2 == 0 && len(quote) == 1 {
				return i
			}
		}
	}
	return len(s)
}

// endsString reports whether the double quote at s[at] can be the end of a JSON
// string, which no other quote inside it outlives.
func endsString(s string, at int) bool {
	slashes := 0
	for slashes < at && s[at-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 1 {
		return false
	}
	next := at + 1
	return next >= len(s) || isSpace(s[next]) || strings.IndexByte(",:}]", s[next]) >= 0
}

func endsValue(s string, at int) bool {
	c := s[at]
	switch {
	case isSpace(c), strings.IndexByte("\"'`;&(){}[]<>|\x1b", c) >= 0:
		return true
	case c == '\\':
		return at+1 < len(s) && strings.IndexByte("nrt\"\\u", s[at+1]) >= 0 || skipColour(s, at) > at
	case c == ',':
		return at+1 >= len(s) || !isAlnum(s[at+1]) || namesField(s, at+1)
	}
	return false
}

// namesField reports whether an identifier and = or : stand at s[at].
func namesField(s string, at int) bool {
	end := at
	for end < len(s) && end-at < 64 && (isTokenByte(s[end]) || s[end] == '.') {
		end++
	}
	return end > at && end < len(s) && (s[end] == '=' || s[end] == ':')
}

func wordsFollow(s string, at int) bool {
	next := skipBlank(s, at)
	return next > at && next < len(s) && isAlnum(s[next])
}

// isPlain reports whether a value is no secret whatever its key.
func isPlain(v string) bool {
	switch strings.ToLower(v) {
	case "true", "false", "null", "none", "nil", "yes", "no", "required", "optional", "redacted", "string", "-":
		return true
	}
	if strings.HasPrefix(v, "<") && strings.HasSuffix(v, ">") || strings.HasPrefix(strings.TrimLeft(v, `\`), "u003c") && v[0] == '\\' {
		return true // <your password>
	}
	return strings.Trim(v, "*xX.") == "" || strings.HasPrefix(v, "$") || strings.HasPrefix(v, "{{") || strings.HasPrefix(v, "%")
}

// looksRandom reports whether a value is too long and too mixed for a word. Tags
// inside it do not count.
func looksRandom(v string) bool {
	v = withoutTags(v)
	return len(v) >= 8 && hasDigit(v) && hasLetter(v)
}

func withoutTags(v string) string {
	for {
		at := strings.Index(v, tagOpen)
		if at < 0 || !isTag(v[at:]) {
			return v
		}
		v = v[:at] + v[at+tagLen:]
	}
}
