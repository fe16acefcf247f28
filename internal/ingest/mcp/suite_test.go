package mcp_test

import (
	"os"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/mcpsuite"
)

// conformCommand makes the test binary the client that the suite tests.
const conformCommand = "conform"

// A fault source does what the protocol wants of a client.
func TestConformanceSuite(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mcpsuite.Client(t, self+" "+conformCommand, []string{"initialize", "sse-retry"}, mcpsuite.Absent{
		"tools_call":                          "its server has no sessions, so that nothing could be pushed over it: a source refuses it",
		"elicitation-sep1034-client-defaults": "no server is granted questions to people",
		"auth/":                               "servers are shown a token of the operator's; there is no OAuth",
	})
}
