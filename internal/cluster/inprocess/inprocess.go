// Package inprocess is a connection to a handler of this process, without a socket.
package inprocess

import (
	"fmt"
	"io"
	"net/http"

	"nightcrier.dev/nightcrier"
)

// Transport calls a handler in this process. It returns with the header; the body is a
// pipe, so streams arrive as they are written.
type Transport struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err // an answer that is there at once must not win over it
	}
	body, pipe := io.Pipe()
	w := &writer{header: http.Header{}, pipe: pipe, started: make(chan struct{})}
	go t.serveRequest(w, r)
	select {
	case <-w.started:
	case <-r.Context().Done():
		body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Body: body, ContentLength: -1, Request: r}, nil
}

func (t Transport) serveRequest(w *writer, r *http.Request) {
	defer func() {
		var err error
		if p := recover(); p != nil {
			err = nightcrier.Errorf(nightcrier.Internal, "the handler panicked: %v", p)
		}
		w.WriteHeader(http.StatusOK)
		w.pipe.CloseWithError(err) // nil closes with EOF
	}()
	server := r.Clone(r.Context())
	server.RequestURI, server.Host = r.URL.RequestURI(), r.URL.Host
	if server.Body == nil {
		server.Body = http.NoBody
	}
	t.Handler.ServeHTTP(w, server)
}

// writer is the handler's side of the pipe; one goroutine uses it.
type writer struct {
	header  http.Header
	sent    http.Header // the header as it was when the answer started
	status  int
	pipe    *io.PipeWriter
	started chan struct{}
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush implements http.Flusher; a pipe holds nothing back.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }
