package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Shorten bounds what a model is shown of a text: its beginning and its end, with a
// marker between them that says what is left out and, where the whole is kept as
// evidence, under which id and how to read on.
func Shorten(text, evidence string) string {
	if len(text) <= maxText+maxMarker {
		return text
	}
	head, tail := cutHead(text, maxText*3/4), cutTail(text, maxText/4)
	marker := fmt.Sprintf("\n[%d of %d bytes are left out here", len(text)-len(head)-len(tail), len(text))
	if evidence != "" {
		marker += fmt.Sprintf("; the whole is evidence %s: read_result with evidence %s and offset %d goes on", evidence, evidence, len(head))
	}
	return head + marker + "]\n" + tail
}

// maxMarker is room for a marker: a text that was shortened stays as it is.
const maxMarker = 256

// cutHead and cutTail cut at the end of a line where one is near, else between two
// characters.
func cutHead(s string, n int) string {
	if at := strings.LastIndexByte(s[:n], '\n'); at > n/2 {
		return s[:at+1]
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func cutTail(s string, n int) string {
	from := len(s) - n
	if at := strings.IndexByte(s[from:], '\n'); at >= 0 && at < n/2 {
		return s[from+at+1:]
	}
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
