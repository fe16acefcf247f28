package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/oneshot"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// toolEffects are what the keys of a tool server change: what a run is told to open.
func toolEffects() map[string]func(*house) {
	row := func(setting string, told func(toolserver.Server) bool) func(*house) {
		return func(h *house) {
			got := h.order(working, "clusters: [{name: c1}, {name: c2}]", "tool_servers:", "  - {name: other, url: 'http://127.0.0.1:9', tools: [t], clusters: [c2]}", "  - "+setting)
			h.want(len(got.ToolServers) == 1 && told(got.ToolServers[0]), "%+v", got.ToolServers)
		}
	}
	const url = "url: 'http://127.0.0.1:9/mcp', tools: [look]}"
	const command = "command: [/bin/true, -x], tools: [look]"
	return map[string]func(*house){
		"tool_servers[].name":      row("{name: one, "+url, func(s toolserver.Server) bool { return s.Name == "one" }),
		"tool_servers[].url":       row("{name: one, "+url, func(s toolserver.Server) bool { return s.URL == "http://127.0.0.1:9/mcp" }),
		"tool_servers[].command":   row("{name: one, "+command+"}", func(s toolserver.Server) bool { return slices.Equal(s.Command, []string{"/bin/true", "-x"}) }),
		"tool_servers[].token_env": row("{name: one, token_env: A_TOKEN, "+url, func(s toolserver.Server) bool { return s.TokenEnv == "A_TOKEN" }),
		"tool_servers[].env":       row("{name: one, env: [A], "+command+"}", func(s toolserver.Server) bool { return slices.Equal(s.Env, []string{"A"}) }),
		"tool_servers[].read":      row("{name: one, read: [/opt/x], "+command+"}", func(s toolserver.Server) bool { return slices.Equal(s.Read, []string{"/opt/x"}) }),
		"tool_servers[].ports":     row("{name: one, ports: [99], "+command+"}", func(s toolserver.Server) bool { return slices.Equal(s.Ports, []int{99}) }),
		"tool_servers[].tools":     row("{name: one, "+url, func(s toolserver.Server) bool { return slices.Equal(s.Tools, []string{"look"}) }),
		"tool_servers[].clusters":  row("{name: one, clusters: [c1], "+url, func(s toolserver.Server) bool { return s.Name == "one" }),
		"tool_servers[].writes": func(h *house) { // for skills alone
			got := h.order(working, "tool_servers:", "  - {name: one, writes: true, "+url)
			h.want(len(got.ToolServers) == 0, "%+v", got.ToolServers)
		},
		"tool_servers[].timeout": row("{name: one, timeout: 7s, "+url, func(s toolserver.Server) bool { return s.Timeout == 7*time.Second }),
	}
}

// doctor and `tools list` ask a server as an investigation would, with its token.
func TestWhatServersOffer(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "theirs"}, nil)
	for name, hints := range map[string]*sdk.ToolAnnotations{"look": {ReadOnlyHint: true}, "change": {ReadOnlyHint: false}} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: hints},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
	}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a-long-enough-token" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	h := newHouse(t)
	_, err := h.load([]string{"THE_TOKEN=a-long-enough-token"}, working, "tool_servers:", "  - {name: one, url: '"+web.URL+"', token_env: THE_TOKEN, tools: [look, change]}",
		"  - {name: two, url: '"+web.URL+"', tools: [look]}")
	h.must(err)
	all := oneshot.ListTools(t.Context(), h.cfg)
	if len(all) != 2 || len(all[0].Tools) != 2 || all[0].Tools[0].Offered || !all[0].Tools[1].Offered || all[0].Tools[1].ShownAs != "one_look" || all[1].Error == "" {
		t.Errorf("%+v", all)
	}
	var told []string
	for _, c := range doctor.Run(t.Context(), h.cfg, doctor.Options{ListTools: oneshot.ListTools, WorkerCommand: []string{os.Args[0]}}) {
		if c.Code == doctor.CheckTools {
			told = append(told, c.Name+" "+c.Status+" "+c.Detail)
		}
	}
	if len(told) != 2 || !strings.HasPrefix(told[0], "one ok agents get 1 of its 2 tools: one_look") || !strings.HasPrefix(told[1], "two warn") {
		t.Errorf("doctor says %q", told)
	}
}
