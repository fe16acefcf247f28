package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
)

// The keys of log fields that people and pipelines search by. A line about an
// agent carries EventKey with a stable snake_case word such as agent_started;
// the message beside it is free to change.
const (
	ComponentKey = "component"
	IncidentKey  = "incident_id"
	ClusterKey   = "cluster"
	EventKey     = "event"
	PIDKey       = "pid"
)

// LogOptions says how lines are written.
type LogOptions struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is json, text (key=value), or people: lines for a terminal.
	Format string
	// Colour is for people, and so is Width: the terminal's, 0 folds no line.
	Colour bool
	Width  int
	// Mask, when set, is applied to every string of a line.
	Mask func(string) string
}

// Masking is a mask that becomes known after the logger was made: the server
// makes its masker when it has read its key. Until then nothing is masked.
type Masking struct {
	mask atomic.Pointer[func(string) string]
}

// Set gives it the mask.
func (m *Masking) Set(mask func(string) string) { m.mask.Store(&mask) }

// String masks s; see LogOptions.Mask.
func (m *Masking) String(s string) string {
	if mask := m.mask.Load(); mask != nil {
		return (*mask)(s)
	}
	return s
}

// NewLogger returns a logger that writes one line a record to w. An unknown
// level or format is an Invalid error.
func NewLogger(w io.Writer, opt LogOptions) (*slog.Logger, error) {
	level, err := ParseLevel(opt.Level)
	if err != nil {
		return nil, err
	}
	handler := &slog.HandlerOptions{Level: level, ReplaceAttr: newReplacer(opt)}
	switch opt.Format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, handler)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, handler)), nil
	case "people":
		return slog.New(&people{out: &lockedWriter{w: w}, level: level, replace: handler.ReplaceAttr, colour: opt.Colour, width: opt.Width}), nil
	}
	return nil, nightcrier.Errorf(nightcrier.Invalid, "log format %q is not one of json, text, people", opt.Format)
}

// ParseLevel reads debug, info, warn (or warning) and error.
func ParseLevel(word string) (slog.Level, error) {
	switch strings.ToLower(word) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, nightcrier.Errorf(nightcrier.Invalid, "log level %q is not one of debug, info, warn, error", word)
}

func newReplacer(opt LogOptions) func([]string, slog.Attr) slog.Attr {
	mask := opt.Mask
	if mask == nil {
		mask = func(s string) string { return s }
	}
	timeFormat := time.RFC3339Nano
	if opt.Format == "text" {
		timeFormat = time.TimeOnly
	}
	return func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 {
			switch a.Key {
			case slog.TimeKey:
				return slog.String("timestamp", a.Value.Time().UTC().Format(timeFormat))
			case slog.LevelKey:
				return slog.String(slog.LevelKey, strings.ToLower(a.Value.String()))
			}
		}
		return maskAttr(a, mask)
	}
}

// maskAttr masks strings, writes durations as 1.5s, and splits an error into its text and its kind: our
// code, or the Go type where there is none.
func maskAttr(a slog.Attr, mask func(string) string) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, mask(a.Value.String()))
	case slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().String())
	}
	err, ok := a.Value.Any().(error)
	if !ok || a.Value.Kind() != slog.KindAny {
		return a
	}
	return slog.Attr{Value: slog.GroupValue(
		slog.String(a.Key, err.Error()), // masked when the handler comes by again
		slog.String(a.Key+"_type", errorType(err)),
	)}
}

func errorType(err error) string {
	if code := nightcrier.CodeOf(err); code != nightcrier.Internal {
		return string(code)
	}
	return fmt.Sprintf("%T", err)
}
