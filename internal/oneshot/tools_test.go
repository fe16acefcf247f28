package oneshot

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/config"
)

// A server that cannot be asked has a list of tools like any other, and it is empty.
func TestAServerThatIsNotReachedHasAnEmptyList(t *testing.T) {
	cfg := &config.Config{ToolServers: []config.ToolServer{{Name: "wiki", URL: "http://127.0.0.1:1/mcp", Tools: []string{"*"}, Timeout: time.Second}}}
	text, err := json.Marshal(ListTools(t.Context(), cfg))
	if err != nil || !strings.Contains(string(text), `"tools":[]`) || !strings.Contains(string(text), `"error":"`) {
		t.Errorf("%s, %v", text, err)
	}
}
