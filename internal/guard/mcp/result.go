package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/text"
)

// maxParts bounds the parts of a result.
const maxParts = 1000

// renderResult renders a result as text. What is no text is named and not passed on.
func renderResult(res *sdk.CallToolResult) string {
	if res.NeedsInput() {
		return "(the server asks for input in place of an answer, which is refused)"
	}
	var said strings.Builder
	for i, part := range res.Content {
		if i == maxParts {
			fmt.Fprintf(&said, "(%d more parts are not passed on)\n", len(res.Content)-maxParts)
			break
		}
		said.WriteString(strings.TrimSuffix(renderPart(part), "\n") + "\n")
	}
	if !hasText(res) && res.StructuredContent != nil {
		if b, err := json.MarshalIndent(res.StructuredContent, "", "  "); err == nil {
			said.Write(append(b, '\n'))
		}
	}
	if said.Len() == 0 {
		return "(the answer is empty)"
	}
	return text.MarkHidden(said.String())
}

func hasText(res *sdk.CallToolResult) bool {
	for _, part := range res.Content {
		if t, ok := part.(*sdk.TextContent); ok && strings.TrimSpace(t.Text) != "" {
			return true
		}
	}
	return false
}

func renderPart(part sdk.Content) string {
	switch p := part.(type) {
	case *sdk.TextContent:
		return p.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("(an image of %d bytes is not passed on)", len(p.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("(a sound of %d bytes is not passed on)", len(p.Data))
	case *sdk.ResourceLink:
		return fmt.Sprintf("(a link to the resource %.200q is not passed on)", p.URI)
	case *sdk.EmbeddedResource:
		uri := ""
		if p.Resource != nil {
			uri = p.Resource.URI
		}
		return fmt.Sprintf("(the resource %.200q is not passed on)", uri)
	}
	return "(a part of another kind is not passed on)"
}
