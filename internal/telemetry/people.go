package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// people writes lines for somebody who looks at a terminal: the time, the level, what
// happened and its details. The end of an investigation is a line that says what was
// found; the steps on the way there are shown at debug.
type people struct {
	out     *lockedWriter
	level   slog.Level
	replace func([]string, slog.Attr) slog.Attr
	colour  bool
	with    []slog.Attr
}

// lockedWriter takes whole lines from many loggers.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// steps are the events between the beginning and the end of an investigation.
var steps = []string{"run_admitted", "investigation_started", "notification_sent", "agent_created", "agent_starting", "agent_running", "agent_success"}

// unsaid are the keys that a person finds elsewhere in the line, or needs no more than
// the message for.
var unsaid = []string{ComponentKey, EventKey, "error_type", PIDKey, "run"}

// Enabled implements slog.Handler.
func (h *people) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithGroup implements slog.Handler. No logger of ours has groups.
func (h *people) WithGroup(string) slog.Handler { return h }

// WithAttrs implements slog.Handler.
func (h *people) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *h
	more.with = slices.Concat(h.with, attrs)
	return &more
}

// Handle implements slog.Handler.
func (h *people) Handle(_ context.Context, r slog.Record) error {
	d := details{}
	for _, a := range h.with {
		d.add(h.replace, a)
	}
	r.Attrs(func(a slog.Attr) bool {
		d.add(h.replace, a)
		return true
	})
	if r.Level < slog.LevelWarn && h.level > slog.LevelDebug && slices.Contains(steps, d.of(EventKey)) {
		return nil
	}
	said := h.message(r, d)
	line := r.Time.Local().Format(time.TimeOnly) + " " + h.paint(levelColours[r.Level], fmt.Sprintf("%-5s", r.Level)) + " " + said + "\n"
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := io.WriteString(h.out.w, line)
	return err
}

var levelColours = map[slog.Level]string{slog.LevelDebug: "2", slog.LevelInfo: "36", slog.LevelWarn: "33", slog.LevelError: "31;1"}

// message is what happened, with its details behind it.
func (h *people) message(r slog.Record, d details) string {
	if d.of(EventKey) == "investigation_ended" {
		return h.ended(d)
	}
	said := text.FoldLine(h.replace(nil, slog.String(slog.MessageKey, r.Message)).Value.String())
	for _, a := range d {
		if value := text.FoldLine(a.Value.String()); value != "" && !slices.Contains(unsaid, a.Key) {
			said += "  " + h.paint("2", a.Key+"="+value)
		}
	}
	return said
}

// ended is the line of an incident: its cluster and object, what was found, how it
// stands, how long it took, and where the rest is.
func (h *people) ended(d details) string {
	status := nightcrier.IncidentStatus(d.of("status"))
	colour := "31;1"
	if status == nightcrier.Resolved {
		colour = "32;1"
	}
	said := h.paint(colour, status.Words()) + "  " + text.FoldLine(d.of(ClusterKey)) + "  " + h.paint("1", text.FoldLine(d.of("object")))
	for _, what := range []string{d.of("root_cause"), d.of("failure_reason")} {
		if what != "" {
			said += "  " + text.FoldLine(what)
		}
	}
	return said + "  " + h.paint("2", d.of("took")+"  nightcrier incidents report "+text.FoldLine(d.of(IncidentKey)))
}

func (h *people) paint(colour, text string) string {
	if !h.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// details are the fields of a line, in order.
type details []slog.Attr

// add takes a field in, masked; an error is two.
func (d *details) add(replace func([]string, slog.Attr) slog.Attr, a slog.Attr) {
	a.Value = a.Value.Resolve()
	a = replace(nil, a)
	if a.Value.Kind() != slog.KindGroup {
		*d = append(*d, a)
		return
	}
	for _, inner := range a.Value.Group() {
		*d = append(*d, replace(nil, inner))
	}
}

func (d details) of(key string) string {
	for _, a := range d {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}
