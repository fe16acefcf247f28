package markdown

import (
	"strings"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// newline stands for a line break inside one line of Markdown.
const newline = " ⏎ "

// EscapeLine makes text fit one line of Markdown, wherever it came from: it opens no
// HTML, no link and no heading.
func EscapeLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(Printable(s)), "\n", newline)
	s = strings.ReplaceAll(s, "<", "&lt;")
	return strings.ReplaceAll(s, "](", `]\(`)
}

// UnescapeLine undoes EscapeLine.
func UnescapeLine(s string) string {
	s = strings.ReplaceAll(s, `]\(`, "](")
	s = strings.ReplaceAll(s, "&lt;", "<")
	return strings.TrimSpace(strings.ReplaceAll(s, newline, "\n"))
}

// QuoteCode puts text between backticks. Inside them Markdown knows no escapes, so a
// backtick becomes an apostrophe.
func QuoteCode(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(Printable(s)), "\n", newline)
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// EscapeCell is EscapeLine for a cell of a table.
func EscapeCell(s string) string { return strings.ReplaceAll(EscapeLine(s), "|", `\|`) }

// Printable drops what is hidden; line breaks stay, and tabs are spaces: at the
// beginning of a line they would mean code.
func Printable(s string) string { return strings.ReplaceAll(texts.DropHidden(s), "\t", " ") }

// FenceText puts text into a code block that nothing inside can close.
func FenceText(s string) string {
	run, longest := 0, 2
	for _, c := range s {
		if c == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + strings.Trim(Printable(s), "\n") + "\n" + fence + "\n"
}
