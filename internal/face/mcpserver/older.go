package mcpserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// olderTool is a tool as the dialect of an older platform describes it.
type olderTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Schema      any    `json:"input_schema"`
}

// olderAnswer is what a tool says in that dialect.
type olderAnswer struct {
	Content string `json:"content"`
	Failed  bool   `json:"is_error"`
}

// addOlder serves the dialect of an older platform: GET /health, GET /tools and POST /tools/call.
// Behind it is the server without sessions, as any client of MCP has it.
func (e *endpoint) addOlder(mux *http.ServeMux) {
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	mux.HandleFunc("GET /tools", e.withOlder(func(w http.ResponseWriter, r *http.Request, c *sdk.ClientSession, tools []olderTool) {
		writeJSON(w, http.StatusOK, tools)
	}))
	mux.HandleFunc("POST /tools/call", e.withOlder(callOlder))
}

// withOlder admits a request, and gives it a client of its own with the tools that there are.
func (e *endpoint) withOlder(serve func(http.ResponseWriter, *http.Request, *sdk.ClientSession, []olderTool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !e.admit(w, r) {
			return
		}
		if e.s.cfg.Token == "" && !isLoopback(r.Host) {
			http.Error(w, "requests to another host are refused", http.StatusForbidden)
			return
		}
		p := &patient{ResponseWriter: w, rc: http.NewResponseController(w), limit: e.s.cfg.Limits.Write}
		r.Body = p.withReadDeadline(http.MaxBytesReader(w, r.Body, maxMessage))
		ours, theirs := sdk.NewInMemoryTransports()
		server, err := e.stateless.Connect(r.Context(), ours, nil)
		if err != nil {
			detail(p, http.StatusInternalServerError, err)
			return
		}
		defer server.Close()
		c, err := sdk.NewClient(&sdk.Implementation{Name: "older", Version: "1"}, nil).Connect(r.Context(), theirs, nil)
		if err != nil {
			detail(p, http.StatusInternalServerError, err)
			return
		}
		defer c.Close()
		tools := []olderTool{}
		for t, err := range c.Tools(r.Context(), nil) {
			if err != nil {
				detail(p, http.StatusInternalServerError, err)
				return
			}
			tools = append(tools, olderTool{t.Name, t.Description, t.InputSchema})
		}
		serve(p, r, c, tools)
	}
}

// callOlder calls a tool. What it says of its failure is an answer, as in MCP.
func callOlder(w http.ResponseWriter, r *http.Request, c *sdk.ClientSession, tools []olderTool) {
	var call struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		detail(w, http.StatusUnprocessableEntity, err)
		return
	}
	if !slices.ContainsFunc(tools, func(t olderTool) bool { return t.Name == call.Name }) {
		writeJSON(w, http.StatusOK, olderAnswer{"Unknown tool: " + call.Name, true})
		return
	}
	res, err := c.CallTool(r.Context(), &sdk.CallToolParams{Name: call.Name, Arguments: call.Arguments})
	if err != nil {
		writeJSON(w, http.StatusOK, olderAnswer{err.Error(), true})
		return
	}
	var said []string
	for _, part := range res.Content {
		if t, ok := part.(*sdk.TextContent); ok {
			said = append(said, t.Text)
		}
	}
	writeJSON(w, http.StatusOK, olderAnswer{strings.Join(said, "\n"), res.IsError})
}

// detail answers what went wrong in that dialect.
func detail(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"detail": err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // to whom, if nobody reads?
}
