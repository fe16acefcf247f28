package mask

import "strings"

// Tables whose fields a sign separates: CSV, and what databases print by tabs.

// separators are the signs, the tab also as it is written inside a string.
var separators = []string{",", ";", "\t", `\t`, "|"}

// fields are the secrets in the column whose title stands in s[from:end], if that is one of
// the titles of such a table.
func (t *table) fields() []part {
	from := t.from
	if quote := quoteBefore(t.s, from); quote != "" {
		from -= len(quote)
	}
	sep := t.separator(from, skipQuote(t.s, t.end))
	if sep == "" {
		return nil
	}
	t.head = t.lineStart(from)
	end := titlesEnd(t.s, t.end)
	if t.rows = breakAt(t.s, end); t.rows == end {
		return nil
	}
	t.slashes = slashesAt(t.s, end)
	titles := cut(t.s[t.head:end], sep)
	if t.isRow(sep, len(titles)) {
		return nil
	}
	for _, title := range titles {
		if !isTitle(t.s[t.head+title.from : t.head+title.to]) {
			return nil
		}
	}
	column := len(cut(t.s[t.head:from], sep)) - 1
	return t.below(sep, len(titles), column)
}

// lineStart is where the line begins that s[at] is on, or the string that it is the first of.
func (t *table) lineStart(at int) int {
	from := max(0, at-maxColumn)
	from += strings.LastIndexByte(t.s[from:at], '\n') + 1
	if n := strings.LastIndex(t.s[from:at], `\n`); n >= 0 {
		from += n + len(`\n`)
	}
	for quote := at; ; {
		n := strings.LastIndexByte(t.s[from:quote], '"')
		if n < 0 {
			return from
		}
		if quote = from + n; t.opensText(quote + 1) {
			return quote + 1
		}
	}
}

// titlesEnd is where the line ends that s[at] is on, or how much of it is looked at.
func titlesEnd(s string, at int) int {
	near := s[at:min(len(s), at+maxColumn)]
	if n := strings.IndexByte(near, '\n'); n >= 0 {
		near = strings.TrimSuffix(near[:n], "\r")
	}
	if n := strings.Index(near, `\n`); n >= 0 {
		near = strings.TrimSuffix(strings.TrimRight(near[:n], `\`), `\r`)
	}
	return at + len(near)
}

// isRow reports whether the line of the titles is a row of a table above it.
func (t *table) isRow(sep string, many int) bool {
	end := lineBefore(t.s, t.head)
	return end >= 0 && len(cut(t.s[t.lineStart(end):end], sep)) == many
}

// separator is the sign that stands before and behind a title, or the line's end.
func (t *table) separator(from, end int) string {
	for _, sep := range separators {
		before, behind := strings.HasSuffix(t.s[:from], sep), strings.HasPrefix(t.s[end:], sep)
		ends := end < len(t.s) && breakAt(t.s, end) > end
		if before && (behind || ends) || behind && (from == 0 || t.s[from-1] == '\n' || t.opensText(from) || endsEscape(t.s[:from])) {
			return sep
		}
	}
	return ""
}

// opensText reports whether s[at] is the first of a string, or of a line in one.
func (t *table) opensText(at int) bool {
	return strings.HasSuffix(t.s[:at], `\n`) || at > 1 && t.s[at-1] == '"' && strings.IndexByte(":= ", t.s[at-2]) >= 0
}

// below are the secrets in the rows: as long as they have as many fields as there are titles.
func (t *table) below(sep string, many, column int) (found []part) {
	line := t.rows
	for range maxRows {
		if line < 0 {
			break
		}
		end, next := lineAt(t.s, line, t.slashes)
		row := cut(t.s[line:end], sep)
		if len(row) != many {
			break
		}
		if f := row[column]; f.from < f.to && t.secret(t.s[line+f.from:line+f.to]) {
			found = append(found, part{line + f.from, line + f.to})
		}
		line = next
	}
	return found
}

// isTitle reports whether a field is a word, as titles are.
func isTitle(field string) bool {
	return field != "" && len(field) <= 64 && isLetter(field[0]) && span(field, 0, func(c byte) bool { return isTokenByte(c) || c == '.' || c == ' ' }) == len(field) && strings.Count(field, " ") < 3
}

// cut cuts a line into its fields, without their quotes.
func cut(line, sep string) (fields []part) {
	for at := 0; ; {
		open := skipQuote(line, at)
		from, to, next := at, 0, 0
		if open > at {
			from, to = open, closing(line, open, line[at:open])
			next = skipQuote(line, to)
		} else {
			to = len(line)
			if n := strings.Index(line[at:], sep); n >= 0 {
				to = at + n
			}
			next = to
			to = at + len(strings.TrimRight(line[at:to], " \r"))
		}
		fields = append(fields, part{from, to})
		if !strings.HasPrefix(line[next:], sep) || len(fields) == maxColumn {
			return fields
		}
		at = next + len(sep)
	}
}
