package mcp_test

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

func TestDelivers(t *testing.T) {
	inBubble(t, func(h *harness) {
		s := h.start(h.config("alpha"))
		st := h.await(s, nightcrier.SourceSubscribed)
		if st.Mode != "faults" || st.Cluster != "alpha" || st.Source != "mcp" || st.Reconnects != 0 {
			t.Errorf("status %+v", st)
		}
		d := h.push("alpha")
		want := `{"data":` + crash + `,"level":"warning","logger":"kubernetes/faults"}`
		if string(d.Raw) != want || d.Cluster != "alpha" || d.Source != "mcp" || d.ReceivedAt.IsZero() {
			t.Errorf("delivered %s\nas %+v", d.Raw, d)
		}
		synctest.Wait()
		if st := s.Status(); st.Events != 1 || st.LastEventAt.IsZero() {
			t.Errorf("status after an event: %+v", st)
		}
		if got := h.peer.Stats("alpha"); got.Level != "warning" || len(got.Subscribes) != 1 || got.Subscribes[0]["mode"] != "faults" {
			t.Errorf("the peer saw %+v", got)
		}
	})
}

// legacyModes are the subscription modes of older servers, which send resource faults.
var legacyModes = []string{"events", "faults", "resource-faults"}

func TestModes(t *testing.T) {
	tests := []struct {
		name      string
		mode      string
		behaviour fakemcp.Behaviour
		want      string
		level     string
	}{
		{"auto, current", "auto", fakemcp.Behaviour{}, "faults", "warning"},
		{"auto, legacy", "", fakemcp.Behaviour{Modes: legacyModes}, "resource-faults", "warning"},
		{"auto, events only", "auto", fakemcp.Behaviour{Modes: []string{"events"}}, "events", "info"},
		{"the renamed mode", "resource-faults", fakemcp.Behaviour{}, "faults", "warning"},
		{"events asked for", "events", fakemcp.Behaviour{}, "events", "info"},
		{"faults of a legacy server", "faults", fakemcp.Behaviour{Modes: legacyModes}, "faults", "warning"},
		{"two pages of tools", "auto", fakemcp.Behaviour{LongToolList: true}, "faults", "warning"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.peer.Behave("c", tt.behaviour)
				cfg := h.config("c")
				cfg.Mode = tt.mode
				st := h.await(h.start(cfg), nightcrier.SourceSubscribed)
				got := h.peer.Stats("c")
				if st.Mode != tt.want || got.Level != tt.level || got.Subscribes[0]["mode"] != tt.want {
					t.Errorf("mode %q, the peer saw %+v", st.Mode, got)
				}
			})
		})
	}
}

// A server's frames as they were captured.
func TestCapturedStream(t *testing.T) {
	raw, err := os.ReadFile("testdata/mcp-current-raw.sse")
	if err != nil {
		t.Fatal(err)
	}
	_, frames, ok := bytes.Cut(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	if !ok {
		t.Fatal("the capture has no body")
	}
	inBubble(t, func(h *harness) {
		h.await(h.start(h.config("c")), nightcrier.SourceSubscribed)
		if _, err := h.peer.PushFrame("c", frames); err != nil {
			t.Fatal(err)
		}
		ev, err := dialect.Parse(h.next().Raw)
		if err != nil || ev.FaultType != "CrashLoop" || ev.Resource.String() != "nsb/Pod/synth2" || ev.FaultID != "a8f91ac2e50f09c2" {
			t.Errorf("read as %+v, %v", ev, err)
		}
	})
}
