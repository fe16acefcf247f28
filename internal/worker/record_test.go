package worker

import (
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
)

// With a record there is no way to anybody: a worker that could reach a server is refused.
func TestARecordReachesNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		record string
		server mcp.Server
		ok     bool
	}{
		"recorded":   {"/ws", mcp.Server{Name: "far", URL: "http://x", TokenEnv: "T", Command: []string{"/bin/sh"}}.Recorded(), true},
		"an address": {"/ws", mcp.Server{Name: "far", URL: "http://x"}, false}, "a command": {"/ws", mcp.Server{Name: "far", Command: []string{"/bin/sh"}}, false},
		"a path of somewhere": {"ws", mcp.Server{Name: "far"}, false}, "no record": {"", mcp.Server{Name: "far", URL: "http://x"}, true},
	} {
		s := &Spec{Version: SpecVersion, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Workspace: "/ws", Require: RequireStrict, Timeout: time.Second,
			Record: tt.record, ToolServers: []mcp.Server{tt.server}}
		if err := s.check(); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "record") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
