package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
)

// WithFixtures is the HTTP face of a server that has the tools, by name, which the
// protocol's conformance suite calls. They are made of what our own are made of: an
// answer and a failure of a tool, the progress of an investigation, the notifications
// of a subscription. What the server sends beside its answers is told to sent, by method.
func (s *Server) WithFixtures(sent chan<- string, notified func()) http.Handler {
	e := s.newEndpoint()
	e.stateful.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			res, err := next(ctx, method, req)
			sent <- method
			return res, err
		}
	})
	fixture := func(name string, run func(context.Context, *sdk.CallToolRequest, kubetool.Args) (answer, error)) {
		s.addTool(e.stateful, tool{name: name, title: name, about: "A fixture of the conformance suite", run: run})
	}
	fixture("test_simple_text", func(context.Context, *sdk.CallToolRequest, kubetool.Args) (answer, error) {
		return answer{text: "text"}, nil
	})
	fixture("test_error_handling", func(context.Context, *sdk.CallToolRequest, kubetool.Args) (answer, error) {
		return answer{}, nightcrier.Errorf(nightcrier.Unreachable, "the cluster does not answer")
	})
	fixture("test_tool_with_progress", func(ctx context.Context, req *sdk.CallToolRequest, _ kubetool.Args) (answer, error) {
		return s.investigateObject(ctx, req, kubetool.Args{"kind": "Pod", "namespace": "shop", "name": "cart"})
	})
	fixture("test_tool_with_logging", func(ctx context.Context, req *sdk.CallToolRequest, _ kubetool.Args) (answer, error) {
		said, err := s.subscribeTool(ctx, req, kubetool.Args{"mode": modeFaults})
		notified()
		return said, err
	})
	e.stateful.AddTool(&sdk.Tool{Name: "json_schema_2020_12_tool", Description: "A fixture of the conformance suite", InputSchema: json.RawMessage(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
		"$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	return e.newHandler()
}
