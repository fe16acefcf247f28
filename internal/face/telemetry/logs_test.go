package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

func TestJSONLine(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, LogOptions{Level: "info", Format: "json",
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "‹secret›") }})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not shown")
	log.With(ComponentKey, "agent-runtime").Error("agent failed with hunter2",
		EventKey, "agent_failed", IncidentKey, "i-1", ClusterKey, "prod", "workspace", "/w", PIDKey, 42, "waited", 1500*time.Millisecond, "command", "claude -p",
		"error", fmt.Errorf("login hunter2: %w", nightcrier.Errorf(nightcrier.Refused, "denied")))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON line: %v\n%s", err, out.String())
	}
	if _, err := time.Parse(time.RFC3339Nano, line["timestamp"].(string)); err != nil {
		t.Errorf("timestamp: %v", err)
	}
	delete(line, "timestamp")
	want := map[string]any{"level": "error", "msg": "agent failed with ‹secret›", "component": "agent-runtime", "event": "agent_failed",
		"incident_id": "i-1", "cluster": "prod", "workspace": "/w", "pid": 42.0, "waited": "1.5s", "command": "claude -p",
		"error": "login ‹secret›: denied", "error_type": "refused"}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("%s = %v, want %v", k, line[k], v)
		}
		delete(line, k)
	}
	if len(line) != 0 {
		t.Errorf("unexpected fields %v", line)
	}
}

func TestErrorOfUnknownKindNamesItsType(t *testing.T) {
	var out bytes.Buffer
	log, _ := NewLogger(&out, LogOptions{Level: "info", Format: "json"})
	log.Warn("x", "error", errors.New("boom"))
	if !strings.Contains(out.String(), `"error_type":"*errors.errorString"`) {
		t.Error(out.String())
	}
}

func TestTextEscapesTerminalControl(t *testing.T) {
	var out bytes.Buffer
	log, _ := NewLogger(&out, LogOptions{Level: "info", Format: "text"})
	log.Info("pod\x1b[2J says", "context", "line\nlevel=error msg=forged")
	if got := out.String(); strings.ContainsAny(got, "\x1b") || strings.Count(got, "\n") != 1 {
		t.Errorf("hostile text reached the terminal: %q", got)
	}
}

func TestLoggerRefusesUnknownWords(t *testing.T) {
	for _, opt := range []LogOptions{{Level: "loud", Format: "json"}, {Level: "info", Format: "xml"}, {}} {
		if _, err := NewLogger(&bytes.Buffer{}, opt); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%+v: %v, want an invalid error", opt, err)
		}
	}
	for _, word := range []string{"debug", "INFO", "warn", "warning", "error"} {
		if _, err := ParseLevel(word); err != nil {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestMaskingBecomesKnownLater(t *testing.T) {
	var out bytes.Buffer
	var masking Masking
	log, err := NewLogger(&out, LogOptions{Level: "info", Format: "json", Mask: masking.String})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("starting")
	masking.Set(func(s string) string { return strings.ReplaceAll(s, "hunter2", "‹secret›") })
	log.Info("told hunter2")
	if text := out.String(); !strings.Contains(text, "starting") || strings.Contains(text, "hunter2") {
		t.Errorf("logged %s", text)
	}
}
