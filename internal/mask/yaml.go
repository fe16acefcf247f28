package mask

import (
	"encoding/json"
	"slices"
	"strings"
)

// Secrets that are written as YAML, whether it is whole, cut or a template. They are not
// parsed: what a parser refuses, another one reads. In a document that says it is of a
// Secret all is masked that may be a value below data or stringData, however those are
// spelled, and all that has an anchor, as it may be meant there.

// ofSecret reports whether a YAML text says that it is of a Secret, in any of the
// ways to write that.
func ofSecret(s string) bool {
	for at := 0; ; {
		n := strings.Index(s[at:], "kind")
		if n < 0 {
			return false
		}
		at += n + len("kind")
		colon := skipBlank(s, skipQuote(s, at))
		if next := skipSpace(s, colon); next < len(s) && s[next] == ':' {
			colon = next // ? kind, and : on the next line
		}
		if colon < len(s) && s[colon] == ':' && strings.HasPrefix(s[skipQuote(s, skipDecor(s, colon+1, true)):], "Secret") {
			return true
		}
	}
}

// maxDecor bounds what may stand between a key and its value.
const maxDecor = 256

// skipDecor skips what may stand before a value: blanks, a tag, an anchor, and with lines
// a comment, line breaks and the mark of a block.
func skipDecor(s string, at int, lines bool) int {
	word := func(c byte) bool { return !isSpace(c) && strings.IndexByte("{}[],\"'", c) < 0 }
	for start := at; at < len(s) && at-start < maxDecor; {
		switch c := s[at]; {
		case c == ' ' || c == '\t', lines && isSpace(c):
			at++
		case c == '!' || c == '&':
			at = span(s, at, word)
		case lines && c == '#':
			at = span(s, at, func(c byte) bool { return c != '\n' })
		case lines && (c == '|' || c == '>'):
			at = span(s, at+1, word)
		default:
			return at
		}
	}
	return at
}

// maskSecretYAML masks what is below data and stringData in each YAML document that
// holds a Secret. A line that is JSON, as of a log, is read as that.
func (m *Masker) maskSecretYAML(s string, level int) string {
	lines := strings.SplitAfter(s, "\n")
	for i, line := range lines {
		from := strings.IndexAny(line, "{[")
		if from < 0 || !strings.Contains(line, "Secret") || !json.Valid([]byte(line[from:])) {
			continue
		}
		lines[i] = line[:from] + m.secretText(line[from:], level+1)
	}
	docs := strings.SplitAfter(strings.Join(lines, ""), "\n---")
	for i, doc := range docs {
		if ofSecret(doc) {
			t := manifest{m: m, s: doc}
			docs[i] = t.masked()
		}
	}
	return strings.Join(docs, "")
}

// manifest is a YAML document of a Secret, and what of it is written.
type manifest struct {
	m     *Masker
	s     string
	out   strings.Builder
	done  int
	open  int // how often a value was found to have no end
	found []string
}

// maxOpen bounds how often the end of a value is looked for in vain. Beyond it all that
// is left is masked.
const maxOpen = 16

func (d *manifest) masked() string {
	line := 0 // where the line begins
	for at := 0; at < len(d.s); {
		value, ok := d.dataKey(at)
		if !ok {
			if d.s[at] == '\n' {
				line = at + 1
			}
			at++
			continue
		}
		at = d.below(d.value(value, line), d.column(line))
		line = at
	}
	d.m.learn(d.found)
	return d.out.String() + d.s[d.done:]
}

// replace has a tag stand for a part, but for blanks around it.
func (d *manifest) replace(from, to int) {
	part := strings.TrimRight(d.s[from:to], " \t\r\n")
	switch part {
	case "", "{}", "[]", "null", "~", `""`, "''":
		return
	}
	if isMasked(part) {
		return
	}
	d.m.count.Add(1)
	d.found = append(d.found, part)
	d.out.WriteString(d.s[d.done:from] + onLines(d.m.tagFor(part), part))
	d.done = from + len(part)
}

