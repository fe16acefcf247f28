package kubetest

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Log is the log of a container, and serves it as a kubelet does. It is safe for
// concurrent use.
type Log struct {
	mu    sync.Mutex
	lines []logLine
	ended bool
	// waiting is how many readers wait for more.
	waiting int
	grown   chan struct{} // closed when there is more, or the end
}

type logLine struct {
	at   time.Time
	text string
}

// NewLog is a log that begins with a text, whose lines were written a minute apart, the
// last one half a minute ago.
func NewLog(text string) *Log {
	l := &Log{grown: make(chan struct{})}
	last := time.Now().Add(-30 * time.Second).Truncate(time.Second)
	for line := range strings.Lines(text) {
		l.lines = append(l.lines, logLine{text: line})
	}
	for i := range l.lines {
		l.lines[i].at = last.Add(-time.Duration(len(l.lines)-1-i) * time.Minute).Add(time.Duration(i%999) * time.Millisecond)
	}
	return l
}

// EndedLog is the log of a container that has ended.
func EndedLog(text string) *Log {
	l := NewLog(text)
	l.End()
	return l
}

// Write adds lines, written now.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(text) {
		l.lines = append(l.lines, logLine{time.Now(), string(line)})
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return len(text), nil
}

// End ends the log: nothing will be written any more.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.grown)
	l.grown = make(chan struct{})
}

// Followed reports whether somebody waits for more lines.
func (l *Log) Followed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting > 0
}

func (l *Log) wait(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += n
}

// ServeHTTP implements http.Handler: the last lines are counted before those that are too
// old are left out, and the bytes last.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	q := r.URL.Query()
	since, room := sinceOf(q), -1
	if n, err := strconv.Atoi(q.Get("limitBytes")); err == nil {
		room = n
	}
	at := 0
	for first := true; ; first = false {
		l.mu.Lock()
		lines, ended, grown := l.lines, l.ended, l.grown
		l.mu.Unlock()
		if n, err := strconv.Atoi(q.Get("tailLines")); err == nil && first {
			at = max(0, len(lines)-n)
		}
		for ; at < len(lines) && room != 0; at++ {
			text := lines[at].text
			if lines[at].at.Before(since) {
				continue
			}
			if q.Get("timestamps") == "true" {
				text = lines[at].at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " " + text
			}
			if room >= 0 {
				text = text[:min(len(text), room)]
				room -= len(text)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				return
			}
		}
		if ended || room == 0 || q.Get("follow") != "true" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		l.wait(1)
		select {
		case <-grown:
		case <-r.Context().Done():
		}
		l.wait(-1)
		if r.Context().Err() != nil {
			return
		}
	}
}

// sinceOf is the moment since when lines are wanted.
func sinceOf(q url.Values) time.Time {
	if n, err := strconv.Atoi(q.Get("sinceSeconds")); err == nil {
		return time.Now().Add(-time.Duration(n) * time.Second)
	}
	at, _ := time.Parse(time.RFC3339, q.Get("sinceTime"))
	return at
}
