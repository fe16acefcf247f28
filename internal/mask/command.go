package mask

import "strings"

// Passwords on command lines, also where the words of a command are a list.

// maxCommand is how far before a flag its command can stand.
const maxCommand = 256

func commandRules() []rule {
	rules := []rule{
		{hint: "pass:", find: sslPassword},
		{hint: "add_user ", find: secondWord},
		{hint: "change_password ", find: secondWord},
		{hint: "htpasswd -", find: htpasswd},
		{hint: "password", fold: true, find: sqlPassword},
		{hint: "identified by ", fold: true, find: identified},
		{hint: "identified with ", fold: true, find: identifiedWith},
	}
	for _, f := range userFlags {
		rules = append(rules, rule{hint: f.name, find: f.find})
	}
	for _, hint := range []string{"--from-literal", "vault kv put ", "vault write ", "fly secrets set "} {
		rules = append(rules, rule{hint: hint, each: literals(hint)})
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
	{name: "-p", separate: true, of: named("cqlsh", "az", "oc", "harbor", "argocd")},
	{name: "-P", attached: true, separate: true, of: named("sqlcmd", "bcp", "isql", "tsql", "mosquitto_pub", "mosquitto_sub", "ipmitool", "unzip", "zip")},
	{name: "-p", attached: true, of: named("7z", "7za", "unrar")},
	{name: "-pw", separate: true, of: named("nodetool", "plink", "pscp")},
	{name: "-k", separate: true, of: named("openssl")},
	{name: "--pass", separate: true, of: named("curl", "nats", "openssl", "age")},
	{name: "-storepass", separate: true, of: named("keytool", "jarsigner")},
	{name: "-keypass", separate: true, of: named("keytool", "jarsigner")},
	{name: "--secret-string", attached: true, separate: true, of: named("secretsmanager")},
	{name: "-w", attached: true, separate: true, of: named("ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami", "ldappasswd", "ldapcompare")},
}

// Some whose --password is one, whatever it looks like, and those whose -u takes one.
var (
	takePassword = named("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "login", "mongo", "mongosh", "mongodump", "mongorestore", "redis-cli", "helm", "wget", "influx", "cqlsh", "argocd", "clickhouse-client", "clickhouse", "nats", "gpg", "curl", "kafka-topics", "nodetool", "az", "oc", "restic", "cypher-shell", "etcdctl", "rclone", "svn", "ansible-vault", "mc")
	takeUser     = named("curl", "wget", "http", "https", "etcdctl", "ab", "hey", "lftp")
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

// userFlag is one by which commands take user:password.
type userFlag struct {
	name string
	of   commands
	// alone is set when other commands have a flag of that name that takes something else.
	alone bool
}

var userFlags = []userFlag{
	{name: "-u", of: takeUser},
	{name: "--user", of: takeUser},
	{name: "--proxy-user", of: takeUser},
	{name: "-U", of: named("curl"), alone: true},
	{name: "-a", of: named("http", "https", "hey"), alone: true},
	{name: "--auth", of: named("http", "https"), alone: true},
	{name: "-A", of: named("ab", "siege"), alone: true},
	{name: "--cert", of: named("curl"), alone: true},
	{name: "-E", of: named("curl"), alone: true},
}

// find takes the password. Of another command it takes only what looks random.
func (f userFlag) find(s string, at int) (int, int) {
	if !startsWord(s, at) {
		return -1, -1
	}
	near := s[:min(len(s), at+window)]
	end := at + len(f.name)
	long := f.name[1] == '-'
	from := nextWord(near, end)
	if from == end && end < len(near) && near[end] == '=' {
		from++
	} else if from == end && (long || near[end:] == "" || near[end] == '-') {
		return -1, -1 // --username
	}
	from = skipQuote(near, from)
	user := span(near, from, func(c byte) bool { return isTokenByte(c) || strings.IndexByte(".@/", c) >= 0 })
	if user == from || user >= len(near) || near[user] != ':' {
		return -1, -1
	}
	to := span(s, user+1, func(c byte) bool { return !isSpace(c) && strings.IndexByte("\"'`\\;|&<>", c) < 0 })
	password := s[user+1 : min(to, user+1+window)]
	if !f.alone && looksRandom(password) || len(password) >= 4 && !isPlain(password) && ofCommand(s, at, f.of) {
		return user + 1, to
	}
	return -1, -1
}

// literals finds the values of name=value behind a hint, whatever their names are: kubectl
// create secret generic x --from-literal=key=X.
func literals(hint string) func(s string, at int) []part {
	if hint != "--from-literal" {
		return func(s string, at int) []part { return literalWords(s, at+len(hint)) }
	}
	return func(s string, at int) []part {
		if !startsWord(s, at) || !ofCommand(s, at, named("secret", "secrets")) {
			return nil
		}
		near := s[:min(len(s), at+window)]
		from := nextWord(near, at+len(hint))
		if from == at+len(hint) {
			from++ // =
		}
		if p, _ := literal(near, from); p.from < p.to {
			return []part{p}
		}
		return nil
	}
}

// literalWords are the values of all such words of a command, which stand in a row.
func literalWords(s string, at int) (found []part) {
	near := s[:min(len(s), at+window)]
	for at < len(near) && strings.IndexByte(";|&\n", near[at]) < 0 {
		p, end := literal(near, at)
		switch {
		case p.from < p.to:
			found = append(found, p)
		case len(found) > 0:
			return found
		}
		next := skipBlank(near, end)
		if next == at {
			return found
		}
		at = next
	}
	return found
}

// literal reads name=value, which may be in quotes, and returns where the word ends.
func literal(s string, at int) (value part, end int) {
	open := skipQuote(s, at)
	sign := span(s, open, func(c byte) bool { return isTokenByte(c) || c == '.' || c == '/' })
	if sign == open || sign >= len(s) || s[sign] != '=' {
		return part{-1, -1}, span(s, max(sign, at), func(c byte) bool { return !isSpace(c) && c != '\\' && c != '"' })
	}
	from := sign + 1
	to := 0
	if open > at {
		to = closing(s, open, s[at:open])
		end = skipQuote(s, to)
	} else {
		v := readValue(s, from)
		from, to = v.from, v.to
		if end = to; v.quoted {
			end = skipQuote(s, to)
		}
	}
	if to-from < 3 || isPlain(s[from:to]) || s[from] == '@' { // @file
		return part{-1, -1}, end
	}
	return part{from, to}, end
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
