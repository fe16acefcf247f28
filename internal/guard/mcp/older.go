package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// older is the way to a server of an older platform, which has GET /health, GET /tools and POST
// /tools/call in place of MCP. It answers a session as a server of MCP would, so that whatever is
// decided of those is decided of these: it is a transport, and nothing above it knows of it.
type older struct {
	base string
	web  *http.Client
}

// Connect implements sdk.Transport.
func (o older) Connect(ctx context.Context) (sdk.Connection, error) {
	if _, err := o.ask(ctx, http.MethodGet, "health", nil); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &olderSession{o, make(chan jsonrpc.Message), life, end}, nil
}

// ask makes one request, and returns what comes back.
func (o older) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	to, err := url.JoinPath(o.base, path)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := o.web.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = nightcrier.Errorf(nightcrier.Unreachable, "%s %s is answered with %d: %s", method, path, resp.StatusCode, text.CutLine(text.MarkHidden(string(said)), 300))
	}
	return said, err
}

// olderTool is a tool as such a server describes it. What it might say beside that is not believed.
type olderTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	SchemaToo   json.RawMessage `json:"inputSchema"`
}

// listTools returns what the server has, as MCP says it.
func (o older) listTools(ctx context.Context) (any, error) {
	raw, err := o.ask(ctx, http.MethodGet, "tools", nil)
	if err != nil {
		return nil, err
	}
	var list []olderTool
	if json.Unmarshal(raw, &list) != nil {
		var in struct {
			Tools *[]olderTool `json:"tools"`
		}
		if err := json.Unmarshal(raw, &in); err != nil || in.Tools == nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "its /tools are no list of tools")
		}
		list = *in.Tools
	}
	tools := make([]map[string]any, len(list))
	for i, t := range list {
		schema := t.Schema
		if schema == nil {
			schema = t.SchemaToo
		}
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tools[i] = map[string]any{"name": t.Name, "description": t.Description, "inputSchema": schema}
	}
	return map[string]any{"tools": tools}, nil
}

// callTool returns what a tool says, as MCP says it.
func (o older) callTool(ctx context.Context, params json.RawMessage) (any, error) {
	var call struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	if err := json.Unmarshal(params, &call); err != nil {
		return nil, err
	}
	if call.Arguments == nil {
		call.Arguments = map[string]any{}
	}
	body, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	raw, err := o.ask(ctx, http.MethodPost, "tools/call", body)
	if err != nil {
		return nil, err
	}
	var said struct {
		Content json.RawMessage `json:"content"`
		Failed  bool            `json:"is_error"`
	}
	if err := json.Unmarshal(raw, &said); err != nil || said.Content == nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "its answer has no content")
	}
	content := string(said.Content)
	var plain string
	if json.Unmarshal(said.Content, &plain) == nil {
		content = plain
	}
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": content}}, "isError": said.Failed}, nil
}

// olderSession plays a server of MCP that has tools.
type olderSession struct {
	older
	answers chan jsonrpc.Message
	life    context.Context
	end     context.CancelFunc
}

// Read implements sdk.Connection.
func (s *olderSession) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.answers:
		return m, nil
	case <-s.life.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements sdk.Connection. A request is answered in its own time, and no longer than whoever
// asks waits for it.
func (s *olderSession) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return nil // there is nobody to tell
	}
	go func() {
		result, err := s.answer(ctx, r)
		a := &jsonrpc.Response{ID: r.ID}
		if err == nil {
			a.Result, err = json.Marshal(result)
		}
		if err != nil {
			a.Error = err
		}
		select {
		case s.answers <- a:
		case <-s.life.Done():
		}
	}()
	return nil
}

// answer answers what a client asks a server for that has tools and nothing else.
func (s *olderSession) answer(ctx context.Context, r *jsonrpc.Request) (any, error) {
	switch r.Method {
	case "initialize":
		return map[string]any{"protocolVersion": "2024-11-05", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "older", "version": "0"}}, nil
	case "ping":
		return map[string]any{}, nil
	case "tools/list":
		return s.listTools(ctx)
	case "tools/call":
		return s.callTool(ctx, r.Params)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("no %s", r.Method)}
}

// Close implements sdk.Connection.
func (s *olderSession) Close() error { s.end(); return nil }

// SessionID implements sdk.Connection.
func (s *olderSession) SessionID() string { return "" }