// dataKey reports whether a key stands at s[at] below which secrets are, or an anchor, and
// where its value begins.
func (d *manifest) dataKey(at int) (value int, ok bool) {
	s := d.s
	if at > 0 && !isSpace(s[at-1]) && strings.IndexByte("\"'{[,", s[at-1]) < 0 && !endsEscape(s[:at]) {
		return 0, false
	}
	end := 0
	switch {
	case strings.HasPrefix(s[at:], "data"):
		end = at + len("data")
	case strings.HasPrefix(s[at:], "stringData"):
		end = at + len("stringData")
	case s[at] == '&':
		if name := span(s, at+1, func(c byte) bool { return !isSpace(c) && strings.IndexByte("{}[],;", c) < 0 }); name > at+1 {
			return skipBlank(s, name), true
		}
		return 0, false
	case s[at] == '"':
		// An escape may spell any name.
		close := at + 1
		for close < len(s) && close-at < maxDecor && s[close] != '"' && s[close] != '\n' {
			if s[close] == '\\' {
				close++
			}
			close++
		}
		if close >= len(s) || s[close] != '"' || strings.IndexByte(s[at:close], '\\') < 0 {
			return 0, false
		}
		end = close
	default:
		return 0, false
	}
	colon := skipBlank(s, skipQuote(s, end))
	if colon < len(s) && s[colon] == ':' {
		return skipDecor(s, colon+1, false), true
	}
	// ? data, with its value on the next line.
	before := strings.TrimRight(s[:at], " \t\"'")
	return colon, strings.HasSuffix(before, "?") && (colon >= len(s) || s[colon] == '\n' || s[colon] == '\r' || s[colon] == '#')
}

// column is how far a line is indented, dashes of lists included.
func (d *manifest) column(line int) int {
	return span(d.s, line, func(c byte) bool { return c == ' ' || c == '\t' || c == '-' }) - line
}

// value masks what begins at s[at], on a line, and returns the end of the line on which
// it ends.
func (d *manifest) value(at, line int) int {
	s := d.s
	end := d.lineEnd(at)
	if at >= end || s[at] == '#' || blockMark(s[at:end]) {
		return end
	}
	inline := s[line:at]
	flow := strings.ContainsAny(inline, "{[,")
	switch to, ended := d.valueEnd(at); {
	case !ended && d.open > maxOpen:
		d.replace(at, len(s))
		return len(s)
	case ended && flow:
		d.replace(at, to)
		return d.rest(to)
	case ended && to > end: // over several lines
		end = d.lineEnd(to)
	case flow && !opensValue(s[at]):
		to := at + span(s[at:end], 0, func(c byte) bool { return strings.IndexByte(",}]", c) < 0 })
		d.replace(at, to)
		return d.rest(to)
	}
	d.replace(at, end)
	return end
}

// rest goes on behind a value that others follow on its line.
func (d *manifest) rest(at int) int {
	end := d.lineEnd(at)
	for at < end {
		if value, ok := d.dataKey(at); ok && value > at && value <= end {
			// To the end of the line: what may follow is not worth the doubt.
			d.replace(value, end)
			return end
		}
		at++
	}
	return end
}

// opensValue reports whether a value that begins so has an end of its own.
func opensValue(c byte) bool { return strings.IndexByte("{[\"'\\", c) >= 0 }

// valueEnd is the end of a value in quotes or brackets, which may stand on several lines.
func (d *manifest) valueEnd(at int) (end int, ended bool) {
	switch {
	case !opensValue(d.s[at]):
		return 0, false
	case d.s[at] == '{' || d.s[at] == '[':
		end, ended = bracketsEnd(d.s, at)
	default:
		end, ended = quotesEnd(d.s, at)
	}
	if !ended {
		d.open++
	}
	return end, ended
}

// bracketsEnd finds the bracket that closes the one at s[at].
func bracketsEnd(s string, at int) (int, bool) {
	var open []byte
	for i := at; i < len(s); i++ {
		switch s[i] {
		case '{', '[':
			open = append(open, s[i]+2) // what closes it
		case '}', ']':
			last := len(open) - 1
			if open[last] != s[i] {
				return 0, false
			}
			if open = open[:last]; last == 0 {
				return i + 1, true
			}
		case '"', '\'':
			if !isSpace(s[i-1]) && strings.IndexByte("{[,:\\", s[i-1]) < 0 {
				continue // within a word
			}
			from := i
			for from > at && s[from-1] == '\\' {
				from--
			}
			end, ok := quotesEnd(s, from)
			if !ok {
				return 0, false
			}
			i = max(i, end-1)
		}
	}
	return 0, false
}

