package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// EscapeJSON makes a JSON text harmless where a model reads it, and leaves it the same JSON: it can
// close no tag and no fence, name no file to a CLI that expands @path, and hide nothing.
func EscapeJSON(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if strings.ContainsRune("<>&@`", r) || r != '\n' && IsHidden(r) {
			writeEscaped(&b, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func writeEscaped(b *strings.Builder, r rune) {
	if hi, lo := utf16.EncodeRune(r); hi != unicode.ReplacementChar {
		fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
		return
	}
	fmt.Fprintf(b, `\u%04x`, r)
}
