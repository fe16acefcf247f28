package mask

import (
	"slices"
	"strings"
)

// Values that no sign separates from their names: in a sentence, in commands that set a
// variable, and on the next line.

// links are words that may stand between a name and its value in a sentence.
var links = []string{"is", "was", "are", "be", "now", "still", "to", "as", "set", "reset", "changed", "rotated", "with", "from", "equals", "being", "value"}

// said finds the value of a name that ends at s[end] among the next words: the password is
// X, password X was rejected. It takes only what is no word of a sentence.
func (k key) said(s string, end int) (int, int) {
	near := s[:min(len(s), end+maxLearn)]
	next := skipBlank(near, skipQuote(near, end))
	for n := 0; n < 3 && next > end; n++ {
		word := span(near, next, isLetter)
		after := skipBlank(near, word)
		if after == word || !slices.Contains(links, strings.ToLower(near[next:word])) {
			break
		}
		next = after
	}
	if next == end || next >= len(near) || near[next-1] != ' ' && near[next-1] != '\t' {
		return -1, -1
	}
	from := skipQuote(near, next)
	to := span(near, from, func(c byte) bool { return !endsURL(c) && strings.IndexByte(",;|&", c) < 0 })
	to = from + len(strings.TrimRight(near[from:to], ".:)]}"))
	text := near[from:to]
	if to == len(near) && len(near) < len(s) || !unlikely(text) || k.weak && !learnable(text) || strings.IndexByte("({[", text[0]) >= 0 {
		return -1, -1
	}
	return from, to
}

// Commands that set a variable without a sign, and those that set some setting.
var (
	declare  = named("ENV", "setenv", "setx")
	settings = named("set", "SET", "put", "PUT", "add", "config")
	setting  = named("etcdctl", "redis-cli", "valkey-cli", "git", "npm", "yarn", "aws", "consul", "pulumi", "composer", "pip", "fish")
)

// declared takes the value of a variable that ends in s[at:end]: ENV DB_PASSWORD x, setenv
// DB_PASSWORD x, git config x.password x.
func (k key) declared(s string, at, end int) (int, int) {
	near := s[:min(len(s), at+maxLearn)]
	next := skipBlank(near, skipQuote(near, end))
	if next == end || next >= len(near) || strings.IndexByte("=:", near[next]) >= 0 {
		return -1, -1
	}
	name := at
	for name > 0 && at-name < 128 && (isHostByte(s[name-1]) || strings.IndexByte("/:", s[name-1]) >= 0) {
		name--
	}
	to := len(strings.TrimRight(s[:name], " \t\"'"))
	from := to
	for from > 0 && to-from < 16 && isTokenByte(s[from-1]) {
		from--
	}
	v := readValue(near, next)
	word := s[from:to]
	switch {
	case declare[word] && startsStep(s, from):
	case (settings[word] || word != "" && word[0] == '-') && ofCommand(s, from, setting) && !wordsFollow(near, v.to):
	default:
		return -1, -1
	}
	if word == "ENV" && !v.quoted {
		v.to, _ = lineAt(near, next, slashesAt(near, next)) // all of the line
		if cut := strings.IndexAny(near[next:v.to], "\"\\"); cut >= 0 {
			v.to = next + cut
		}
		v.to = next + len(strings.TrimRight(near[next:v.to], " \t"))
	}
	text := near[v.from:max(v.from, v.to)]
	if len(text) < 3 || isPlain(text) || text[0] == '-' || k.weak && !looksRandom(text) || slices.Contains(links, strings.ToLower(strings.SplitN(text, " ", 2)[0])) {
		return -1, -1
	}
	return v.from, v.to
}

// startsStep reports whether s[at] begins a line, or a step as a builder prints it.
func startsStep(s string, at int) bool {
	before := strings.TrimRight(s[max(0, at-8):at], " \t")
	return startsLine(s, at) || before != "" && strings.IndexByte("]:;&|+)", before[len(before)-1]) >= 0
}

// onNextLine takes the only word of the line below a name and its sign, which end at s[at]:
// what somebody typed, or a value that was wrapped. It takes no word that may be an answer.
func (k key) onNextLine(s string, name, at int) (int, int) {
	near := s[:min(len(s), at+window)]
	end := skipBlank(near, at)
	line := breakAt(near, end)
	if line == end {
		return -1, -1
	}
	to, _ := lineAt(near, line, slashesAt(near, end))
	v, ok := oneWord(near, value{from: skipBlank(near, line), to: to})
	if !ok || to == len(near) && len(near) < len(s) {
		return -1, -1
	}
	text := near[v.from:v.to]
	sure := learnable(text)
	if !k.weak && !sure {
		sure = unlikely(text) || startsName(s, name) && isMixed(text) && !strings.ContainsAny(text, "@:=/(,")
	}
	if prompt := strings.IndexByte("#$>%", text[len(text)-1]) >= 0; !sure || prompt || isPlain(text) || namesField(near, v.from) && !strings.HasSuffix(text, "=") || isDate(text) {
		return -1, -1
	}
	return v.from, v.to
}

// startsName reports whether the name that goes on at s[at] begins its line.
func startsName(s string, at int) bool {
	for at > 0 && (isTokenByte(s[at-1]) || s[at-1] == '.') {
		at--
	}
	return startsLine(s, at) || strings.HasSuffix(s[:at], "Enter ")
}
