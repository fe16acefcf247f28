package tools_test

import (
	"net"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/tools"
)

// What was shortened is read on page by page, and only what was kept for this run.
func TestReadResult(t *testing.T) {
	whole := strings.Repeat("é line of the result\n", 5000)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{ws: t.TempDir()}
	result := func(id string) ([]byte, error) {
		if id != "E7" {
			return nil, nightcrier.Errorf(nightcrier.NotFound, "no result of this run is kept as %.20q", id)
		}
		return []byte(whole), nil
	}
	if r.Server, err = tools.Start(l, tools.Config{Workspace: r.ws, Result: result, Denied: r.denied, Logger: discard}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := r.client(t)
	first, failed := call(t, c, "read_result", map[string]any{"evidence": "E7"})
	if failed || len(first) > 34<<10 || !strings.Contains(first, "go on with offset: ") || !strings.HasSuffix(first, "[evidence E7]\n") {
		t.Errorf("%t %d bytes …%s", failed, len(first), first[max(0, len(first)-100):])
	}
	last, failed := call(t, c, "read_result", map[string]any{"evidence": "E7", "offset": len(whole) - 10})
	if failed || strings.Contains(last, "go on") || !strings.Contains(last, "result") {
		t.Errorf("the end: %s", last)
	}
	for _, args := range []map[string]any{{"evidence": "E8"}, {"evidence": "../E7"}, {"evidence": "E7", "offset": len(whole)}, {"evidence": "E7", "offset": -1}} {
		if text, failed := call(t, c, "read_result", args); !failed {
			t.Errorf("%v: %.100s", args, text)
		}
	}
	code, answer := post(t, r.URL(), r.Token(), message(t, "tools/call", map[string]any{"name": "far_restart", "arguments": map[string]any{"a": 1}}))
	if got := strings.Join(r.refusals(), ""); !strings.Contains(answer, "there is no tool") || !strings.HasPrefix(got, `far_restart {"a":1}: `) {
		t.Errorf("%d %s; on record %q", code, answer, got)
	}
}
