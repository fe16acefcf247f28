package report

import (
	"strings"
	"unicode"
)

// newline stands for a line break inside one line of Markdown.
const newline = " ⏎ "

// inline makes text fit one line of Markdown, wherever it came from: it opens no
// HTML, no link and no heading.
func inline(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(Printable(s)), "\n", newline)
	s = strings.ReplaceAll(s, "<", "&lt;")
	return strings.ReplaceAll(s, "](", `]\(`)
}

// plain undoes inline.
func plain(s string) string {
	s = strings.ReplaceAll(s, `]\(`, "](")
	s = strings.ReplaceAll(s, "&lt;", "<")
	return strings.TrimSpace(strings.ReplaceAll(s, newline, "\n"))
}

// code puts text between backticks. Inside them Markdown knows no escapes, so a
// backtick becomes an apostrophe.
func code(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(Printable(s)), "\n", newline)
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// cell is inline for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(inline(s), "|", `\|`) }

// Printable drops characters that a person would not see, or that turn text
// round; line breaks stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// fenced puts text into a code block that nothing inside can close.
func fenced(s string) string {
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
