package worker

import (
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// With a record there is no way to anybody: a worker that could reach a server is refused.
func TestARecordReachesNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		record string
		server toolserver.Server
		ok     bool
	}{
		"recorded":   {"/ws", toolserver.Server{Name: "far", URL: "http://x", TokenEnv: "T", Command: []string{"/bin/sh"}}.Recorded(), true},
		"an address": {"/ws", toolserver.Server{Name: "far", URL: "http://x"}, false}, "a command": {"/ws", toolserver.Server{Name: "far", Command: []string{"/bin/sh"}}, false},
		"a path of somewhere": {"ws", toolserver.Server{Name: "far"}, false}, "no record": {"", toolserver.Server{Name: "far", URL: "http://x"}, true},
	} {
		s := &backend.Spec{Version: backend.SpecVersion, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Workspace: "/ws", Record: tt.record,
			Spec: agent.Spec{Require: agent.RequireStrict, Timeout: time.Second, ToolServers: []toolserver.Server{tt.server}}}
		if err := s.CheckSpec(); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "record") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
