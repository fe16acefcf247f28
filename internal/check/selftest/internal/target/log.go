package target

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// serveLog answers for a log as a kubelet does: snapshots know no times. Its lines were
// written a second apart, until now.
func (s *Script) serveLog(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	whole := r.Clone(r.Context())
	whole.URL.RawQuery = url.Values{"container": {q.Get("container")}, "previous": {q.Get("previous")}}.Encode()
	got := s.bufferAnswer(whole)
	body := got.body.String()
	if got.status == http.StatusOK {
		body = windowOf(body, q, time.Now())
	}
	got.replyWith(w, []byte(body))
}

// windowOf is the part of a log that is asked for.
func windowOf(log string, q url.Values, now time.Time) string {
	lines := strings.SplitAfter(strings.TrimSuffix(log, "\n"), "\n")
	first := now.Add(-time.Duration(len(lines)) * time.Second)
	from := 0
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		from = max(0, len(lines)-n)
	}
	since, _ := time.Parse(time.RFC3339, q.Get("sinceTime"))
	if n, err := strconv.Atoi(q.Get("sinceSeconds")); err == nil {
		since = now.Add(-time.Duration(n) * time.Second)
	}
	var out strings.Builder
	for i := from; i < len(lines); i++ {
		at := first.Add(time.Duration(i) * time.Second)
		if at.Before(since) {
			continue
		}
		if q.Get("timestamps") == "true" {
			out.WriteString(at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " ")
		}
		out.WriteString(strings.TrimSuffix(lines[i], "\n") + "\n")
	}
	text := out.String()
	if n, err := strconv.Atoi(q.Get("limitBytes")); err == nil && n > 0 {
		text = text[:min(n, len(text))]
	}
	return text
}
