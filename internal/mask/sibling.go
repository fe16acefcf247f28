package mask

import (
	"slices"
	"strings"
)

// Names and values that stand in members of their own: {"default": "x", "name":
// "DB_PASSWORD"}, <add key="DbPassword" value="x"/>, and the same in YAML.

// nameMembers say what a secret is called, valueMembers what it is.
var (
	nameMembers  = []string{"name", "key", "parameterkey", "parametername", "variable", "option", "property", "field", "id"}
	valueMembers = []string{"value", "default", "defaultvalue", "parametervalue", "stringvalue", "val"}
)

// How many members of an object are looked at, and how far.
const (
	maxSiblings    = 12
	maxSiblingSpan = 1024
)

// sibling finds the value beside a name that ends in s[at:end].
func sibling(s string, at, end int) (value, bool) {
	near := s[:min(len(s), end+maxSiblingSpan)]
	from := at
	for from > 0 && at-from < 128 && (isTokenByte(s[from-1]) || strings.IndexByte(".:/", s[from-1]) >= 0) {
		from--
	}
	quote := quoteBefore(s, from)
	if quote == "" {
		return siblingLine(s, from, end)
	}
	if !strings.HasPrefix(s[end:], quote) {
		return value{}, false
	}
	o := object{s: near, quote: quote}
	open := from - len(quote)
	if name, start := o.nameBefore(open); slices.Contains(nameMembers, name) {
		if v, ok := o.elementBehind(end + len(quote)); ok {
			return v, true
		}
		if v, ok := o.forward(end + len(quote)); ok {
			return v, true
		}
		return o.backward(start)
	}
	return value{}, false
}

// quoteBefore is the quote that ends at s[at], with the backslashes in front of it.
func quoteBefore(s string, at int) string {
	if at == 0 || s[at-1] != '"' && s[at-1] != '\'' {
		return ""
	}
	from := at - 1
	for from > 0 && s[from-1] == '\\' {
		from--
	}
	return s[from:at]
}

// object is one whose members are written with these quotes.
type object struct{ s, quote string }

// skipSpaceBack skips blanks and line breaks before s[at], also such as are escaped.
func skipSpaceBack(s string, at int) int {
	for at > 0 {
		switch {
		case isSpace(s[at-1]):
			at--
		case at > 1 && s[at-2] == '\\' && (s[at-1] == 'n' || s[at-1] == 't'):
			at -= 2
			for at > 0 && s[at-1] == '\\' {
				at--
			}
		default:
			return at
		}
	}
	return at
}

// skipSpaces is skipSpace, also for such as are escaped.
func skipSpaces(s string, at int) int {
	for {
		next := skipSpace(s, at)
		if next < len(s) && s[next] == '\\' {
			next = breakAt(s, next)
		}
		if next == at {
			return at
		}
		at = next
	}
}

// nameBefore reads the member's name before a value that begins at s[at], in lower case,
// and returns where it begins.
func (o object) nameBefore(at int) (name string, start int) {
	sep := skipSpaceBack(o.s, at)
	if sep == 0 || o.s[sep-1] != ':' && o.s[sep-1] != '=' {
		return "", -1
	}
	end := skipSpaceBack(o.s, sep-1)
	quoted := strings.HasSuffix(o.s[:end], o.quote)
	if quoted {
		end -= len(o.quote)
	}
	start = end
	for start > 0 && end-start < 64 && isTokenByte(o.s[start-1]) {
		start--
	}
	name = strings.ToLower(o.s[start:end])
	if quoted {
		if start -= len(o.quote); start < 0 || !strings.HasPrefix(o.s[start:], o.quote) {
			return "", -1
		}
	}
	return name, start
}

// elementBehind reads the text of an element whose attribute ends at s[at].
func (o object) elementBehind(at int) (value, bool) {
	from := skipMark(o.s, at, '>', "u003e")
	if from == at {
		return value{}, false
	}
	to := span(o.s, from, func(c byte) bool { return c != '<' && c != '\\' && c != '\n' })
	if close := skipMark(o.s, to, '<', "u003c"); close == to || close >= len(o.s) || o.s[close] != '/' {
		return value{}, false
	}
	return value{from: from, to: to, quoted: true}, true
}

// forward looks for the value among the members behind s[at].
func (o object) forward(at int) (value, bool) {
	for range maxSiblings {
		at = skipSpaces(o.s, at)
		if at < len(o.s) && o.s[at] == ',' {
			at = skipSpaces(o.s, at+1)
		}
		from := at
		if strings.HasPrefix(o.s[at:], o.quote) {
			from += len(o.quote)
		}
		to := span(o.s, from, isTokenByte)
		sep := to
		if from > at {
			if !strings.HasPrefix(o.s[to:], o.quote) {
				return value{}, false
			}
			sep += len(o.quote)
		}
		sep = skipSpaces(o.s, sep)
		if to == from || sep >= len(o.s) || o.s[sep] != ':' && o.s[sep] != '=' {
			return value{}, false
		}
		v, next := o.scalar(skipSpaces(o.s, sep+1))
		if next < 0 {
			return value{}, false
		}
		if slices.Contains(valueMembers, strings.ToLower(o.s[from:to])) {
			return v, true
		}
		at = next
	}
	return value{}, false
}

