package mask

import (
	"strings"
)

// Passwords in statements of SQL and on command lines, also where the words of a command
// are a list.

// maxCommand is how far before a flag its command can stand.
const maxCommand = 256

func commandRules() []rule {
	rules := []rule{
		{hint: "-u", find: userFlag},
		{hint: "--user", find: userFlag},
		{hint: "pass:", find: sslPassword},
		{hint: "add_user ", find: secondWord},
		{hint: "change_password ", find: secondWord},
		{hint: "htpasswd -", find: htpasswd},
		{hint: "password", fold: true, find: sqlPassword},
		{hint: "identified by ", fold: true, find: identified},
		{hint: "identified with ", fold: true, find: identifiedWith},
	}
	for _, f := range flags {
		rules = append(rules, rule{hint: f.name, find: f.find})
	}
	return rules
}

// commands are the names of some.
type commands map[string]bool

func named(names ...string) commands {
	c := commands{}
	for _, name := range names {
		c[name] = true
	}
	return c
}

// flag is one by which some commands take a password, in its own word or the next one.
type flag struct {
	name     string
	of       commands
	attached bool
	separate bool
}

var flags = []flag{
	{name: "-p", attached: true, of: named("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlpump", "mysqlbinlog", "mariadb", "mariadb-dump", "mariadb-admin", "xtrabackup", "mariabackup")},
	{name: "-p", separate: true, of: named("login")}, // docker login
	{name: "-p", attached: true, separate: true, of: named("sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "mongostat")},
	{name: "-a", separate: true, of: named("redis-cli", "valkey-cli", "redis-benchmark", "keydb-cli")},
	{name: "-w", attached: true, separate: true, of: named("ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami", "ldappasswd", "ldapcompare")},
}

// Some whose --password is one, whatever it looks like, and those whose -u takes one.
var (
	takePassword = named("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "login", "mongo", "mongosh", "mongodump", "mongorestore", "redis-cli", "helm", "wget", "influx", "cqlsh", "argocd")
	takeUser     = named("curl", "wget", "http")
	rabbit       = named("rabbitmqctl")
)

func (f flag) find(s string, at int) (int, int) {
	if !startsWord(s, at) {
		return -1, -1
	}
	near := s[:min(len(s), at+window)]
	end := at + len(f.name)
	from := end
	if next := nextWord(near, end); next > end {
		if from = next; !f.separate {
			return -1, -1
		}
	} else if !f.attached {
		return -1, -1
	}
	v := readValue(near, from)
	if v.to-v.from < 3 || isPlain(near[v.from:v.to]) || near[v.from] == '-' || !ofCommand(s, at, f.of) {
		return -1, -1
	}
	return v.from, v.to
}

// startsWord reports whether a word of a command begins at s[at].
func startsWord(s string, at int) bool {
	return at == 0 || isSpace(s[at-1]) || strings.IndexByte("\"'`[,=", s[at-1]) >= 0 || endsEscape(s[:at])
}

// nextWord is where the word begins that follows the one that ends at s[at]: behind a blank,
// in the next text of a list, or on the next line of one; at where none follows.
func nextWord(s string, at int) int {
	if next := nextArgument(s, at); next > at {
		return next
	}
	if next := skipBlank(s, at); next > at {
		return next
	}
	if line := breakAt(s, at); line > at {
		if item := skipBlank(s, line); strings.HasPrefix(s[item:], "- ") {
			return skipBlank(s, item+1)
		}
	}
	return at
}

// ofCommand reports whether one of these commands stands before s[at], in the same command
// line. Where the words are a list, they may stand on lines of their own.
func ofCommand(s string, at int, of commands) bool {
	item := strings.TrimRight(s[max(0, at-64):at], " \t\"'`\\")
	list := strings.HasSuffix(item, "-") || strings.HasSuffix(item, ",")
	from := at
	for from > 0 && at-from < maxCommand && s[from-1] != ';' && s[from-1] != '|' && (list || s[from-1] != '\n') {
		from--
	}
	for i := from; i < at; i++ {
		if i > from && s[i-1] == '\\' {
			continue // the letter of an escape
		}
		word := i
		for i < at && (isTokenByte(s[i]) || s[i] == '.') {
			i++
		}
		if of[s[word:i]] {
			return true
		}
	}
	return false
}

// userFlag takes the password of curl's -u user:password. Of another command it takes only
// what looks random.
func userFlag(s string, at int) (int, int) {
	if !startsWord(s, at) {
		return -1, -1
	}
	near := s[:min(len(s), at+window)]
	end := at + len("-u")
	if strings.HasPrefix(near[at:], "--user") {
		end = at + len("--user")
	}
	from := nextWord(near, end)
	if from == end && end < len(near) && near[end] == '=' {
		from++
	} else if from == end && near[at+1] == '-' {
		return -1, -1 // --username
	}
	from = skipQuote(near, from)
	user := span(near, from, func(c byte) bool { return isTokenByte(c) || c == '.' || c == '@' })
	if user == from || user >= len(near) || near[user] != ':' {
		return -1, -1
	}
	to := span(s, user+1, func(c byte) bool { return !isSpace(c) && strings.IndexByte("\"'`\\;|&<>", c) < 0 })
	password := s[user+1 : min(to, user+1+window)]
	if looksRandom(password) || len(password) >= 4 && !isPlain(password) && ofCommand(s, at, takeUser) {
		return user + 1, to
	}
	return -1, -1
}

// sslPassword takes the password of openssl's -passin pass:X.
func sslPassword(s string, at int) (int, int) {
	before := strings.TrimRight(s[max(0, at-32):at], " \t\"',\\")
	if !strings.HasSuffix(before, "-passin") && !strings.HasSuffix(before, "-passout") && !strings.HasSuffix(before, "-pass") {
		return -1, -1
	}
	v := readValue(s[:min(len(s), at+window)], at+len("pass:"))
	if v.to-v.from < 3 || isPlain(s[v.from:v.to]) {
		return -1, -1
	}
	return v.from, v.to
}

// secondWord takes the password of rabbitmqctl add_user NAME PASSWORD.
func secondWord(s string, at int) (int, int) {
	near := s[:min(len(s), at+window)]
	if !startsWord(s, at) || !ofCommand(s, at, rabbit) {
		return -1, -1
	}
	name := readValue(near, skipBlank(near, at+strings.IndexByte(near[at:], ' ')))
	end := skipQuote(near, name.to)
	from := skipBlank(near, end)
	v := readValue(near, from)
	if from == end || v.to-v.from < 3 || isPlain(near[v.from:v.to]) {
		return -1, -1
	}
	return v.from, v.to
}

// htpasswd takes the password of htpasswd -b FILE NAME PASSWORD, which with -n has no file.
func htpasswd(s string, at int) (int, int) {
	line := s[at:min(len(s), at+window)]
	if end := strings.IndexAny(line, "\n|;\"'`\\"); end >= 0 {
		line = line[:end]
	}
	batch, words := false, 2
	pos := 0
	for n := 0; ; n++ {
		from := skipBlank(line, pos)
		to := span(line, from, func(c byte) bool { return !isSpace(c) })
		if from == to {
			return -1, -1
		}
		pos = to
		switch word := line[from:to]; {
		case n == 0:
		case word == "htpasswd":
			return -1, -1
		case word[0] == '-':
			batch = batch || strings.Contains(word, "b")
			if strings.Contains(word, "n") {
				words = 1
			}
		case words > 0:
			words--
		case batch && !isPlain(word):
			return at + from, at + to
		default:
			return -1, -1
		}
	}
}

// ofUser reports whether a statement about a user stands before s[at].
func ofUser(s string, at int) bool {
	before := strings.ToLower(s[max(0, at-maxPrefix):at])
	if end := strings.LastIndexByte(before, ';'); end >= 0 {
		before = before[end:]
	}
	for _, begin := range []string{"create user ", "create role ", "create login ", "create database scoped ", "alter user ", "alter role ", "alter login ", "set password"} {
		if strings.Contains(before, begin) {
			return true
		}
	}
	grant := strings.Index(before, "grant ")
	return grant >= 0 && strings.Contains(before[grant:], " to ")
}

// sqlText reads a text of SQL: 'x', N'x', or ('x').
func sqlText(s string, at int) (int, int) {
	from := skipBlank(s, at)
	if from < len(s) && s[from] == '=' {
		from = skipBlank(s, from+1)
	}
	if len(s) >= from+8 && strings.EqualFold(s[from:from+8], "password") { // = PASSWORD('x')
		from = skipBlank(s, from+8)
	}
	if from < len(s) && s[from] == '(' {
		from = skipBlank(s, from+1)
	}
	if from < len(s) && strings.IndexByte("NE", s[from]) >= 0 {
		from++
	}
	open := skipQuote(s, from)
	if open == from {
		return -1, -1
	}
	to := closing(s, open, s[from:open])
	if to-open < 3 || isPlain(s[open:to]) {
		return -1, -1
	}
	return open, to
}

// sqlPassword takes the password of a statement such as ALTER USER x WITH PASSWORD 'x'.
func sqlPassword(s string, at int) (int, int) {
	end := at + len("password")
	if !opens(s, at) || end >= len(s) || strings.IndexByte(" (=\t", s[end]) < 0 || !ofUser(s, end) {
		return -1, -1
	}
	return sqlText(s[:min(len(s), at+window)], end)
}

// identified takes the password of an SQL user.
func identified(s string, at int) (int, int) {
	near := s[:min(len(s), at+window)]
	end := at + len("identified by ")
	if from, to := sqlText(near, end); from >= 0 {
		return from, to
	}
	from, to, _ := wordAfter(near, end)
	if to-from < 4 || isPlain(near[from:to]) || !ofUser(s, at) || strings.EqualFold(near[from:to], "password") || strings.EqualFold(near[from:to], "values") {
		return -1, -1
	}
	return from, to
}

// identifiedWith takes that of IDENTIFIED WITH plugin BY 'x'.
func identifiedWith(s string, at int) (int, int) {
	near := s[:min(len(s), at+maxPrefix)]
	plugin := skipBlank(near, at+len("identified with "))
	end := skipBlank(near, span(near, plugin, func(c byte) bool { return !isSpace(c) }))
	if len(near) < end+3 || !strings.EqualFold(near[end:end+2], "by") && !strings.EqualFold(near[end:end+2], "as") {
		return -1, -1
	}
	return sqlText(s[:min(len(s), at+window)], end+2)
}
