package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

//go:embed templates
var templateFiles embed.FS

// frame is what every page has around what it shows.
type frame struct {
	Title, Section, Base, Form, Version string
	Live                                string // the address of what the page follows, "" for nothing
	LoggedIn                            bool
	Nav                                 []navItem
	Now                                 time.Time
	Data                                any
}

// navItem is a place to go to.
type navItem struct{ Section, Path, Name string }

var navigation = []navItem{
	{"incidents", "/incidents", "Incidents"}, {"runs", "/runs", "Runs"}, {"clusters", "/clusters", "Clusters"}, {"suppressed", "/suppressed", "Suppressed"},
	{"pipelines", "/pipelines", "Pipelines"}, {"skills", "/skills", "Skills"}, {"spend", "/spend", "Spend"}, {"doctor", "/doctor", "Doctor"}, {"settings", "/settings", "Settings"},
}

// parsePages reads the templates: a page each, within the layout and beside the parts.
func (u *UI) parsePages() map[string]*template.Template {
	base := template.Must(template.New("layout").Funcs(report.PageWords()).Funcs(u.words()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	pages := map[string]*template.Template{"parts": base}
	entries, _ := templateFiles.ReadDir("templates") // it is embedded
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if name != "layout" && name != "parts" {
			pages[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, "templates/"+e.Name()))
		}
	}
	return pages
}

// words are the functions of the templates, beside those of a report.
func (u *UI) words() template.FuncMap {
	return template.FuncMap{
		"ago": u.ago, "clock": clockElement, "took": describeDuration, "usd": dollars, "line": func(n int, s string) string { return text.CutLine(s, n) },
		"mark": severityMark, "toneOf": toneOfStatus, "stateTone": toneOfState, "object": objectOf, "namespace": func(inc nightcrier.Incident) string { return inc.Namespace() }, "reason": plainWord, "plural": text.CountNoun,
		"bars": drawBars, "changesDrawn": drawChanges, "graph": drawGraph, "json": showJSON, "tail": u.tailEntry, "untilNow": func(t time.Time) string { return describeDuration(u.opt.Now().Sub(t)) },
		"add": func(a, b int) int { return a + b }, "plural64": func(n int64, noun string) string { return text.CountNoun(int(n), noun) },
	}
}

// render shows a page.
func (u *UI) render(w http.ResponseWriter, r *http.Request, name, title string, data any) error {
	return u.renderStatus(w, r, http.StatusOK, name, title, data)
}

// follower is what a page shows that follows something live.
type follower interface{ liveAt() string }

func (u *UI) renderStatus(w http.ResponseWriter, r *http.Request, status int, name, title string, data any) error {
	f := frame{Title: title, Section: sectionOf(r.URL.Path), Base: u.assets.base, Nav: navigation, Version: u.opt.Version, Now: u.opt.Now().UTC(), Data: data}
	if s := sessionIn(r.Context()); s != nil {
		f.LoggedIn, f.Form = true, u.door.formToken(s)
	}
	if l, ok := data.(follower); ok {
		f.Live = l.liveAt()
	}
	var b bytes.Buffer
	if err := u.pages[name].ExecuteTemplate(&b, "layout", f); err != nil {
		u.log.Error("page cannot be shown", "page", name, "error", err)
		http.Error(w, "The page could not be shown; the server's log says why.", http.StatusInternalServerError)
		return nil
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that is gone cannot be told
	return nil
}

// fragment renders a part of a page alone.
func (u *UI) fragment(name string, data any) (string, error) {
	var b bytes.Buffer
	if err := u.pages["parts"].ExecuteTemplate(&b, name, data); err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "render %s: %w", name, err)
	}
	return b.String(), nil
}

func sectionOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
}

// ago is a time as people say it; a browser keeps it up to date, and shows the exact one.
func (u *UI) ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	said := "in " + describeDuration(t.Sub(u.opt.Now()))
	if !t.After(u.opt.Now()) {
		said = describeDuration(u.opt.Now().Sub(t)) + " ago"
	}
	at := t.UTC()
	return template.HTML(`<time data-ago datetime="` + at.Format(time.RFC3339) + `" title="` + at.Format("2006-01-02 15:04:05 UTC") + `">` + said + `</time>`)
}

// clockElement is the time of day, exact on hover.
func clockElement(t time.Time) template.HTML {
	at := t.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339) + `" title="` + at.Format("2006-01-02 15:04:05.000 UTC") + `">` + at.Format(time.TimeOnly) + `</time>`)
}

// describeDuration writes a duration in its largest unit, or in two while that is short.
func describeDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 10*time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d", d/day)
}

func dollars(usd float64) string {
	if usd > 0 && usd < 0.1 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// severityMark is a severity by shape and word, not by colour alone.
func severityMark(s nightcrier.Severity) template.HTML {
	shape := map[nightcrier.Severity]string{nightcrier.Critical: "◆", nightcrier.ErrorSeverity: "▲", nightcrier.Warning: "■", nightcrier.Info: "●"}[s]
	return template.HTML(`<span class="sev ` + s.String() + `"><span aria-hidden="true">` + shape + `</span> ` + s.String() + `</span>`)
}

// toneOfStatus is how alarming a status is.
func toneOfStatus(s nightcrier.IncidentStatus) string {
	switch s {
	case nightcrier.Failed, nightcrier.AgentFailed:
		return "alarm"
	case nightcrier.Investigating:
		return "busy"
	case nightcrier.Resolved:
		return "calm"
	}
	return ""
}

func toneOfState(s nightcrier.State) string {
	switch s {
	case nightcrier.StateSuccess:
		return "calm"
	case nightcrier.StateFailed, nightcrier.StateTimeout:
		return "alarm"
	case nightcrier.StateRunning, nightcrier.StateStarting:
		return "busy"
	}
	return ""
}

// objectOf is what an incident is about: the workload to be mended, where it is known.
func objectOf(inc nightcrier.Incident) string {
	if inc.Owner.IsZero() {
		return inc.Resource.String()
	}
	return inc.Owner.String()
}

func plainWord(s nightcrier.Reason) string { return strings.ReplaceAll(string(s), "_", " ") }

// entryView is a line of a timeline.
type entryView struct {
	Seq         int64
	At          time.Time
	Label, Text string
	// More is what the line does not show, Tone how it is to be seen.
	More, Tone string
}

// maxMore bounds what is unfolded of one entry, in bytes.
const maxMore = 16 << 10

// tailEntry is a journal's entry as people see it; zero for what is not worth a line.
func (u *UI) tailEntry(e nightcrier.JournalEntry) entryView {
	l := journal.Tail(e, u.opt.Mask)
	v := entryView{Seq: e.Seq, At: e.Time, Label: strings.ToLower(l.Label), Text: l.Text, Tone: entryTones[e.Type]}
	var whole string
	switch e.Type {
	case nightcrier.EntryToolResult:
		if r, err := journal.Decode[journal.ToolResult](e); err == nil {
			whole = r.Text
			if r.Error {
				v.Tone = "alarm"
			}
		}
	case nightcrier.EntryToolCall:
		if c, err := journal.Decode[journal.ToolCall](e); err == nil && c.Command == "" {
			whole = showJSON(c.Input)
		}
	case nightcrier.EntryMessage:
		if m, err := journal.Decode[journal.Message](e); err == nil {
			whole = m.Text
		}
	}
	whole = text.MaskClean(whole, u.opt.Mask, text.MarkHidden)
	if len(strings.TrimSpace(whole)) > len(l.Text) {
		v.More = text.CutBytes(whole, maxMore)
	}
	return v
}

var entryTones = map[nightcrier.EntryType]string{
	nightcrier.EntryDenial: "alarm", nightcrier.EntryError: "alarm", nightcrier.EntryState: "state", nightcrier.EntryMessage: "said", nightcrier.EntryToolCall: "call",
}
