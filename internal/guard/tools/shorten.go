package tools

import (
	"fmt"

	"nightcrier.dev/nightcrier/internal/text"
)

// Shorten bounds what a model is shown of a text: its beginning and its end, with a
// marker between them that says what is left out and, where the whole is kept as
// evidence, under which id and how to read on.
func Shorten(whole, evidence string) string {
	if len(whole) <= maxText+maxMarker {
		return whole
	}
	head, tail := text.KeepLines(whole, maxText*3/4), text.KeepLastLines(whole, maxText/4)
	marker := fmt.Sprintf("\n[%d of %d bytes are left out here", len(whole)-len(head)-len(tail), len(whole))
	if evidence != "" {
		marker += fmt.Sprintf("; the whole is evidence %s: read_result with evidence %s and offset %d goes on", evidence, evidence, len(head))
	}
	return head + marker + "]\n" + tail
}

// maxMarker is room for a marker: a text that was shortened stays as it is.
const maxMarker = 256
