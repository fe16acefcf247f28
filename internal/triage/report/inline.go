package report

import (
	"strings"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// newline stands for a line break inside one line of Markdown.
const newline = " ⏎ "

// escapeLine makes text fit one line of Markdown, wherever it came from: it opens no
// HTML, no link and no heading.
func escapeLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(printable(s)), "\n", newline)
	s = strings.ReplaceAll(s, "<", "&lt;")
	return strings.ReplaceAll(s, "](", `]\(`)
}

// unescapeLine undoes escapeLine.
func unescapeLine(s string) string {
	s = strings.ReplaceAll(s, `]\(`, "](")
	s = strings.ReplaceAll(s, "&lt;", "<")
	return strings.TrimSpace(strings.ReplaceAll(s, newline, "\n"))
}

// quoteCode puts text between backticks. Inside them Markdown knows no escapes, so a
// backtick becomes an apostrophe.
func quoteCode(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(printable(s)), "\n", newline)
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// escapeCell is escapeLine for a cell of a table.
func escapeCell(s string) string { return strings.ReplaceAll(escapeLine(s), "|", `\|`) }

// printable drops what is hidden; line breaks stay, and tabs are spaces: at the
// beginning of a line they would mean code.
func printable(s string) string { return strings.ReplaceAll(texts.DropHidden(s), "\t", " ") }

// fenceText puts text into a code block that nothing inside can close.
func fenceText(s string) string {
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
	return fence + "\n" + strings.Trim(printable(s), "\n") + "\n" + fence + "\n"
}
