package mask

import "strings"

// Passwords in statements of SQL.

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
