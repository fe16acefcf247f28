package mask

import "strings"

// Values that stand below their names, as YAML writes them: a block of lines, the next
// line, or the members of a list. The line breaks may be written as \n, in a string.

// breakAt returns where the line begins that follows the break at s[at]; at when there is
// no break. The return that may stand before it is one: of many each would lead to all others.
func breakAt(s string, at int) int {
	if strings.HasPrefix(s[at:], "\r\n") {
		return at + 2
	}
	feed := at
	if word := at + slashesAt(s, at); word > at && word < len(s) && s[word] == 'r' {
		feed = word + 1
	}
	word := feed + slashesAt(s, feed)
	if word < len(s) && (word == feed && s[word] == '\n' || word > feed && s[word] == 'n') {
		return word + 1
	}
	return at
}

// slashesAt is how many backslashes stand at s[at]: none before a break that is one.
func slashesAt(s string, at int) int {
	return span(s, at, func(c byte) bool { return c == '\\' }) - at
}

// lineAt returns the end of the line that begins at s[at], and where the next one begins,
// or -1 when there is none. Slashes is how breaks are written; where they are escaped, the
// end of their string is the end of the lines.
func lineAt(s string, at, slashes int) (end, next int) {
	for i := at; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n':
			if slashes > 0 {
				return i, -1
			}
			return len(strings.TrimRight(s[at:i], "\r")) + at, i + 1
		case slashes == 0:
		case c == '"':
			return i, -1
		case c == '\\':
			n := slashesAt(s, i)
			switch word := i + n; {
			case word < len(s) && s[word] == '"' && n < slashes:
				return i, -1
			case word < len(s) && s[word] == 'n' && n == slashes:
				return i, word + 1
			default:
				i = word
			}
		}
	}
	return len(s), -1
}

// columnOf is how far the line is indented on which s[at] stands, dashes of lists
// included.
func columnOf(s string, at, slashes int) int {
	from := at
	for from > 0 && at-from < maxPrefix && s[from-1] != '\n' {
		if slashes > 0 && (s[from-1] == '"' || s[from-1] == 'n' && from > 1 && s[from-2] == '\\') {
			break
		}
		from--
	}
	return span(s, from, isIndent) - from
}

func isIndent(c byte) bool { return c == ' ' || c == '\t' || c == '-' }

// valueBelow reads the value of a key from the lines below it: at is behind its colon.
func valueBelow(s string, key, at int) (value, bool) {
	head, block := at, at < len(s) && (s[at] == '|' || s[at] == '>')
	if block {
		head = skipBlank(s, span(s, at+1, func(c byte) bool { return isDigit(c) || c == '-' || c == '+' }))
	}
	line := breakAt(s, head)
	if line == head {
		return value{}, false
	}
	slashes := slashesAt(s, head)
	column := columnOf(s, key, slashes)
	v := value{from: -1, quoted: true, lines: block}
	for n := 0; line >= 0; {
		end, next := lineAt(s, line, slashes)
		if start := skipBlank(s[:end], line); start < end {
			if start-line <= column {
				break
			}
			if n++; n > 1 && !block {
				return value{}, false
			}
			if v.from < 0 {
				v.from = start
			}
			v.to = end
		}
		line = next
	}
	if v.from < 0 {
		return value{}, false
	}
	if block {
		v.to = v.from + len(strings.TrimRight(s[v.from:v.to], " \t\r"))
		return v, true
	}
	return oneWord(s, v)
}

// oneWord reads the only word of a line, which may be in quotes.
func oneWord(s string, line value) (value, bool) {
	v := readValue(s[:line.to], line.from)
	rest := skipBlank(s, v.to)
	if v.quoted {
		rest = max(rest, skipQuote(s, v.to))
	}
	if rest < line.to || v.from >= v.to || strings.HasSuffix(s[v.from:v.to], ":") || s[v.from] == '-' {
		return value{}, false
	}
	return v, true
}

// many finds the secrets that one name is that of: the members of a list, or a column.
func (k key) many(s string, at int) []part {
	if at > 0 && s[at-1] == '/' && !ofDomain(s, at-1, at+len(k.word)) {
		return nil // a path
	}
	if found := k.members(s, at); len(found) > 0 {
		return found
	}
	return k.column(s, at)
}

// members finds the secrets of a list or an object that stands under the key.
func (k key) members(s string, at int) []part {
	end := at + len(k.word)
	plural := k.plural(s, end)
	if plural {
		end++
	}
	sep := skipGap(s, skipQuote(s, end))
	if sep >= len(s) || s[sep] != ':' && s[sep] != '=' {
		return nil
	}
	c := container{s: s, key: k, maps: plural || k.word == "credential", room: window}
	switch from := skipGap(s, sep+1); {
	case from >= len(s):
	case s[from] == '[' || s[from] == '{':
		c.flow(from)
	case s[sep] == ':' && breakAt(s, from) > from:
		c.lines(breakAt(s, from), columnOf(s, at, slashesAt(s, from)), slashesAt(s, from))
	}
	return c.found
}

