package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// maxBadFrames is how many unreadable frames a session is forgiven.
	maxBadFrames = 16
	// shortStream is the life below which a notification stream did not stand;
	// maxShortStreams of them in a row end the session.
	shortStream     = 10 * time.Second
	maxShortStreams = 5
)

// wire is the HTTP transport of one session. It sees everything that the
// session sends and receives: it adds the credentials, bounds what is read,
// ends every request with the session, watches the notification stream, and
// takes the notifications out before the protocol library sees them.
type wire struct {
	base    http.RoundTripper
	key     func() string
	timeout time.Duration // until the header of the stream's answer
	ctx     context.Context
	cancel  context.CancelFunc
	// notify is given the params of each notification, and stand-ins for what
	// was unreadable. It may block, which stops the reading.
	notify func(raw []byte)

	attached  atomic.Bool   // the notification stream stands
	opened    atomic.Bool   // it was asked for
	poke      chan struct{} // of 1: attached changed
	broken    chan error    // of 1: the session is no good any more
	badFrames atomic.Int64
	shorts    atomic.Int64
	streamErr atomic.Pointer[error] // why the first request for the stream failed
}

// errNoStream stands for a server that has no notification stream.
var errNoStream = errors.New("the server offers no notification stream")

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(w.ctx, func() { cancel(context.Canceled) })
	end := func() { stop(); cancel(context.Canceled) }
	isStream := req.Method == http.MethodGet
	first := isStream && !w.opened.Swap(true)
	var timer *time.Timer
	if isStream {
		timer = time.AfterFunc(w.timeout, func() { cancel(fmt.Errorf("no answer within %v", w.timeout)) })
	}
	resp, err := w.base.RoundTrip(w.addCredentials(req.Clone(ctx)))
	if timer != nil && !timer.Stop() && err == nil {
		// The answer and the timer crossed: the request is cancelled already.
		_ = resp.Body.Close()
		err = context.Cause(ctx)
	}
	if err == nil && resp.StatusCode/100 == 3 {
		_ = resp.Body.Close()
		err = fmt.Errorf("the endpoint answers %d, a redirect, which is not followed: configure the final address", resp.StatusCode)
	}
	if err != nil {
		err = causeOf(ctx, err)
		end()
		return w.answerWith405(req, first, err)
	}
	w.wrapBody(resp, isStream, end)
	if first && !w.attached.Load() {
		w.setStreamErr(fmt.Errorf("%w: it answers %s to GET", errNoStream, resp.Status))
	}
	return resp, nil
}

// causeOf prefers our own reason for cancelling over "context canceled".
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// answerWith405 answers the first request for the stream with a synthetic 405: for an
// error the library would try again inside its Connect, which no context ends.
func (w *wire) answerWith405(req *http.Request, first bool, err error) (*http.Response, error) {
	if !first {
		return nil, err
	}
	w.setStreamErr(fmt.Errorf("opening the notification stream: %w", err))
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}, nil
}

func (w *wire) setStreamErr(err error) { w.streamErr.Store(&err) }

// noStream says why there is no stream.
func (w *wire) noStream() error {
	if err := w.streamErr.Load(); err != nil {
		return *err
	}
	return errNoStream
}

// addCredentials adds the credentials. Redirects are not followed, so they go to the
// configured host alone.
func (w *wire) addCredentials(req *http.Request) *http.Request {
	if w.key != nil {
		if key := w.key(); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	return req
}

// wrapBody bounds and watches the body of an answer.
func (w *wire) wrapBody(resp *http.Response, isStream bool, end func()) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // empty when unreadable
	if kind != "text/event-stream" || resp.StatusCode/100 != 2 {
		resp.Body = &endingBody{ReadCloser: http.MaxBytesReader(nil, resp.Body, maxFrame), end: end}
		return
	}
	frames := newFrameReader(resp.Body)
	frames.take = func(data []byte) bool { return w.filterEvent(data, isStream) }
	frames.tooLarge = func(head []byte, size int64) { w.noteUnreadable(head, size, isStream) }
	if !isStream {
		resp.Body = &endingBody{ReadCloser: frames, end: end}
		return
	}
	since := time.Now()
	w.setAttached(true)
	resp.Body = &endingBody{ReadCloser: frames, end: func() { end(); w.streamEnded(time.Since(since)) }}
}

func (w *wire) setAttached(on bool) {
	w.attached.Store(on)
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

func (w *wire) streamEnded(lived time.Duration) {
	w.setAttached(false)
	if lived >= shortStream {
		w.shorts.Store(0)
	} else if w.shorts.Add(1) >= maxShortStreams {
		w.doubtSession(fmt.Errorf("the server ended the notification stream %d times within %v of its opening", maxShortStreams, shortStream))
	}
}

// doubtSession ends the session; the first reason counts.
func (w *wire) doubtSession(err error) {
	select {
	case w.broken <- err:
	default:
	}
}

// filterEvent sees each event and takes out notifications and garbage.
func (w *wire) filterEvent(data []byte, isStream bool) bool {
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		w.noteUnreadable(data, int64(len(data)), isStream)
		return true
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok || req.Method != "notifications/message" || req.IsCall() {
		return false
	}
	w.handleNotification(req.Params)
	return true
}

// logMessage is the part of a notification's params that decides whether it is
// for us: a server may also send its own log lines this way.
type logMessage struct {
	Logger string          `json:"logger"`
	Data   json.RawMessage `json:"data"`
}

const loggerPrefix = "kubernetes/"

func (w *wire) handleNotification(params json.RawMessage) {
	var m logMessage
	if json.Unmarshal(params, &m) != nil {
		w.notify(params)
		return
	}
	var data struct {
		SubscriptionID any `json:"subscriptionId"`
		FaultType      any `json:"faultType"`
		Event          any `json:"event"`
	}
	isObject := json.Unmarshal(m.Data, &data) == nil
	known := isObject && (data.SubscriptionID != nil || data.FaultType != nil || data.Event != nil)
	if !known && !strings.HasPrefix(m.Logger, loggerPrefix) {
		return
	}
	w.notify(params)
	if ev, err := dialect.Parse(params); err == nil && ev.Reason == nightcrier.SubscriptionErr {
		w.doubtSession(fmt.Errorf("the server reports that its watch failed: %s", ev.Context))
	}
}

// noteUnreadable records what cannot be parsed, and gives the session up when there
// is too much of it. Only on the notification stream can it have been a fault.
func (w *wire) noteUnreadable(head []byte, size int64, isStream bool) {
	if w.badFrames.Add(1) >= maxBadFrames {
		w.doubtSession(fmt.Errorf("the server sent %d unreadable frames", maxBadFrames))
	}
	switch {
	case !isStream:
		w.doubtSession(fmt.Errorf("the server's answer is not readable: %d bytes that begin with %q", size, text.CutLine(string(head[:min(len(head), 80)]), 80)))
	case size > maxFrame:
		w.notify(dialect.Oversized(head, size))
	default:
		w.notify(quoteGarbage(head))
	}
}

// quoteGarbage makes a JSON string of what is no JSON, so that it can be kept as such.
func quoteGarbage(garbage []byte) []byte {
	b, err := json.Marshal(string(garbage[:min(len(garbage), dialect.HeadSize)]))
	if err != nil { // a string always marshals
		return nil
	}
	return b
}

// endingBody calls end once, when the body has ended or is closed.
type endingBody struct {
	io.ReadCloser
	end   func()
	ended atomic.Bool
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.endOnce()
	}
	return n, err
}

func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.endOnce()
	return err
}

func (b *endingBody) endOnce() {
	if !b.ended.Swap(true) {
		b.end()
	}
}
