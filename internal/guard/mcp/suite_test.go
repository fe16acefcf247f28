package mcp

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/test/mcpsuite"
)

// Our client of third-party servers does what the protocol wants of a client.
func TestConformanceSuite(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mcpsuite.Client(t, self+" conform", []string{"initialize", "tools_call", "sse-retry"}, mcpsuite.Absent{
		"elicitation-sep1034-client-defaults": "no server is granted questions to people",
		"auth/":                               "servers are shown a token of the operator's; there is no OAuth",
	})
}

// conform is what the suite runs: it uses the tools of a server as a run does, and
// returns an exit code.
func conform(url string) int {
	arguments := map[string]string{"add_numbers": `{"a":2,"b":3}`, "test_reconnection": `{}`}
	server := toolserver.Server{Name: "suite", URL: url, Timeout: 20 * time.Second}
	for name := range arguments {
		server.Tools = append(server.Tools, name)
	}
	r := newRecord()
	s := Open(context.Background(), []toolserver.Server{server}, r.options())
	defer s.Close()
	for _, tool := range s.Tools() {
		for name, args := range arguments {
			if tool.Name != server.Name+"_"+name {
				continue
			}
			if text, err := tool.Call(context.Background(), []byte(args)); err != nil {
				fmt.Println(name, text, err)
				return 1
			}
		}
	}
	if len(s.Absent()) > 0 {
		fmt.Println(r.told())
		return 1
	}
	return 0
}
