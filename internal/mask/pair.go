package mask

import (
	"slices"
	"strings"
)

// Names and values in a pair, ["password", "x"], in a call, set("password", "x") and
// setPassword("x"), and behind an index, env["PASSWORD"] = "x".

// pairBeside finds the value that stands with a name that ends in s[at:end].
func pairBeside(s string, at, end int) (value, bool) {
	from := at
	for from > 0 && at-from < 128 && (isTokenByte(s[from-1]) || strings.IndexByte(".:/", s[from-1]) >= 0) {
		from--
	}
	near := s[:min(len(s), at+window)]
	quote := quoteBefore(s, from)
	if quote == "" && strings.HasPrefix(near[end:], "(") {
		return argumentOf(near, s[from:end], end+1)
	}
	if quote != "" && !strings.HasPrefix(near[end:], quote) {
		return value{}, false
	}
	open := skipSpaceBack(s, from-len(quote))
	comma := skipSpaces(near, end+len(quote))
	if open == 0 || strings.IndexByte("[({", s[open-1]) < 0 || comma >= len(near) || near[comma] != ',' {
		return value{}, false
	}
	v := readValue(near, skipSign(near, skipSpaces(near, comma+1), "<<")) // a binary of Erlang
	if !v.quoted || quote != "" && near[v.from-1] != quote[len(quote)-1] {
		return value{}, false
	}
	tuple := quote == "" && s[open-1] == '{'
	v.doubtful = !tuple && !sets(s, open-1) || strings.ContainsAny(near[v.from:v.to], " \t")
	return v, v.closes(near, s[open-1])
}

// argumentOf reads the text that a call hands over: name("x").
func argumentOf(s, name string, at int) (value, bool) {
	v := readValue(s, skipSpaces(s, at))
	if !v.quoted || !v.closes(s, '(') {
		return value{}, false
	}
	v.doubtful = !isSetter(name[strings.LastIndexAny(name, ".:")+1:]) || strings.ContainsAny(s[v.from:v.to], " \t")
	return v, true
}

// closes reports whether the bracket that was opened closes behind a value. A call may go on.
func (v value) closes(s string, open byte) bool {
	end := skipSpaces(s, skipSign(s, skipQuote(s, v.to), ">>"))
	switch {
	case end >= len(s) || v.to <= v.from:
		return false
	case open == '(':
		return s[end] == ')' || s[end] == ','
	case open == '[':
		return s[end] == ']'
	}
	return s[end] == '}'
}

func skipSign(s string, at int, sign string) int {
	if strings.HasPrefix(s[at:], sign) {
		return at + len(sign)
	}
	return at
}

// sets reports whether the call whose bracket stands at s[open] sets something to a value.
func sets(s string, open int) bool {
	if s[open] != '(' {
		return false
	}
	from := open
	for from > 0 && open-from < 64 && isTokenByte(s[from-1]) {
		from--
	}
	return isSetter(s[from:open])
}

// setters are words with which the names of functions begin that set something, and others
// that say that they do not.
var (
	setters    = []string{"set", "put", "define", "with", "append", "store", "export", "override", "use"}
	notSetters = []string{"err", "valid", "type", "attr", "label", "message", "text", "placeholder", "field", "policy"}
)

func isSetter(name string) bool {
	name = strings.ToLower(strings.TrimLeft(name, "_"))
	return slices.ContainsFunc(setters, func(word string) bool { return strings.HasPrefix(name, word) }) &&
		!slices.ContainsFunc(notSetters, func(word string) bool { return strings.Contains(name, word) })
}

// skipIndex skips the end of an index, ], behind a name: env["PASSWORD"].
func skipIndex(s string, at int) int {
	switch {
	case at < len(s) && s[at] == ']':
		return at + 1
	case len(s) >= at+3 && strings.EqualFold(s[at:at+3], "%5d"):
		return at + 3
	}
	return at
}
