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
	maxRecord = 4 << 20  // bytes of one event of a watch, or one line of a log
	maxHeld   = 64 << 10 // bytes of a log that wait for the end of a key
	keepBytes = 4 << 20  // bytes of a stream that become evidence
)

// streaming answers with a stream that is cleaned record by record and kept and
// put on record when it ends.
func (c *call) streaming(resp *http.Response, cancel context.CancelFunc) answer {
	media, contentType := mediaOf(resp.Header)
	want := mediaJSON
	if c.parts.following() {
		want = mediaText
	}
	if media != want || resp.Header.Get("Content-Encoding") != "" {
		cancel()
		resp.Body.Close()
		return c.finish(refusal(failf(http.StatusBadGateway, "format", "the cluster's stream is not %s and is not passed on", want)))
	}
	select {
	case c.g.opened <- struct{}{}:
	default:
		cancel()
		resp.Body.Close()
		return c.finish(refusal(failf(http.StatusTooManyRequests, "limit", "%d streams are open already", cap(c.g.opened))))
	}
	s := &stream{call: c, cancel: cancel, body: resp.Body, in: bufio.NewReaderSize(resp.Body, 32<<10), sum: sha256.New()}
	return answer{status: resp.StatusCode, contentType: contentType, stream: s}
}

// stream is an answer that comes bit by bit. Read returns what is clean.
type stream struct {
	call   *call
	cancel context.CancelFunc
	body   io.ReadCloser
	once   sync.Once

	mu    sync.Mutex // held while reading, and guards what follows
	in    *bufio.Reader
	out   []byte // clean and not read yet
	err   error
	kept  []byte
	sum   hash.Hash
	bytes int64
	taken int64 // bytes from the cluster
}

// Read blocks until there is a clean record, or Close is called.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.out, s.err = s.next()
		s.bound()
		s.remember(s.out)
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// bound ends the stream where the guard does, between two records, or where the
// caller wants it to end.
func (s *stream) bound() {
	if want := s.call.wants - s.bytes; s.call.wants > 0 && int64(len(s.out)) >= want {
		s.out, s.err = bytes.ToValidUTF8(s.out[:want], nil), io.EOF
	}
	if s.bytes+int64(len(s.out)) > s.call.g.cfg.Limits.StreamBytes || s.crowded() {
		s.out, s.err = nil, io.EOF
	}
	s.bytes += int64(len(s.out))
}

// crowded reports whether the open streams hold too much memory together, and this one
// more than its share: then it ends, so that all others go on.
func (s *stream) crowded() bool {
	g := s.call.g
	return g.kept.Load() > g.cfg.Limits.Kept && int64(len(s.kept)) > g.cfg.Limits.Kept/int64(g.cfg.Limits.Streams)
}

func (s *stream) remember(b []byte) {
	s.sum.Write(b)
	if s.call.g.cfg.Evidence == nil {
		return // nobody will read it
	}
	b = b[:min(len(b), keepBytes-len(s.kept))]
	s.kept = append(s.kept, b...)
	s.call.g.kept.Add(int64(len(b)))
}

// next returns the next clean record, and why there will be no other.
func (s *stream) next() ([]byte, error) {
	record, err := s.record()
	s.taken += int64(len(record))
	if len(record) == 0 || s.call.parts.following() && s.torn(record, err) {
		return nil, ended(err)
	}
	if s.call.parts.following() {
		return s.call.mask(s.call.g.cfg.Mask, record), ended(err)
	}
	clean, bad := s.call.cleanEvent(bytes.TrimSpace(record))
	if bad != nil {
		return append(errorEvent(bad), '\n'), io.EOF
	}
	return append(clean, '\n'), ended(err)
}

// torn reports whether the last line of a log is not whole because the stream was
// ended within it: it may hold half a secret.
func (s *stream) torn(record []byte, err error) bool {
	cut := err != nil && !errors.Is(err, io.EOF) || s.taken >= s.call.g.cfg.Limits.StreamBytes
	return cut && !bytes.HasSuffix(record, []byte("\n"))
}

// ended makes every way in which a stream ends an orderly one: it is bounded in
// time, and its reader lists again or asks again.
func ended(err error) error {
	if err != nil {
		return io.EOF
	}
	return nil
}

// errorEvent is how a watch tells of an error.
func errorEvent(err error) []byte {
	return append(append([]byte(`{"type":"ERROR","object":`), refusal(err).body...), '}')
}

// record reads a line; of a log, lines are held together while a key is open, as
// only the whole of it is known to be one.
func (s *stream) record() ([]byte, error) {
	record, err := s.line()
	if !s.call.parts.following() {
		return record, err
	}
	for err == nil && len(record) < maxHeld && openKey(record) {
		var more []byte
		more, err = s.line()
		record = append(record, more...)
	}
	return record, err
}

func openKey(text []byte) bool {
	if at := bytes.LastIndex(text, []byte("-----BEGIN ")); at >= 0 {
		return !bytes.Contains(text[at:], []byte("-----END "))
	}
	// A log that is read from its end may begin within a key, whose last line is
	// shorter than the others.
	rest, last := lastLine(text)
	_, before := lastLine(rest)
	return longWord(last) || longWord(before) && !bytes.Contains(last, []byte("-----"))
}

func lastLine(text []byte) (rest, line []byte) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	at := bytes.LastIndexByte(text, '\n') + 1
	return text[:at], bytes.TrimRight(text[at:], "\r")
}

// longWord reports whether a line ends as those of a key do: in much base64.
func longWord(line []byte) bool {
	const short = 60
	if len(line) < short {
		return false
	}
	return all(string(line[len(line)-short:]), func(c byte) bool { return alnum(c) || c == '+' || c == '/' })
}

var errRecord = errors.New("a record is too large")

func (s *stream) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
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
		s.call.ended(s)
		s.call.g.kept.Add(-int64(len(s.kept)))
	})
	return nil
}

// ended is finish for a stream: what was told cannot be taken back, so that a
// record that fails is all that can be said of it.
func (c *call) ended(s *stream) {
	a := answer{status: http.StatusOK, body: s.kept}
	if err := c.keep(&a); err != nil {
		c.audit.Reason = err.Error()
	}
	c.audit.Done, c.audit.Status, c.audit.Bytes = true, http.StatusOK, s.bytes
	c.audit.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	_ = c.record() // it has been logged
}
