package report

import (
	"bytes"
	"strings"

	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

// Bounds of what is read from an agent's Markdown. What is beyond them is not
// looked at, and the report says so.
const (
	maxMarkdown = 4 << 20
	maxLines    = 50_000
	maxText     = 4 << 10
	maxItems    = 500
)

// line is one line of Markdown.
type line struct {
	// text is the line without the marks of a heading.
	text string
	// level is 1 to 6 for a heading, 0 for any other line.
	level int
	// fenced is set inside a code block and on its fences.
	fenced bool
}

// isBlank reports whether nothing stands on the line.
func (l line) isBlank() bool { return strings.TrimSpace(l.text) == "" }

// scanLines splits Markdown into lines and finds headings, which a code block cannot
// contain.
func scanLines(md []byte) []line {
	text := unwrapFence(string(bytes.ToValidUTF8(md[:min(len(md), maxMarkdown)], []byte("�"))))
	var out []line
	fence := ""
	for raw := range strings.SplitSeq(text, "\n") {
		if len(out) == maxLines {
			break
		}
		raw = strings.TrimRight(texts.CutBytes(raw, markdown.MaxLine), " \t\r")
		mark := fenceMark(raw)
		switch {
		case fence == "" && mark != "":
			fence = mark
			out = append(out, line{text: raw, fenced: true})
		case fence != "":
			out = append(out, line{text: raw, fenced: true})
			if closesFence(raw, mark, fence) {
				fence = ""
			}
		default:
			out = append(out, parseHeading(raw))
		}
	}
	return out
}

// unwrapFence removes a code fence around the whole report, and anything said before
// it: models like to answer that way.
func unwrapFence(text string) string {
	at := strings.Index(text, Title)
	if at < 0 {
		return text
	}
	before := strings.TrimRight(text[:at], " \t\r\n")
	opening := before[strings.LastIndexByte(before, '\n')+1:]
	fence := fenceMark(opening)
	if fence == "" || !strings.Contains("markdown md", strings.ToLower(strings.TrimLeft(opening, "`~"))) {
		return text
	}
	body := text[at:]
	if end := strings.LastIndex(body, "\n"+fence); end >= 0 {
		body = body[:end]
	}
	return body
}

// fenceMark returns the run of backticks or tildes that opens or closes a code
// block, "" for any other line.
func fenceMark(s string) string {
	s = strings.TrimLeft(s, " ")
	for _, c := range []string{"`", "~"} {
		n := len(s) - len(strings.TrimLeft(s, c))
		if n >= 3 && !strings.Contains(s[n:], c) {
			return s[:n]
		}
	}
	return ""
}

func closesFence(raw, mark, fence string) bool {
	return mark != "" && mark[0] == fence[0] && len(mark) >= len(fence) && strings.TrimSpace(raw) == mark
}

func parseHeading(raw string) line {
	level := 0
	for level < len(raw) && raw[level] == '#' {
		level++
	}
	if level == 0 || level > 6 || level == len(raw) || raw[level] != ' ' {
		return line{text: raw}
	}
	return line{text: strings.TrimSpace(raw[level:]), level: level}
}

// block is a heading with the lines below it, up to the next heading of any
// level.
type block struct {
	title string
	lines []line
}

// outlineSections divides a report into its seven sections, each a list of blocks of
// which the first has no title.
func outlineSections(lines []line) [7][]block {
	var sections [7][]block
	current := -1
	for _, l := range lines {
		if l.level == 1 || l.level == 2 {
			if current = sectionNumber(l); current >= 0 && sections[current] == nil {
				sections[current] = []block{{}}
			}
			continue
		}
		if current < 0 {
			continue
		}
		s := &sections[current]
		if l.level > 0 {
			*s = append(*s, block{title: l.text})
			continue
		}
		last := &(*s)[len(*s)-1]
		last.lines = append(last.lines, l)
	}
	return sections
}

// findBlock returns the lines below the first heading that contains any of the
// words.
func findBlock(blocks []block, words ...string) []line {
	for _, b := range blocks {
		for _, w := range words {
			if b.title != "" && strings.Contains(strings.ToLower(b.title), w) {
				return b.lines
			}
		}
	}
	return nil
}

// allLines returns the lines of a section, with those of its blocks.
func allLines(blocks []block) []line {
	var out []line
	for _, b := range blocks {
		out = append(out, b.lines...)
	}
	return out
}
