package mask

import (
	"strings"
)

// Names and values in columns.

// Bounds on what is taken for a table.
const (
	maxColumn = 1024 // where a column can begin
	maxRows   = 2000
)

// cellBehind reads what a bar or an arrow separates from its name: password | x, and
// password -> x.
func cellBehind(s string, at, end int) (value, bool) {
	sign := skipGap(s, end)
	for _, arrow := range []string{"->", `-\u003e`, "→", "<-", `\u003c-`} {
		if strings.HasPrefix(s[sign:], arrow) {
			v := readValue(s, skipGap(s, sign+len(arrow)))
			v.prose = !v.quoted
			return v, true
		}
	}
	if sign >= len(s) || s[sign] != '|' || !startsCell(s, at) {
		return value{}, false
	}
	from := skipGap(s, sign+1)
	to, rest := cellEnd(s, from)
	if to == from || strings.ContainsAny(s[from:to], " \t") {
		return value{}, false
	}
	return value{from: from, to: to, prose: rest}, true
}

// startsCell reports whether the name that ends behind s[at] is all that its cell holds.
func startsCell(s string, at int) bool {
	for at > 0 && (isTokenByte(s[at-1]) || s[at-1] == '.') {
		at--
	}
	if bar := len(strings.TrimRight(s[:at], " \t")); bar > 0 && s[bar-1] == '|' {
		at = bar - 1
	}
	return startsLine(s, at)
}

// cellEnd is the end of what stands in a cell, and whether other cells follow it.
func cellEnd(s string, from int) (to int, more bool) {
	end := from
	for end < len(s) && s[end] != '|' && s[end] != '"' && breakAt(s, end) == end {
		end++
	}
	to = from + len(strings.TrimRight(s[from:end], " \t"))
	if end < len(s) && s[end] == '|' {
		next := skipBlank(s, end+1)
		more = next < len(s) && breakAt(s, next) == next && s[next] != '"'
	}
	return to, more
}

// column finds the cells below a title that ends as the key does: PASSWORD in a table as
// kubectl prints it, or between bars above a ruled line.
func (k key) column(s string, at int) []part {
	end := at + len(k.word)
	if k.word == "secret" { // a column of that title names Secrets
		return nil
	}
	from := at
	for from > 0 && at-from < 64 && isTokenByte(s[from-1]) && !endsEscape(s[:from]) {
		from--
	}
	t := table{s: s, key: k, from: from, end: end}
	if t.titled() {
		return t.cells()
	}
	return t.fields()
}

// table is one with a title in s[from:end].
type table struct {
	s         string
	key       key
	from, end int

	head    int // where the line of the titles begins
	rows    int // where the one behind it begins
	slashes int
	bars    int // how many bars stand before the title
	barred  bool
}

// titled reports whether the title stands in a line of titles.
func (t *table) titled() bool {
	gap := t.s[t.end:min(len(t.s), t.end+2)]
	upper := isUpper(t.s[t.from])
	next := skipBlank(t.s, t.end)
	if t.barred = next < len(t.s) && t.s[next] == '|' || t.from > 1 && t.s[t.from-2] == '|'; !t.barred &&
		(!upper || gap != "  " && !strings.HasPrefix(gap, "\t") && breakAt(t.s, next) == next) {
		return false
	}
	end := next
	for end < len(t.s) && end-next < maxColumn && breakAt(t.s, end) == end {
		end++
	}
	if t.rows = breakAt(t.s, end); t.rows == end {
		return false
	}
	t.slashes = slashesAt(t.s, end)
	t.head = t.from
	for t.head > 0 && t.from-t.head < maxColumn && t.s[t.head-1] != '\n' && (t.slashes == 0 || t.s[t.head-1] != '"' && !endsEscape(t.s[:t.head])) {
		t.head--
	}
	line := t.s[t.head:end]
	if t.barred {
		t.bars = strings.Count(t.s[t.head:t.from], "|")
		below, _ := lineAt(t.s, t.rows, t.slashes)
		return isRule(t.s[t.rows:below])
	}
	return isTitles(line)
}

// isTitles reports whether a line is one of titles: more than one, each of which begins with
// a capital, and nothing else, as what lists variables has.
func isTitles(line string) bool {
	words := strings.Fields(line)
	for _, word := range words {
		if !isUpper(word[0]) || strings.IndexByte(":=.,;!", word[len(word)-1]) >= 0 {
			return false
		}
	}
	wide := strings.Contains(strings.TrimSpace(line), "  ") || strings.Contains(line, "\t")
	return len(words) > 1 && wide
}

// isRule reports whether a line is one that is drawn.
func isRule(line string) bool {
	return len(line) > 2 && strings.Trim(line, "-+|=: ") == ""
}

// cells are the secrets below the title.
func (t *table) cells() []part {
	var found []part
	line := t.rows
	for range maxRows {
		if line < 0 {
			break
		}
		end, next := lineAt(t.s, line, t.slashes)
		row := t.s[line:end]
		if strings.TrimSpace(row) == "" || t.barred && !strings.ContainsAny(row, "|+") {
			break
		}
		if from, to := t.cell(row); from < to && t.secret(row[from:to]) {
			found = append(found, part{line + from, line + to})
		}
		line = next
	}
	return found
}

// cell is where the cell of the column stands in a row.
func (t *table) cell(row string) (from, to int) {
	if t.barred {
		for range t.bars {
			n := strings.IndexByte(row[from:], '|')
			if n < 0 {
				return 0, 0
			}
			from += n + 1
		}
		from = skipBlank(row, from)
		to, _ = cellEnd(row, from)
		return from, to
	}
	if tabs := strings.Count(t.s[t.head:t.from], "\t"); tabs > 0 {
		for range tabs {
			n := strings.IndexByte(row[from:], '\t')
			if n < 0 {
				return 0, 0
			}
			from += n + 1
		}
	} else if from = t.from - t.head; from >= len(row) || from > 0 && row[from-1] != ' ' {
		return 0, 0
	}
	return from, span(row, from, func(c byte) bool { return !isSpace(c) })
}

// secret judges a cell.
func (t *table) secret(cell string) bool {
	if len(cell) < 4 || isPlain(cell) || cell[0] == '<' || strings.ContainsAny(cell, " \t") || isRule(cell) {
		return false
	}
	return !t.key.weak || looksRandom(cell) && !hasShape(cell) && !isDate(cell)
}