// scalar reads a value, and returns where what follows it begins; -1 for what is none.
func (o object) scalar(at int) (value, int) {
	if strings.HasPrefix(o.s[at:], o.quote) {
		from := at + len(o.quote)
		to := closing(o.s, from, o.quote)
		if !strings.HasPrefix(o.s[to:], o.quote) {
			return value{}, -1
		}
		return value{from: from, to: to, quoted: true}, to + len(o.quote)
	}
	to := span(o.s, at, func(c byte) bool { return isTokenByte(c) || c == '.' || c == '+' })
	if to == at {
		return value{}, -1
	}
	return value{from: at, to: to}, to
}

// backward looks for the value among the members before s[at].
func (o object) backward(at int) (value, bool) {
	least := max(0, at-maxSiblingSpan)
	for range maxSiblings {
		at = skipSpaceBack(o.s, at)
		if at > 0 && o.s[at-1] == ',' {
			at = skipSpaceBack(o.s, at-1)
		}
		v, open := o.scalarBefore(at, least)
		if open < 0 {
			return value{}, false
		}
		name, start := o.nameBefore(open)
		if start < 0 {
			return value{}, false
		}
		if slices.Contains(valueMembers, name) {
			return v, true
		}
		at = start
	}
	return value{}, false
}

// scalarBefore reads the value that ends at s[at], and returns where it begins with its
// quote; -1 for none.
func (o object) scalarBefore(at, least int) (value, int) {
	if !strings.HasSuffix(o.s[:at], o.quote) {
		from := at
		for from > least && (isTokenByte(o.s[from-1]) || strings.IndexByte(".+", o.s[from-1]) >= 0) {
			from--
		}
		if from == at {
			return value{}, -1
		}
		return value{from: from, to: at}, from
	}
	to := at - len(o.quote)
	for end := to; end > least; {
		open := strings.LastIndex(o.s[least:end], o.quote)
		if open < 0 {
			break
		}
		open += least
		if open == 0 || o.s[open-1] != '\\' { // else it is a part of the value
			return value{from: open + len(o.quote), to: to, quoted: true}, open
		}
		end = open
	}
	return value{}, -1
}

// siblingLine finds the value on a line beside that of the name, both of one object in
// YAML: the name's value begins at s[from] and ends at end.
func siblingLine(s string, from, end int) (value, bool) {
	if next := skipBlank(s, end); next < len(s) && breakAt(s, next) == next && s[next] != '"' {
		return value{}, false // more words follow
	}
	name, start := object{s: s, quote: "\""}.nameBefore(from)
	if !slices.Contains(nameMembers, name) || !startsItem(s, start) {
		return value{}, false
	}
	slashes := 0
	if next := skipBlank(s, end); next < len(s) && s[next] == '\\' {
		slashes = slashesAt(s, next)
	} else if before := skipItemBack(s, start); before > 1 && s[before-1] == 'n' && s[before-2] == '\\' {
		slashes = 1
		for before-2-slashes >= 0 && s[before-2-slashes] == '\\' {
			slashes++
		}
	}
	column := columnOf(s, start, slashes)
	if v, ok := lineForward(s[:min(len(s), end+maxSiblingSpan)], end, column, slashes); ok {
		return v, true
	}
	return lineBackward(s, start, column, slashes)
}

func skipItemBack(s string, at int) int {
	for at > 0 && isIndent(s[at-1]) {
		at--
	}
	return at
}

// startsItem reports whether only blanks and dashes stand before s[at] on its line.
func startsItem(s string, at int) bool {
	at = skipItemBack(s, at)
	return at == 0 || s[at-1] == '\n' || s[at-1] == '"' || endsEscape(s[:at])
}

// lineForward looks for the value on the lines behind s[at] that are indented as far.
func lineForward(s string, at, column, slashes int) (value, bool) {
	_, line := lineAt(s, at, slashes)
	for range maxSiblings {
		if line < 0 {
			break
		}
		end, next := lineAt(s, line, slashes)
		start := skipBlank(s[:end], line)
		if start < end && start-line < column || start-line == column && strings.HasPrefix(s[start:end], "- ") {
			break
		}
		if start-line == column {
			if v, ok := valueOnLine(s[:end], start); ok {
				return v, true
			}
		}
		line = next
	}
	return value{}, false
}

// lineBackward looks for the value on the lines before that of s[at].
func lineBackward(s string, at, column, slashes int) (value, bool) {
	item := strings.Contains(s[skipItemBack(s, at):at], "-")
	for range maxSiblings {
		end := lineBefore(s, at)
		if end < 0 || item {
			break // the name is the first of its object
		}
		line := end
		for line > 0 && end-line < maxSiblingSpan && s[line-1] != '\n' && (slashes == 0 || s[line-1] != '"' && !endsEscape(s[:line])) {
			line--
		}
		start := span(s[:end], line, isIndent)
		if start < end && start-line < column {
			break
		}
		item = strings.Contains(s[line:start], "-")
		if start-line == column {
			if v, ok := valueOnLine(s[:end], start); ok {
				return v, true
			}
		}
		at = line
	}
	return value{}, false
}

// valueOnLine reads `value: x`.
func valueOnLine(s string, at int) (value, bool) {
	sep := span(s, at, isTokenByte)
	if sep >= len(s) || s[sep] != ':' || !slices.Contains(valueMembers, strings.ToLower(s[at:sep])) {
		return value{}, false
	}
	return readValue(s, skipBlank(s, sep+1)), true
}
