package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkCall is a call of another's tool as a model makes it, without the endpoint
// in front, and the same call by a client of the SDK alone; and what of it is ours, without the
// network and the disk.
func BenchmarkCall(b *testing.B) {
	p := newPeer(b)
	schema := map[string]any{"type": "object", "properties": map[string]any{"expr": map[string]any{"type": "string"}}}
	p.tool("query", readsOnly, schema, textPart("up{job=\"x\"} 1\n"))
	args := map[string]any{"expr": "up"}
	b.Run("direct", func(b *testing.B) {
		c := sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil)
		s, err := c.Connect(b.Context(), &sdk.StreamableClientTransport{Endpoint: p.url, DisableStandaloneSSE: true}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			if _, err := s.CallTool(b.Context(), &sdk.CallToolParams{Name: "query", Arguments: args}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("guarded", func(b *testing.B) {
		r := newRecord()
		s := open1(b, r, p.server("query"))
		for b.Loop() {
			if _, err := ask(b, s, "peer_query", args); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("own work", func(b *testing.B) {
		r := newRecord()
		s := open1(b, r, p.server("query")).all[0]
		raw, res := []byte(`{"expr":"up"}`), &sdk.CallToolResult{Content: []sdk.Content{textPart(strings.Repeat("up{job=\"x\"} 1\n", 300))}}
		for b.Loop() {
			c := Call{Tool: "peer_query", Command: s.commandLine(s.offers[0], raw)}
			if _, err := s.offers[0].schema.readArguments(s.o.Mask(raw)); err != nil {
				b.Fatal(err)
			}
			if _, err := s.recordAnswer(c, answer{Text: string(s.o.Mask([]byte(renderResult(res))))}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
