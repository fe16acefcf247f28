package snapshot

import (
	"io"
	"net/http"
	"sync"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// Host is what a snapshot is called where an API server's address would stand.
const Host = "snapshot"

// Transport answers requests in this process, without a connection.
func (s *Snapshot) Transport() http.RoundTripper { return inProcess{s.Handler()} }

// Client reads the snapshot as a cluster is read.
func (s *Snapshot) Client() *kube.Client { return kube.Over(Host, s.Transport(), 0) }

// inProcess is a connection to a handler of this process.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper. It returns with the header; the body
// comes as it is written, until the request's context is done.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	w := &answering{out: out, header: http.Header{}, begun: make(chan struct{})}
	go func() {
		t.handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		_ = out.Close()
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// answering writes an answer into a pipe.
type answering struct {
	out    *io.PipeWriter
	header http.Header
	once   sync.Once
	begun  chan struct{}
	sent   http.Header
	status int
}

// Header implements http.ResponseWriter.
func (w *answering) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answering) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Write implements io.Writer.
func (w *answering) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(p)
}

// Flush implements http.Flusher: a pipe keeps nothing back.
func (w *answering) Flush() { w.WriteHeader(http.StatusOK) }
