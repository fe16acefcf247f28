package datatest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Line is one line of a log.
type Line struct {
	At   time.Time
	Text string
}

// Stream is a stream of lines with its labels.
type Stream struct {
	Labels map[string]string
	Lines  []Line
}

// Loki is a scripted server of Loki's query API. It understands no query: Answer says
// which streams one gets. It heeds times and the limit, the newest lines first.
type Loki struct {
	URL string
	// Answer is given the options of a query; what is outside their time is left out.
	Answer func(url.Values) []Stream

	mu    sync.Mutex
	asked []*http.Request
}

// NewLoki starts a server that answers every query with the same streams.
func NewLoki(tb testing.TB, all ...Stream) *Loki {
	l := &Loki{Answer: func(url.Values) []Stream { return all }}
	s := httptest.NewServer(l)
	tb.Cleanup(s.Close)
	l.URL = s.URL
	return l
}

// Asked are the requests so far, their forms parsed.
func (l *Loki) Asked() []*http.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*http.Request(nil), l.asked...)
}

// ServeHTTP implements http.Handler.
func (l *Loki) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	l.mu.Lock()
	l.asked = append(l.asked, r)
	l.mu.Unlock()
	var data any
	switch r.URL.Path {
	case "/loki/api/v1/query_range":
		data = map[string]any{"resultType": "streams", "result": l.streams(r.Form)}
	case "/loki/api/v1/labels":
		data = []string{"namespace", "pod"}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}) // who hung up needs no answer
}

func (l *Loki) streams(q url.Values) []map[string]any {
	from, to := nanos(q.Get("start")), nanos(q.Get("end"))
	all := l.Answer(q)
	var times []int64
	for _, s := range all {
		for _, line := range s.Lines {
			if at := line.At.UnixNano(); at >= from && at < to {
				times = append(times, at)
			}
		}
	}
	slices.Sort(times)
	room := len(times)
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit < room {
		room, from = limit, times[len(times)-limit]
	}
	out := []map[string]any{}
	for _, s := range all {
		values := [][]string{}
		for _, line := range slices.Backward(s.Lines) {
			if at := line.At.UnixNano(); at >= from && at < to && room > 0 {
				values = append(values, []string{strconv.FormatInt(at, 10), line.Text})
				room--
			}
		}
		if len(values) > 0 {
			out = append(out, map[string]any{"stream": s.Labels, "values": values})
		}
	}
	return out
}

func nanos(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
