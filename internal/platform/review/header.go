package review

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// readRange reads -3,7 or -3.
func readRange(s string, sign byte) (at, count int, ok bool) {
	if s == "" || s[0] != sign {
		return 0, 0, false
	}
	first, second, both := strings.Cut(s[1:], ",")
	at, err := strconv.Atoi(first)
	count = 1
	if err == nil && both {
		count, err = strconv.Atoi(second)
	}
	if err != nil || at < 0 || at > maxNumber || count < 0 || count > maxNumber || at == 0 && count > 0 {
		return 0, 0, false
	}
	return at, count, true
}

// splitGitHeader reads both names of "diff --git a/x b/x". Where they are not the same, and not
// quoted, other lines of the header say them.
func splitGitHeader(s string) (old, path string) {
	s = strings.TrimSuffix(s, "\r")
	if strings.HasPrefix(s, `"`) || strings.HasSuffix(s, `"`) {
		first, rest := cutQuoted(s)
		return readPath(first, "a/"), readPath(strings.TrimPrefix(rest, " "), "b/")
	}
	if len(s)%2 == 1 {
		first, second := s[:len(s)/2], s[len(s)/2+1:]
		if s[len(s)/2] == ' ' && strings.TrimPrefix(first, "a/") == strings.TrimPrefix(second, "b/") {
			return readPath(first, "a/"), readPath(second, "b/")
		}
	}
	return "", ""
}

// cutQuoted cuts two names, one of which has quotes at least, at the blank between them.
func cutQuoted(s string) (first, rest string) {
	if !strings.HasPrefix(s, `"`) {
		first, rest, _ = strings.Cut(s, ` "`)
		return first, `"` + rest
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1], s[i+1:]
		}
	}
	return s, ""
}

// readPath reads a name of a header: with quotes and escapes, with a time behind it, and with a prefix
// of git in front. The name of what is not there is "".
func readPath(s, prefix string) string {
	s = strings.TrimSuffix(s, "\r")
	if strings.HasPrefix(s, `"`) {
		quoted, _ := cutQuoted(s)
		s = unquote(quoted)
	} else {
		s, _, _ = strings.Cut(s, "\t")
	}
	if s == "/dev/null" {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimPrefix(s, prefix), string(utf8.RuneError))
}

// unquote takes off quotes as git writes them: the escapes of C, and three octal digits a byte.
func unquote(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, `"`), `"`)
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if n, err := strconv.ParseUint(s[i:min(i+3, len(s))], 8, 8); err == nil && i+3 <= len(s) {
			b.WriteByte(byte(n))
			i += 2
			continue
		}
		if at := strings.IndexByte("abtnvfr", s[i]); at >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r"[at])
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
