package mask

import (
	"slices"
	"strings"
)

// A log is never seen as a whole: it is read from somewhere on, to where it ends at the
// moment, or as it grows. What is a secret in it may be said by a line that stands above
// what was read, or that has not been written yet.

// Log masks a stretch of a log, each line in its place. Lines at its ends that are a
// secret if more stands before or behind them are taken for one. The first settled lines
// stay as they are whatever follows; who waits for more lines has the others masked again
// with those.
func (m *Masker) Log(stretch []byte) (masked []byte, settled int) {
	text := string(stretch)
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	data, value, key := openEnds(lines)
	if isDisguised(text) {
		seen := strings.SplitAfter(undisguised(text), "\n")[:len(lines)]
		if d, v, k := openEnds(seen); d != data || v != value || k != key || keyRun(seen, false) != keyRun(lines, false) {
			lines, data, value, key = seen, d, v, k // as what is masked there is written
		}
	}
	settled = min(data, value, key)
	for i := range keyRun(lines, false) {
		lines[i] = m.keyLine(lines[i])
	}
	for i := key; i < len(lines); i++ {
		lines[i] = m.keyLine(lines[i])
	}
	if value < len(lines) {
		lines[value] = m.lastValue(lines[value])
	}
	if data < len(lines) {
		heads, rest := withoutPrefixes(lines[data:])
		block := manifest{m: m, s: strings.Join(rest, "")}
		lines = append(lines[:data], withPrefixes(heads, block.masked()))
	}
	return []byte(m.behindPrefixes(m.String(strings.Join(lines, "")))), settled
}

// openEnds are where what may be a secret by lines that are not there begins in a stretch:
// the data of an object, a value, a key.
func openEnds(lines []string) (data, value, key int) {
	data, value = openFields(lines)
	return data, value, len(lines) - keyRun(lines, true)
}

// overLines are words in what a secret stands on another line of: manifests, names and keys
// of values, titles, and names with nothing behind them.
var overLines = []string{"Secret", "ame", "ey\"", "assw", "ASSW", "oken", "OKEN"}

// behindPrefixes masks what stands behind the moments and levels with which the lines of
// a log begin: a text that was logged line by line is one without them.
func (m *Masker) behindPrefixes(log string) string {
	if !slices.ContainsFunc(overLines, func(word string) bool { return strings.Contains(log, word) }) {
		return log
	}
	heads, lines := withoutPrefixes(strings.SplitAfter(log, "\n"))
	plain := strings.Join(lines, "")
	if len(plain) == len(log) {
		return log
	}
	if masked := m.String(plain); masked != plain {
		return withPrefixes(heads, masked)
	}
	return log
}

// withoutPrefixes takes from each line what its logger put before it.
func withoutPrefixes(lines []string) (heads, rest []string) {
	heads, rest = make([]string, len(lines)), make([]string, len(lines))
	for i, line := range lines {
		n := prefixEnd(line)
		heads[i], rest[i] = line[:n], line[n:]
	}
	return heads, rest
}

func withPrefixes(heads []string, text string) string {
	var out strings.Builder
	for i, line := range strings.SplitAfter(text, "\n") {
		if i < len(heads) {
			out.WriteString(heads[i])
		}
		out.WriteString(line)
	}
	return out.String()
}

// maxPrefixWords is how many words a logger puts before a line.
const maxPrefixWords = 6

// prefixEnd is where the text of a line begins behind words of its logger: moments,
// numbers, levels, what stands in brackets. One blank ends each of them.
func prefixEnd(line string) (end int) {
	for range maxPrefixWords {
		word := line[end : end+span(line[end:], 0, func(c byte) bool { return !isSpace(c) })]
		if len(word) == 0 || end+len(word) >= len(line) || line[end+len(word)] != ' ' || !ofLogger(word) {
			break
		}
		end += len(word) + 1
	}
	return end
}

// levels are words for how bad a line is.
var levels = []string{"TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL", "STDOUT", "STDERR", "F"}

func ofLogger(word string) bool {
	text := strings.Trim(word, "[]()<>:|,")
	if text == "" || slices.Contains(levels, strings.ToUpper(text)) || word[0] == '[' && word[len(word)-1] == ']' {
		return true
	}
	moment := func(c byte) bool { return isDigit(c) || strings.IndexByte(":.,+-/TZIWEFD", c) >= 0 }
	return hasDigit(text) && span(text, 0, moment) == len(text)
}

// logReach is how many lines a structure has at most whose beginning or end is looked for.
const logReach = 400

// keyRun is how many lines at one end of a stretch are as those of a private key: it may
// have been cut off there.
func keyRun(lines []string, atEnd bool) (n int) {
	for n < min(len(lines), logReach) {
		line := lines[n]
		if atEnd {
			line = lines[len(lines)-1-n]
		}
		if longWord(line) < 0 {
			break
		}
		n++
	}
	if rest := len(lines) - n; atEnd && n == 0 && rest > 1 && longWord(lines[rest-2]) >= 0 && !strings.Contains(lines[rest-1], "-----") {
		return 1 + keyRun(lines[:rest-1], true) // the last line of a key is a short one
	}
	return n
}

