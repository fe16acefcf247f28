package mcpserver

import (
	"context"
	"encoding/json"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
)

// Tool is a tool that is served as it is, with what it says to models and to programs.
type Tool struct {
	Name, Title, About string
	Params             kubetool.Params
	Output             map[string]any
	// Writes changes something, Destructive takes something away.
	Writes, Destructive bool
	Do                  func(context.Context, kubetool.Args) (said string, data any, err error)
}

func (t Tool) offered() tool {
	return tool{name: t.Name, title: t.Title, about: t.About, params: t.Params, idempotent: true, openWorld: true, output: t.Output, writes: t.Writes, destructive: t.Destructive,
		run: func(ctx context.Context, _ *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
			said, data, err := t.Do(ctx, a)
			return answer{said, data}, err
		}}
}

// tool is one of our tools as the SDK wants it.
type tool struct {
	name, title, about string
	params             kubetool.Params
	// reads only: nearly all do. A subscription changes nothing in a cluster either.
	idempotent bool
	openWorld  bool
	// writes and destructive are what a Tool says of itself.
	writes, destructive bool
	// output is the JSON Schema of an answer's data, nil where it has none.
	output map[string]any
	run    func(ctx context.Context, req *sdk.CallToolRequest, a kubetool.Args) (answer, error)
}

// answer is what a tool says: text for a model to read, and data for programs.
type answer struct {
	text string
	data any
}

// addTool offers a tool. Its errors are results that say so, for the model to read;
// that is what the protocol wants of a tool's own failures.
func (s *Server) addTool(p *sdk.Server, t tool) {
	offered := &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.about, InputSchema: t.params.Schema(),
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: !t.writes, DestructiveHint: &t.destructive, IdempotentHint: t.idempotent, OpenWorldHint: &t.openWorld},
	}
	if t.output != nil {
		offered.OutputSchema = t.output
	}
	p.AddTool(offered, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		a, err := t.params.Read(req.Params.Arguments)
		var said answer
		if err == nil {
			said, err = t.run(ctx, req, a)
		}
		if err == nil && t.output != nil {
			said.data, err = kubetool.Plain(said.data)
		}
		if err != nil {
			s.log.Debug("a tool failed", "event", "mcp_tool_failed", "tool", t.name, "error", err)
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}, nil
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said.text}}, StructuredContent: said.data}, nil
	})
}

// withContextParam adds the argument that picks a cluster, where there are several.
func (s *Server) withContextParam(ps kubetool.Params) kubetool.Params {
	if len(s.cfg.Clusters) == 1 {
		return ps
	}
	var names []string
	for _, c := range s.cfg.Clusters {
		names = append(names, c.Name)
	}
	return append(slices.Clone(ps), kubetool.Param{
		Name: "context", Type: kubetool.String, Enum: names, Default: names[0],
		About: "Which cluster: a context of the kubeconfig",
	})
}

// clusterOf is the one that the arguments pick.
func (s *Server) clusterOf(a kubetool.Args) Cluster {
	name := a.String("context")
	for _, c := range s.cfg.Clusters {
		if c.Name == name {
			return c
		}
	}
	return s.cfg.Clusters[0]
}

// addKubernetes offers the read-only tool set.
func (s *Server) addKubernetes(p *sdk.Server) {
	for _, t := range s.cfg.Clusters[0].Tools.Tools() {
		s.addTool(p, tool{
			name: t.Name, title: t.Title, about: t.About, params: s.withContextParam(t.Params), idempotent: true, openWorld: true, output: t.Output,
			run: func(ctx context.Context, _ *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
				own, ok := s.clusterOf(a).Tools.Tool(t.Name)
				if !ok {
					return answer{}, nightcrier.Errorf(nightcrier.Internal, "no tool %s", t.Name)
				}
				res, err := own.Do(ctx, a)
				return answer{res.Text, res.Structured}, err
			},
		})
	}
}

// indentJSON is v as JSON, for people.
func indentJSON(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "write the answer: %w", err)
	}
	return string(b), nil
}
