package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

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
	// width is the terminal's, 0 folds no line.
	width int
	with  []slog.Attr
}

// lockedWriter takes whole lines from many loggers.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// steps are the events on the way to the end of an investigation, which is told.
var steps = []string{"event_taken_in", "run_admitted", "investigation_started", "notification_sent", "agent_created", "agent_starting", "agent_running", "agent_success"}

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
		d.addField(h.replace, a)
	}
	r.Attrs(func(a slog.Attr) bool {
		d.addField(h.replace, a)
		return true
	})
	if r.Level < slog.LevelWarn && h.level > slog.LevelDebug && d.isStep() {
		return nil
	}
	line := h.fold([]part{
		{text: r.Time.Local().Format(time.TimeOnly)}, {text: fmt.Sprintf("%-5s", r.Level), colour: levelColours[r.Level], whole: true},
	}, h.messageText(r, d))
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := io.WriteString(h.out.w, line)
	return err
}

var levelColours = map[slog.Level]string{slog.LevelDebug: "2", slog.LevelInfo: "36", slog.LevelWarn: "33", slog.LevelError: "31;1"}

// part is a piece of a line. A whole one is not broken: it is copied, or read at a glance.
type part struct {
	text, colour string
	whole        bool
}

// messageText is what happened, with its details behind it.
func (h *people) messageText(r slog.Record, d details) []part {
	if d.valueOf(EventKey) == "investigation_ended" {
		return ended(d)
	}
	parts := []part{{text: text.FoldLine(h.replace(nil, slog.String(slog.MessageKey, r.Message)).Value.String())}}
	for _, a := range d {
		if value := text.FoldLine(a.Value.String()); value != "" && !slices.Contains(unsaid, a.Key) {
			parts = append(parts, part{text: a.Key + "=" + value, colour: "2"})
		}
	}
	return parts
}

// ended is the line of an incident: its cluster and object, what came of it, how long it
// took, and where the rest is.
func ended(d details) []part {
	status := nightcrier.IncidentStatus(d.valueOf("status"))
	colour := "31;1"
	if status == nightcrier.Resolved {
		colour = "32;1"
	}
	parts := []part{{status.Words(), colour, true}, {text: text.FoldLine(d.valueOf(ClusterKey)), whole: true}, {text.FoldLine(d.valueOf("object")), "1", true}}
	for _, what := range cameOfIt(d) {
		parts = append(parts, part{text: text.FoldLine(what)})
	}
	return append(parts, part{text: d.valueOf("took"), colour: "2"}, part{"nightcrier incidents report " + text.FoldLine(d.valueOf(IncidentKey)), "2", true})
}

// cameOfIt says what came of an investigation, whatever it is.
func cameOfIt(d details) []string {
	var said []string
	for _, what := range []string{d.valueOf("root_cause"), d.valueOf("failure_reason")} {
		if what != "" {
			said = append(said, what)
		}
	}
	if len(said) > 0 {
		return said
	}
	return []string{nightcrier.Verdict(d.valueOf("verdict")).Words()}
}

// fold writes parts in lines that the terminal has room for. Lead stands before the
// first; the others begin below what follows it.
func (h *people) fold(lead, parts []part) string {
	var b strings.Builder
	margin, used := 0, 0
	for _, p := range lead {
		b.WriteString(h.paint(p.colour, p.text) + " ")
		margin += utf8.RuneCountInString(p.text) + 1
	}
	used = margin
	put := func(gap int, word, colour string) {
		switch n := utf8.RuneCountInString(word); {
		case used == margin:
			used += n
		case h.width > 0 && used+gap+n > h.width:
			b.WriteString("\n" + strings.Repeat(" ", margin))
			used = margin + n
		default:
			b.WriteString(strings.Repeat(" ", gap))
			used += gap + n
		}
		b.WriteString(h.paint(colour, word))
	}
	for _, p := range parts {
		words := []string{p.text}
		if h.width > 0 && !p.whole {
			words = strings.Fields(p.text)
		}
		for i, word := range words {
			put(2-min(i, 1), word, p.colour)
		}
	}
	return b.String() + "\n"
}

func (h *people) paint(colour, text string) string {
	if !h.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// details are the fields of a line, in order.
type details []slog.Attr

// addField takes a field in, masked; an error is two.
func (d *details) addField(replace func([]string, slog.Attr) slog.Attr, a slog.Attr) {
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

func (d details) valueOf(key string) string {
	for _, a := range d {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// isStep reports whether what is told of is on the way to something that is told.
func (d details) isStep() bool {
	event := d.valueOf(EventKey)
	return slices.Contains(steps, event) || event == "source_state" && d.valueOf("to") == string(nightcrier.SourceConnecting)
}
