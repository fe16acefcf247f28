package kube

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"sync"
)

const (
	maxRecord = 4 << 20 // bytes of one event of a watch, or one line of a log
	keepBytes = 4 << 20 // bytes of a stream that become evidence
)

// answerWatch answers with a watch, which is cleaned event by event.
func (c *call) answerWatch(resp *http.Response, cancel context.CancelFunc) answer {
	media, contentType := mediaOf(resp.Header)
	if media != mediaJSON || resp.Header.Get("Content-Encoding") != "" {
		cancel()
		resp.Body.Close()
		return c.finishAnswer(refusalAnswer(newFailuref(http.StatusBadGateway, "format", "the cluster's stream is not %s and is not passed on", mediaJSON)))
	}
	in := bufio.NewReaderSize(resp.Body, 32<<10)
	return c.answerStream(resp.Body, contentType, cancel, func() ([]byte, error) { return c.nextEvent(in) })
}

// nextEvent returns the next event of a watch, clean, and why there will be no other.
func (c *call) nextEvent(in *bufio.Reader) ([]byte, error) {
	record, err := readLine(in)
	if len(record) == 0 {
		return nil, err
	}
	clean, bad := c.cleanEvent(bytes.TrimSpace(record))
	if bad != nil {
		return append(errorEvent(bad), '\n'), io.EOF
	}
	return append(clean, '\n'), err
}

// errorEvent is how a watch tells of an error.
func errorEvent(err error) []byte {
	return append(append([]byte(`{"type":"ERROR","object":`), refusalAnswer(err).body...), '}')
}

// answerStream answers with what next returns bit by bit, clean. It is kept and put on record
// when it ends.
func (c *call) answerStream(body io.ReadCloser, contentType string, cancel context.CancelFunc, next func() ([]byte, error)) answer {
	select {
	case c.g.opened <- struct{}{}:
	default:
		cancel()
		body.Close()
		return c.finishAnswer(refusalAnswer(newFailuref(http.StatusTooManyRequests, "limit", "%d streams are open already", cap(c.g.opened))))
	}
	return answer{status: http.StatusOK, contentType: contentType, stream: &stream{call: c, cancel: cancel, body: body, next: next, sum: sha256.New()}}
}

// stream is an answer that comes bit by bit. Read returns what is clean.
type stream struct {
	call   *call
	cancel context.CancelFunc
	body   io.ReadCloser
	once   sync.Once

	mu    sync.Mutex // held while reading, and guards what follows
	next  func() ([]byte, error)
	out   []byte // clean and not read yet
	err   error
	kept  []byte
	sum   hash.Hash
	bytes int64
}

// Read blocks until there is a clean record, or Close is called.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		var err error
		if s.out, err = s.next(); err != nil {
			s.err = io.EOF // however it ends: its reader lists again or asks again
		}
		s.cutAtBounds()
		s.rememberBytes(s.out)
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// cutAtBounds ends the stream where the guard does, between two records, or where the
// caller wants it to end.
func (s *stream) cutAtBounds() {
	if want := s.call.wants - s.bytes; s.call.wants > 0 && int64(len(s.out)) >= want {
		s.out, s.err = bytes.ToValidUTF8(s.out[:want], nil), io.EOF
	}
	room := s.call.g.cfg.Limits.StreamBytes - s.bytes
	switch {
	case s.isCrowded():
		s.out, s.err = nil, io.EOF
	case int64(len(s.out)) > room:
		s.out, s.err = s.out[:bytes.LastIndexByte(s.out[:room], '\n')+1], io.EOF
	}
	s.bytes += int64(len(s.out))
}

// isCrowded reports whether the open streams hold too much memory together, and this one
// more than its share: then it ends, so that all others go on.
func (s *stream) isCrowded() bool {
	g := s.call.g
	return g.kept.Load() > g.cfg.Limits.Kept && int64(len(s.kept)) > g.cfg.Limits.Kept/int64(g.cfg.Limits.Streams)
}

func (s *stream) rememberBytes(b []byte) {
	s.sum.Write(b)
	if s.call.g.cfg.Evidence == nil {
		return // nobody will read it
	}
	b = b[:min(len(b), keepBytes-len(s.kept))]
	s.kept = append(s.kept, b...)
	s.call.g.kept.Add(int64(len(b)))
}

var errRecord = errors.New("a record is too large")

// readLine reads a line of a bounded length.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxRecord {
			return nil, errRecord
		}
	}
}

// Close ends the stream, keeps what was told and puts the outcome on record.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.cancel()
		s.body.Close() // which ends a Read
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out, s.err = nil, http.ErrBodyReadAfterClose
		<-s.call.g.opened
		s.call.finishStream(s)
		s.call.g.kept.Add(-int64(len(s.kept)))
	})
	return nil
}

// finishStream is finishAnswer for a stream: what was told cannot be taken back, so that a
// record that fails is all that can be said of it.
func (c *call) finishStream(s *stream) {
	a := answer{status: http.StatusOK, body: s.kept}
	if err := c.recordEvidence(&a); err != nil {
		c.audit.Reason = err.Error()
	}
	c.audit.Done, c.audit.Status, c.audit.Bytes = true, http.StatusOK, s.bytes
	c.audit.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	_ = c.recordCall() // it has been logged
}
