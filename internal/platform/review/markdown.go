package review

import (
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// What GitHub makes something of in plain words: mentions and addresses, numbers of issues, links. In code it
// makes nothing of them.
var (
	live    = regexp.MustCompile(`@|#\d|(?i:GH-)\d|://|(?i:www\.)|!\d`)
	special = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "~", `\~`, "|", `\|`, "#", `\#`, "$", `\$`)
)

// inert is what an agent says as Markdown in which nothing is but code: no mention, link, picture, HTML,
// reference or heading.
func inert(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(text.DropHidden(s), "`") {
		if i%2 == 0 {
			b.WriteString(inertWords(part))
		} else if code := strings.TrimSpace(strings.ReplaceAll(part, "\n", " ")); code != "" {
			b.WriteString("`" + code + "`")
		}
	}
	return strings.TrimSpace(b.String())
}

func inertWords(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		at := 0
		for _, m := range live.FindAllStringIndex(line, -1) {
			b.WriteString(special.Replace(line[at:m[0]]))
			b.WriteString("`" + line[m[0]:m[1]] + "`")
			at = m[1]
		}
		b.WriteString(special.Replace(line[at:]))
	}
	return b.String()
}

// inertLine is inert on one line.
func inertLine(s string) string { return inert(text.FoldLine(s)) }

// code puts a name into code, whatever is in it.
func code(s string) string {
	return "`" + strings.ReplaceAll(text.CutLine(s, 300), "`", "'") + "`"
}

// fence puts text into a block of code that nothing in it closes.
func fence(kind, s string) string {
	bars := "```"
	for strings.Contains(s, bars) {
		bars += "`"
	}
	return bars + kind + "\n" + strings.TrimRight(s, "\r\n") + "\n" + bars
}
