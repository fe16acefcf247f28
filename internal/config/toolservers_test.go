package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/agent/skill"
)

func TestToolServers(t *testing.T) {
	cfg, _, err := load(t, `
clusters: [{name: c1}]
tool_servers:
  - {name: grafana, url: 'https://mcp.example/mcp', token_env: TOKEN, tools: ['query_*', list]}
  - {name: own, command: [/bin/own, --x y], env: [TOKEN], read: [/opt/own], ports: [443, 8443], tools: ['*'], clusters: [c1], timeout: 5s}
`, []string{"TOKEN=the-token"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := cfg.ToolServers[0], cfg.ToolServers[1]
	if a.Name != "grafana" || a.Variables["TOKEN"].Reveal() != "the-token" || !slices.Equal(a.Tools, []string{"query_*", "list"}) || a.Timeout != 30*time.Second {
		t.Errorf("%+v", a)
	}
	if !slices.Equal(b.Command, []string{"/bin/own", "--x y"}) || b.Variables["TOKEN"].Reveal() != "the-token" || !slices.Equal(b.Ports, []int{443, 8443}) || b.Timeout != 5*time.Second {
		t.Errorf("%+v", b)
	}
}

func TestToolServersThatAreWrong(t *testing.T) {
	for entry, want := range map[string]string{
		"{url: 'http://x', tools: [a]}":                                                  "tool_servers[0].name: is missing",
		"{name: kubernetes, url: 'http://x', tools: [a]}":                                "own tools",
		"{name: A, url: 'http://x', tools: [a]}":                                         "is not a name for a tool server",
		"{name: a, url: 'http://x'}":                                                     "tool_servers[0].tools: is missing",
		"{name: a, url: 'http://x', tools: ['[']}":                                       "neither the name of a tool nor a pattern",
		"{name: a, tools: [a]}":                                                          "tool_servers[0].url: is missing",
		"{name: a, url: 'http://x', command: [x], tools: [a]}":                           "is given beside url",
		"{name: a, url: 'http://x', env: [X], tools: [a]}":                               "env and read are for a command",
		"{name: a, command: [x], token_env: X, tools: [a]}":                              "is for a url",
		"{name: a, url: 'http://u:p@x', tools: [a]}":                                     "contains a user name",
		"{name: a, url: 'ftp://x', tools: [a]}":                                          "has the scheme",
		"{name: a, command: [x], read: [/], tools: [a]}":                                 "is too much",
		"{name: a, command: [x], read: [etc], tools: [a]}":                               "no absolute path",
		"{name: a, command: '/no/inv --ro', tools: [a]}":                                 `"/no/inv --ro" is one word with spaces, and no file is called so: write [/no/inv, --ro]`,
		"{name: a, command: [x], ports: [0], tools: [a]}":                                "is no port",
		"{name: a, command: [x], env: ['A=b'], tools: [a]}":                              "not the name of an environment variable",
		"{name: a, url: 'http://x', clusters: [nope], tools: [a]}":                       "is the name of no cluster",
		"{name: a, url: 'http://x', timeout: 2m, tools: [a]}":                            "tool_servers[0].timeout",
		"{name: a, url: 'http://x', tools: [a]}, {name: a, url: 'http://y', tools: [a]}": "also the name of tool_servers[0]",
		"{name: a, url: 'http://x', tools: [a], allow_writes: true}":                     "is not a key",
	} {
		_, _, err := load(t, "tool_servers: ["+entry+"]", nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", entry, err)
		}
	}
	_, warnings := mustLoad(t, "tool_servers: [{name: a, url: 'http://far.example', token_env: NOT_SET, tools: [a]}]")
	for _, want := range []string{"would send the token unencrypted", "the variable NOT_SET is not set", "has no effect: the executor builtin"} {
		if !hasWarning(warnings, want) {
			t.Errorf("warnings %v lack %q", warnings, want)
		}
	}
}

// Variables of the older platform name a server for skills alone, or reach one that the file names.
func TestToolServersOfVariables(t *testing.T) {
	const entries = `
tool_servers:
  - {name: grafana, url: 'https://mcp.example/mcp', token_env: TOKEN, tools: [query]}
  - {name: own, command: [/bin/own], tools: [look]}
`
	cfg, warnings, err := load(t, entries, []string{"TOKEN=1", "MCP_MY_K8S_URL=http://127.0.0.1:8090", "MCP_MY_K8S_API_KEY=the-key", "MCP_GRAFANA_URL=http://127.0.0.1:9/mcp",
		"MCP_GRAFANA_API_KEY=another", "MCP_OWN_URL=http://127.0.0.1:9/", "MCP_OWN_API_KEY=x", "MCP_KUBERNETES_URL=http://127.0.0.1:9/", "MCP_NOBODY_API_KEY=x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, s := range cfg.ToolServers {
		got += fmt.Sprintln(s.Name, s.URL, s.Command, s.Tools, s.Writes, s.TokenEnv, s.Variables[s.TokenEnv].Reveal())
	}
	if want := "grafana http://127.0.0.1:9/mcp [] [query] false MCP_GRAFANA_API_KEY another\nown  [/bin/own] [look] false  \n" +
		"my-k8s http://127.0.0.1:8090 [] [*] true MCP_MY_K8S_API_KEY the-key\n"; got != want {
		t.Errorf("%s", got)
	}
	for _, want := range []string{"MCP_OWN_URL: has no effect: the entry own", "MCP_OWN_API_KEY: has no effect", "MCP_KUBERNETES_URL: has no effect", `no tool server "nobody"`} {
		if !hasWarning(warnings, want) {
			t.Errorf("warnings %v lack %q", warnings, want)
		}
	}
	if n := len(cfg.ToolServersOf("c1")); n != 2 {
		t.Errorf("an investigation is given %d servers", n)
	}
	if servers, err := cfg.serversFor([]skill.Binding{{Server: "MY_K8S", Tools: []string{"kubectl_apply"}}}); err != nil || servers[0].Name != "my-k8s" || fmt.Sprint(servers[0].Tools) != "[kubectl_apply]" {
		t.Errorf("%+v, %v", servers, err)
	}
	if _, _, err := load(t, "", []string{"MCP_K8S_URL=ftp://x"}, nil); err == nil || !strings.Contains(err.Error(), "MCP_K8S_URL") {
		t.Errorf("no address: %v", err)
	}
	if _, warnings := mustLoad(t, "", "MCP_K8S_URL=http://127.0.0.1:9/"); len(warnings) > 0 {
		t.Errorf("%v", warnings)
	}
}
