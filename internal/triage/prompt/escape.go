package prompt

import (
	"bytes"
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// wrapInTag puts escaped content between tags.
func wrapInTag(tag, content string) string {
	return "<" + tag + ">\n" + strings.TrimRight(content, "\n") + "\n</" + tag + ">\n"
}

// escapeText makes text from outside harmless: it can close no tag, name no
// file to a CLI that expands @path, and move no cursor.
func escapeText(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range strings.ToValidUTF8(s, "�") {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '@':
			b.WriteString("&#64;")
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case text.IsHidden(r):
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapeCell is escapeText for one cell of a table.
func escapeCell(s string) string {
	s = escapeText(text.FoldLine(s))
	return strings.NewReplacer("|", "¦", "`", "'").Replace(s)
}

// escapeJSON encodes v so that the text is still JSON and as harmless as
// escapeText makes it.
func escapeJSON(v any, mask func(string) string) (string, error) {
	data, err := encodeJSON(v)
	if err != nil {
		return "", err
	}
	return text.EscapeJSON(mask(string(data))), nil
}

// encodeJSON writes indented JSON without HTML escapes, for files.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "encode the agent's context: %w", err)
	}
	return b.Bytes(), nil
}
