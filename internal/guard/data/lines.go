package data

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// Each line of a log is an entry of its own in Loki, and whoever asks chooses the time and
// the number of entries. So more is asked for than is wanted, the entries of a stream are
// masked as the one text that they were, and then those are left out that nobody asked for.

// marginEntries is how many entries before those that are wanted are asked for, the second
// number where the first is more than is read.
var marginEntries = []int{200, 20}

const (
	marginTime = time.Minute
	// mostEntries is how many servers give at once.
	mostEntries = 5000
)

// asksLines reports whether a question is for entries of a log, not for numbers.
func (q question) asksLines() bool {
	return q.system.name == Loki && q.path == "query_range" && strings.HasPrefix(strings.TrimSpace(q.options.Get("query")), "{")
}

// sendWidened sends a question with a margin.
func (g *Guard) sendWidened(ctx context.Context, q question) (status int, body []byte, err error) {
	for _, margin := range marginEntries {
		status, body, err = g.sendQuestion(ctx, q.withMargin(margin))
		if nightcrier.CodeOf(err) != nightcrier.Exhausted || !q.asksLines() {
			break
		}
	}
	return status, body, err
}

// withMargin is the question with a margin.
func (q question) withMargin(margin int) question {
	limit, err := strconv.Atoi(q.options.Get("limit"))
	if !q.asksLines() || err != nil {
		return q
	}
	q.options = maps.Clone(q.options)
	q.options.Set("limit", strconv.Itoa(max(limit, min(limit+margin, mostEntries))))
	q.options.Set("start", strconv.FormatInt(q.startMoment()-int64(marginTime), 10))
	return q
}

// startMoment is the moment of the first entry that may be wanted.
func (q question) startMoment() int64 {
	at, _ := strconv.ParseInt(q.options.Get("start"), 10, 64) // we wrote it
	return at
}

// maskAnswer returns the body of an answer without its secrets. JSON stays JSON.
func (g *Guard) maskAnswer(q question, body []byte) []byte {
	if q.asksLines() {
		if lines, err := g.maskedLines(q, body); err == nil {
			body = lines
		}
	}
	return g.cfg.Mask(body)
}

// entry is one line of a stream.
type entry struct {
	at     int64
	text   string
	stream int
	raw    []json.RawMessage // as it was sent
}

// maskedLines masks the entries as the texts that they were, and leaves out the margin.
func (g *Guard) maskedLines(q question, body []byte) ([]byte, error) {
	var doc, data map[string]json.RawMessage
	var streams []struct {
		Values [][]json.RawMessage `json:"values"`
	}
	err := json.Unmarshal(body, &doc)
	if err == nil {
		err = json.Unmarshal(doc["data"], &data)
	}
	if err == nil {
		err = json.Unmarshal(data["result"], &streams)
	}
	var all []*entry
	for i := range streams {
		if err == nil {
			all, err = appendEntries(all, i, streams[i].Values)
		}
	}
	if err != nil {
		return nil, err
	}
	g.maskEntries(all, len(streams))
	limit, _ := strconv.Atoi(q.options.Get("limit"))
	wanted := wantedEntries(all, q.startMoment(), limit)
	left := streams[:0]
	for i, s := range streams {
		s.Values = nil
		for _, e := range slices.Backward(wanted) { // the newest first, as they came
			if e.stream == i {
				s.Values = append(s.Values, e.raw)
			}
		}
		if s.Values != nil {
			left = append(left, s)
		}
	}
	if data["result"], err = encodeJSON(left); err != nil {
		return nil, err
	}
	if doc["data"], err = encodeJSON(data); err != nil {
		return nil, err
	}
	return encodeJSON(doc)
}

// encodeJSON writes JSON with as few escapes as there can be.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// appendEntries adds the entries of a stream in the order in which they were written: they
// come the newest first.
func appendEntries(all []*entry, stream int, values [][]json.RawMessage) ([]*entry, error) {
	from := len(all)
	for _, raw := range values {
		e := &entry{stream: stream, raw: raw}
		var at string
		if len(raw) < 2 || json.Unmarshal(raw[0], &at) != nil || json.Unmarshal(raw[1], &e.text) != nil {
			return nil, fmt.Errorf("an entry of another form")
		}
		var err error
		if e.at, err = strconv.ParseInt(at, 10, 64); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if own := all[from:]; len(own) > 1 && own[0].at >= own[len(own)-1].at {
		slices.Reverse(own)
	}
	slices.SortStableFunc(all[from:], byTime)
	return all, nil
}

func byTime(a, b *entry) int { return int(min(1, max(-1, a.at-b.at))) }

// maskEntries masks each stream as a text, and then all of them together: labels that are
// made of a line's text put the lines of one container into several streams.
func (g *Guard) maskEntries(all []*entry, streams int) {
	for i := range streams {
		var own []*entry
		for _, e := range all {
			if e.stream == i {
				own = append(own, e)
			}
		}
		g.maskText(own)
	}
	slices.SortStableFunc(all, byTime)
	if streams > 1 {
		g.maskText(all)
	}
	for _, e := range all {
		e.raw = slices.Clone(e.raw)
		e.raw[1], _ = encodeJSON(e.text) // a string can be encoded
	}
}

// maskText masks entries that follow each other.
func (g *Guard) maskText(entries []*entry) {
	var text bytes.Buffer
	for _, e := range entries {
		text.WriteString(e.text + "\n")
	}
	masked, _ := g.cfg.MaskLog(text.Bytes())
	lines := strings.SplitAfter(string(masked), "\n")
	for _, e := range entries {
		n := min(strings.Count(e.text, "\n")+1, len(lines))
		e.text = strings.TrimSuffix(strings.Join(lines[:n], ""), "\n")
		lines = lines[n:]
	}
}

// wantedEntries leaves out those before the start, and all but the newest.
func wantedEntries(all []*entry, start int64, limit int) []*entry {
	for len(all) > 0 && (all[0].at < start || limit > 0 && len(all) > limit) {
		all = all[1:]
	}
	return all
}
