package skilltest

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// Each server that a skill wants is there, with the tools that it names, and says what it is told to.
func TestMockedTools(t *testing.T) {
	m, err := startMocks([]skill.Binding{{Server: "k8s", Tools: []string{"apply", "get"}}, {Server: "all", Tools: []string{"*"}}}, map[string]skill.Mock{
		"apply": {Response: "created"}, "search": {Response: map[string]any{"hits": 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	got := ""
	for i, tools := range [][]string{{"apply", "get"}, {"search"}} {
		c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: m.servers[i].URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool})
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprintf("%s/%s %t %s\n", m.servers[i].Name, tool, r.IsError, r.Content[0].(*sdk.TextContent).Text)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if want := "k8s/apply false created\nk8s/get true this tool has no answer in this evaluation\nall/search false {\"hits\":2}\n"; got != want {
		t.Errorf("%s", got)
	}
	if all := strings.Join(m.called(), " "); all != "apply get search" {
		t.Errorf("called %s", all)
	}
	if m.forget(); len(m.called()) > 0 {
		t.Error("it remembers")
	}
	if _, err := startMocks([]skill.Binding{{Server: "k8s", Tools: []string{"apply"}}}, map[string]skill.Mock{"other": {}}); err == nil || !strings.Contains(err.Error(), "other, which no server") {
		t.Errorf("a tool of nobody: %v", err)
	}
}

// What a skill calls a server becomes the name of a file: nobody has looked at it before.
func TestServersHaveNames(t *testing.T) {
	for _, name := range []string{"../../elsewhere", "/etc/x", "a b"} {
		if m, err := startMocks([]skill.Binding{{Server: "k8s"}, {Server: name}}, nil); err == nil || !strings.Contains(err.Error(), "is not a name for a tool server") {
			t.Errorf("%q is served: %v, %v", name, m, err)
		}
	}
}
