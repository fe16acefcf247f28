package skilltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// mocks are the tool servers that a skill wants, with tools that say what they are told to.
type mocks struct {
	servers []config.ToolServer
	stop    func()

	mu    sync.Mutex
	names []string
}

// startMocks serves each server that a skill names on an address of this machine. A mock belongs
// to the server whose tools name it, or else to the first that wants all.
func startMocks(wanted []skill.Binding, answers map[string]skill.Mock) (m *mocks, err error) {
	var closers []func() error
	m = &mocks{stop: func() {
		for _, c := range closers {
			_ = c() // a listener of our own that nobody asks any more
		}
	}}
	left := maps.Clone(answers)
	for _, b := range wanted {
		if err := toolserver.CheckName(b.Server); err != nil { // a file is called so, as no configuration has looked at it
			m.stop()
			return nil, nightcrier.Errorf(nightcrier.Invalid, "mcp_tools: %w", err)
		}
		offered := map[string]skill.Mock{}
		for name, answer := range left {
			if slices.Contains(b.Tools, name) || len(b.Tools) == 0 || slices.Contains(b.Tools, "*") {
				offered[name] = answer
				delete(left, name)
			}
		}
		for _, name := range b.Tools { // what is not mocked says so
			if _, ok := offered[name]; !ok && name != "*" {
				offered[name] = skill.Mock{Response: "this tool has no answer in this evaluation", Error: true}
			}
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			m.stop()
			return nil, nightcrier.Errorf(nightcrier.Internal, "serve the tools of %s: %w", b.Server, err)
		}
		server := sdk.NewServer(&sdk.Implementation{Name: b.Server, Version: "evaluation"}, &sdk.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
		for _, name := range slices.Sorted(maps.Keys(offered)) {
			m.addTool(server, name, offered[name])
		}
		h := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil), ReadHeaderTimeout: time.Minute}
		go func() { _ = h.Serve(l) }() // it ends when it is closed
		closers = append(closers, h.Close)
		m.servers = append(m.servers, config.ToolServer{Name: b.Server, URL: "http://" + l.Addr().String(), Tools: slices.Sorted(maps.Keys(offered)), Timeout: 30 * time.Second})
	}
	if len(left) > 0 {
		m.stop()
		return nil, nightcrier.Errorf(nightcrier.Invalid, "mock_tools has %s, which no server of the skill's mcp_tools names", strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
	return m, nil
}

func (m *mocks) addTool(server *sdk.Server, name string, answer skill.Mock) {
	said, ok := answer.Response.(string)
	if !ok {
		raw, err := json.Marshal(answer.Response)
		said = string(raw)
		if err != nil {
			said, answer.Error = fmt.Sprint(errors.Join(errors.New("the response of the evaluation is no JSON"), err)), true
		}
	}
	server.AddTool(&sdk.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type": "object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			m.mu.Lock()
			m.names = append(m.names, name)
			m.mu.Unlock()
			return &sdk.CallToolResult{IsError: answer.Error, Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil
		})
}

// called are the tools that were called since forget.
func (m *mocks) called() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.names)
}

func (m *mocks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = nil
}
