// Package runbook finds what the people who run a system wrote for a case like the
// one at hand: Markdown files that say themselves what they are for, and the page
// that an alert names.
//
// The files are the operator's own. The page is named by whoever can raise an
// alert, so it is fetched only from hosts that the operator allows, and never from
// inside the network unless that is allowed too. Either is kept as plain text: what
// shows it escapes it.
package runbook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is joined to one report.
const (
	// MaxText is how much of one runbook is read, in bytes.
	MaxText = 256 << 10
	// maxJoined is how many runbooks are joined with their text, maxNamed how many
	// more are named.
	maxJoined = 5
	maxNamed  = 10
	maxTitle  = 200
)

// Options are what a Library works with.
type Options struct {
	// Dir holds the files, "" for none.
	Dir string
	// AllowedHosts are what CheckHost accepts; none means that no page is fetched.
	AllowedHosts []string
	// Timeout bounds the fetching of one page, names and redirects included.
	Timeout time.Duration
}

// Library finds runbooks. It is safe for concurrent use.
type Library struct {
	dir   string
	fetch *fetcher
}

// New returns a library. An allowed host that is none is an Invalid error; what
// is wrong with the files is told where they are used, and by Check.
func New(o Options) (*Library, error) {
	f, err := newFetcher(o.AllowedHosts, o.Timeout)
	if err != nil {
		return nil, err
	}
	return &Library{dir: o.Dir, fetch: f}, nil
}

// Case is what a runbook is looked for by.
type Case struct {
	Class nightcrier.Class
	// Cause is an id of the published list, "" where none was found.
	Cause string
	// Alert is the alert's name, and Link the address of a page that it names.
	Alert, Link string
	// Labels are those of the cluster and of the alert.
	Labels map[string]string
	// Kinds are those of the objects concerned.
	Kinds     []string
	Namespace string
	// Names are those of the objects concerned.
	Names []string
}

// Heard adds to the case what the alert of an event says, if it came from one. A
// label that the case has already stays: an alert may not pass for another cluster's.
func (c *Case) Heard(ev nightcrier.Event) {
	var raw struct {
		Alerts []struct {
			Labels, Annotations map[string]string
		}
	}
	if ev.Dialect != "alertmanager" || json.Unmarshal(ev.Raw, &raw) != nil || len(raw.Alerts) == 0 {
		return
	}
	a := raw.Alerts[0]
	c.Alert, c.Link = a.Labels["alertname"], a.Annotations["runbook_url"]
	labels := map[string]string{}
	for _, from := range []map[string]string{a.Labels, c.Labels} {
		for name, value := range from {
			labels[name] = value
		}
	}
	c.Labels = labels
}

// For returns the runbooks of a case: the page that the alert names, then the
// files that match, those that say most about the case first. The files are read
// each time, so that a change needs no restart. The errors name files that could
// not be used; the others were.
func (l *Library) For(ctx context.Context, c Case) ([]nightcrier.Runbook, []error) {
	var list []nightcrier.Runbook
	if c.Link != "" {
		list = append(list, l.fetch.fetchPage(ctx, c.Alert, c.Link))
	}
	if l.dir == "" {
		return list, nil
	}
	all, problems := Load(l.dir)
	matching := slices.DeleteFunc(all, func(b Book) bool { return !b.match.fitsCase(c) })
	slices.SortStableFunc(matching, func(a, b Book) int { return cmp.Compare(b.match.countFields(), a.match.countFields()) })
	for i, b := range matching[:min(len(matching), maxJoined+maxNamed)] {
		r := nightcrier.Runbook{Title: b.Title, Source: b.File, Text: b.Text}
		if i >= maxJoined {
			r.Text, r.Problem = "", fmt.Sprintf("%d others match more closely", maxJoined)
		}
		list = append(list, r)
	}
	return list, problems
}

// readableLine makes a text readable, in one line.
func readableLine(s string) string { return text.CutLine(s, maxTitle) }

// firstHeading is the first heading of a Markdown text, "" without one.
func firstHeading(text string) string {
	for line := range strings.Lines(text) {
		if t, ok := strings.CutPrefix(line, "# "); ok {
			return readableLine(t)
		}
	}
	return ""
}