// quotesEnd finds the end of the string that begins at s[at], whose quote may have
// backslashes in front.
func quotesEnd(s string, at int) (int, bool) {
	open := span(s, at, func(c byte) bool { return c == '\\' })
	if open >= len(s) || s[open] != '"' && s[open] != '\'' {
		return 0, false
	}
	mark, slashes := s[open], open-at
	for i := open + 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && slashes == 0 && mark == '"':
			i++
		case s[i] != mark:
		case mark == '\'' && i+1 < len(s) && s[i+1] == mark:
			i++
		case slashes == 0, span(s, i-slashes, func(c byte) bool { return c == '\\' }) == i && s[i-slashes-1] != '\\':
			return i + 1, true
		}
	}
	return 0, false
}

// below masks the lines that are indented deeper than a column, from the end of the line
// before them, and returns where the first other one begins.
func (d *manifest) below(at, column int) int {
	block := -1 // the column of the key whose value is a block of lines
	entry := -1 // that of the keys
	for at < len(d.s) {
		line := at + 1 // behind the line's break
		end := d.lineEnd(line)
		indent := span(d.s, line, func(c byte) bool { return c == ' ' || c == '\t' }) - line
		text := strings.TrimSpace(d.s[line:end])
		if text != "" && indent <= block && indent > column {
			block = -1
		}
		if entry < 0 && text != "" && indent > column {
			entry = indent
		}
		switch {
		case text == "":
		case indent <= column:
			// A comment, an order of a template and the second half of ? data end nothing.
			if !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "{{") && !strings.HasPrefix(text, ":") {
				if entry >= 0 && d.resumes(line, entry, block >= 0) {
					break
				}
				return line
			}
			if strings.HasPrefix(text, ":") {
				if value := skipDecor(d.s, line+indent+1, false); value < end {
					end = d.value(value, line)
				}
			}
		case block >= 0:
			d.replace(line+indent, end)
		default:
			value := d.inner(line+indent, end)
			if value < end && blockMark(d.s[value:end]) {
				block = indent
				break
			}
			if value < end {
				if to, ended := d.valueEnd(value); ended && to > end {
					end = d.lineEnd(to)
				}
				if d.open > maxOpen {
					end = len(d.s)
				}
				d.replace(value, end)
			}
		}
		at = end
	}
	return len(d.s)
}

// ofManifest are the names of fields that stand beside data.
var ofManifest = []string{"apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData"}

// resumes reports whether a line is none of a manifest, but of a log in which it stands,
// and the entries go on behind it.
func (d *manifest) resumes(line, entry int, block bool) bool {
	for range maxForeign {
		end := d.lineEnd(line)
		f := readField(d.s[line:end])
		if slices.Contains(ofManifest, f.name) || strings.HasPrefix(f.text, "---") {
			return false
		}
		indent := span(d.s, line, func(c byte) bool { return c == ' ' || c == '\t' }) - line
		if indent == entry && f.name != "" && strings.IndexByte(f.name, ' ') < 0 || block && indent > entry {
			return true
		}
		if line = end + 1; line >= len(d.s) {
			break
		}
	}
	return false
}

// inner is where the value on a line below data begins: behind its key, which is kept, or
// at the line's beginning.
func (d *manifest) inner(from, end int) int {
	line := d.s[from:end]
	if n := strings.Index(line, ": "); n >= 0 {
		return skipBlank(d.s, from+n+2)
	}
	if strings.HasSuffix(strings.TrimRight(line, " \t\r"), ":") {
		return end
	}
	return from
}

// blockMark reports whether a value is the head of a block of lines.
func blockMark(s string) bool {
	if s[0] != '|' && s[0] != '>' {
		return false
	}
	rest := s[span(s, 1, func(c byte) bool { return isDigit(c) || c == '-' || c == '+' }):]
	text := strings.TrimSpace(rest)
	return text == "" || text[0] == '#' && isSpace(rest[0])
}

func (d *manifest) lineEnd(at int) int {
	if at >= len(d.s) {
		return len(d.s)
	}
	if n := strings.IndexByte(d.s[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(d.s)
}