// longWord returns where the word begins in which a line ends, if that is as long as the
// lines of a key are and as mixed; -1 otherwise.
func longWord(line string) int {
	line = strings.TrimRight(line, "\r\n")
	at := wordBefore(line, len(line))
	word := line[at:]
	if len(word) < keyLine || !hasDigit(word) || !has(word, func(c byte) bool { return c >= 'A' && c <= 'Z' }) || !has(word, func(c byte) bool { return c >= 'g' && c <= 'z' }) {
		return -1
	}
	return at
}

// keyLine masks what of a line may be of a key: the word in which it ends.
func (m *Masker) keyLine(line string) string {
	text := strings.TrimRight(line, "\r\n")
	at := wordBefore(text, len(text))
	if word := text[at:]; len(word) < keyLine && !looksRandom(word) && !strings.HasSuffix(word, "=") {
		return line
	}
	m.count.Add(1)
	return text[:at] + m.Tag(text[at:]) + line[len(text):]
}

// field is a line as that of an object in YAML or JSON; name is "" where it is none.
type field struct {
	column            int
	text, name, value string
}

func readField(line string) field {
	f := field{column: span(line, 0, func(c byte) bool { return c == ' ' || c == '\t' || c == '-' })}
	f.text = strings.TrimSpace(line)
	if name, value, ok := strings.Cut(line[f.column:], ":"); ok {
		f.name, f.value = strings.Trim(name, "\"' \t"), strings.TrimSpace(value)
	}
	return f
}

// openFields returns the first line of what may turn out to be a secret by fields that
// follow: the data of an object whose kind is not told yet, and the value of a name. The
// fields of an object are written in the order of the alphabet, the kind behind the data.
func openFields(lines []string) (data, value int) {
	from := max(0, len(lines)-logReach)
	fields := make([]field, len(lines)-from)
	for i := range fields {
		line := lines[from+i]
		fields[i] = readField(line[prefixEnd(line):])
	}
	data, value = len(lines), len(lines)
	for i, f := range fields {
		if f.beginsData() && ofObject(fields[:i], f.column) && !kindFollows(fields[i+1:], f.column) {
			data = from + i
			break
		}
	}
	if n := openValue(fields); n >= 0 {
		value = from + n
	}
	return data, value
}

// openValue returns the value among the last fields whose name may follow, -1 for none.
func openValue(fields []field) int {
	last := len(fields) - 1
	if last < 0 || fields[last].name == "" {
		return -1
	}
	open := -1
	for i := last; i >= max(0, last-maxSiblings) && fields[i].column >= fields[last].column; i-- {
		name := strings.ToLower(fields[i].name)
		switch {
		case fields[i].column > fields[last].column:
			continue
		case slices.Contains(nameMembers, name):
			return -1
		case slices.Contains(valueMembers, name) && fields[i].value != "":
			open = i
		}
		if strings.HasPrefix(fields[i].text, "- ") {
			break // the first field of its object
		}
	}
	return open
}

// beginsData reports whether a field is the data of an object, on lines of its own.
func (f field) beginsData() bool {
	return (f.name == "data" || f.name == "stringData") && (f.value == "" || strings.IndexByte("{|>#&!", f.value[0]) >= 0 && !strings.HasPrefix(f.value, "{}"))
}

// ofObject reports whether the fields above say that they are of a Kubernetes object, and
// not of what kind.
func ofObject(above []field, column int) bool {
	for i := len(above) - 1; i >= 0 && !strings.HasPrefix(above[i].text, "---"); i-- {
		switch {
		case above[i].column != column:
		case above[i].name == "kind":
			return false
		case above[i].name == "apiVersion":
			return true
		}
	}
	return false
}

// maxBetween is how many lines may stand between the data of an object and its kind: other
// lines of a log may come between its own.
const maxBetween = 16

// kindFollows reports whether the kind of an object stands below its data, or will not
// stand there any more.
func kindFollows(below []field, column int) bool {
	between := 0
	for _, f := range below {
		switch {
		case f.text == "" || f.column > column:
			continue
		case f.column == column && f.name == "kind", strings.HasPrefix(f.text, "---"), f.column < column && (f.text[0] == '}' || f.text[0] == ']'):
			return true
		}
		if between++; between > maxBetween {
			return true
		}
	}
	return false
}

// lastValue masks the value of a line that ends a stretch, if it looks like a secret.
func (m *Masker) lastValue(line string) string {
	at := strings.Index(line, ":") + 1
	v := readValue(line, skipBlank(line, at))
	if v.from >= v.to || isPlain(line[v.from:v.to]) || !looksRandom(line[v.from:v.to]) {
		return line
	}
	m.count.Add(1)
	return line[:v.from] + m.Tag(line[v.from:v.to]) + line[v.to:]
}