// container is what a key such as passwords holds: a list, or an object.
type container struct {
	s    string
	key  key
	maps bool // the members of objects are looked at as well
	// room is how far is looked behind the last secret.
	room  int
	found []part
}

// level is a list or an object inside the container.
type level struct {
	list bool
	name string // of the container, "" for one in a list
}

// flow reads what is written in brackets.
func (c *container) flow(at int) {
	var open []level
	name, limit := "", at+c.room
	for i := at; i < min(len(c.s), limit); {
		switch ch := c.s[i]; {
		case ch == '[' || ch == '{':
			open = append(open, level{ch == '[', name})
			name = ""
			if i++; len(open) > maxEmbedded {
				return
			}
		case ch == ']' || ch == '}':
			open = open[:len(open)-1]
			name = ""
			if i++; len(open) == 0 {
				return
			}
		case ch == ',' || isSpace(ch):
			i++
		case breakAt(c.s, i) > i:
			i = breakAt(c.s, i)
		default:
			from, to, next := c.scalar(i)
			if colon := skipBlank(c.s, next); colon < len(c.s) && c.s[colon] == ':' {
				name, i = c.s[from:to], colon+1
				continue
			}
			if c.consider(open, name, from, to, next > to) {
				limit = to + c.room
			}
			name, i = "", next
		}
	}
}

// scalar reads a text in brackets, in quotes or not, and returns where what follows it
// begins.
func (c *container) scalar(at int) (from, to, next int) {
	if open := skipQuote(c.s, at); open > at {
		to = closing(c.s, open, c.s[at:open])
		return open, to, skipQuote(c.s, to)
	}
	to = at + 1
	for to < len(c.s) && strings.IndexByte(",[]{}\n\"", c.s[to]) < 0 && (c.s[to] != ':' || to+1 < len(c.s) && !isSpace(c.s[to+1])) {
		to++
	}
	to = at + len(strings.TrimRight(c.s[at:to], " \t\r\\"))
	return at, max(to, at+1), max(to, at+1)
}

// consider takes a member, if it is a secret.
func (c *container) consider(open []level, name string, from, to int, quoted bool) bool {
	text := c.s[from:to]
	if len(text) < 4 || isPlain(text) || !quoted && strings.ContainsAny(text, " \t") {
		return false
	}
	direct := name == ""
	for i, l := range open {
		if isReference(l.name) {
			return false
		}
		direct = direct && (l.list || i > 0 && l.name == "")
	}
	switch {
	case direct && !hasLetter(text) && !quoted:
		return false // a number, which stands for itself
	case direct && c.key.weak, !direct && c.maps:
		if isReference(name) || !looksRandom(text) || isObjectName(text) {
			return false
		}
	case !direct:
		return false
	}
	c.found = append(c.found, part{from, to})
	return true
}

// lines reads what stands on the lines below a key that is indented as far as column.
func (c *container) lines(line, column, slashes int) {
	refs := -1 // the column of a name below which references stand
	for limit := line + c.room; line >= 0 && line < limit; {
		end, next := lineAt(c.s, line, slashes)
		start := skipBlank(c.s[:end], line)
		item := strings.HasPrefix(c.s[start:end], "- ")
		if start < end && (start-line < column || start-line == column && !item) {
			return
		}
		text := span(c.s[:end], start, isIndent)
		if refs >= 0 && text-line > refs {
			line = next
			continue
		}
		refs = -1
		name, from := c.named(text, end)
		switch {
		case text >= end:
		case from >= end && isReference(name):
			refs = text - line
		case from < end:
			v := readValue(c.s[:end], from)
			if !v.quoted {
				v.to = from + len(strings.TrimRight(c.s[from:end], " \t\r"))
			}
			if c.consider([]level{{list: item}}, name, v.from, v.to, v.quoted) {
				limit = end + c.room
			}
		}
		line = next
	}
}

// named reads `name: ` on a line, and returns where the value begins.
func (c *container) named(at, end int) (name string, from int) {
	line := c.s[at:end]
	if n := strings.Index(line, ": "); n > 0 {
		return strings.Trim(line[:n], `"'\`), skipBlank(c.s, at+n+2)
	}
	if trimmed := strings.TrimRight(line, " \t\r"); strings.HasSuffix(trimmed, ":") {
		return strings.Trim(trimmed[:len(trimmed)-1], `"'\`), end
	}
	return "", at
}

// references are the ends of names whose values say where a secret is, or whose, and are
// none.
var references = []string{"name", "ref", "reference", "from", "path", "file", "filename", "url", "uri", "host", "user", "id", "type", "kind", "namespace", "version", "image", "arn", "region", "source", "endpoint", "role", "policy", "class", "provider", "expires", "at", "time", "date", "email", "project", "account", "zone"}

func isReference(name string) bool {
	name = strings.ToLower(name)
	for _, end := range references {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
