package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

const (
	// connectTime bounds the beginning of a session and its list of tools.
	connectTime = 15 * time.Second
	// maxAnswer bounds one answer of a server, and maxStream all that a command says
	// in a run, in bytes.
	maxAnswer = 6 << 20
	maxStream = 512 << 20
	// resumes is how often in a row an answer whose stream ends early is asked for again.
	resumes = 3
)

// dialServer begins a session. What belongs to it besides ends with the way to it.
func dialServer(ctx context.Context, s toolserver.Server, o Options, asks func(method string), changed func()) (*sdk.ClientSession, *way, error) {
	way, err := openWay(ctx, s, o)
	if err != nil {
		return nil, nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "nightcrier", Title: "Nightcrier", Version: "1"}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed() },
	})
	client.AddReceivingMiddleware(grantNothing(asks))
	session, err := client.Connect(ctx, way.transport, nil)
	if err != nil && way.older != nil && way.speaksNoMCP.Load() {
		var olderErr error
		if session, olderErr = client.Connect(ctx, way.older, nil); olderErr == nil {
			return session, way, nil
		}
		err = fmt.Errorf("%w; nor does it speak the older dialect: %w", err, olderErr)
	}
	if err != nil {
		way.stop()
		return nil, nil, nightcrier.Errorf(nightcrier.CodeOf(err), "%w%s", err, way.complaint())
	}
	return session, way, nil
}

// way leads to a server. What belongs to it ends with stop. Printed is what a command
// printed among its messages, complaint that and what it said last on stderr; both are
// whole after stop.
type way struct {
	transport sdk.Transport
	stop      func()
	complaint func() string
	printed   func() string
	// older leads to a server that speaks no MCP, which its answers say; nil where none can be.
	older       sdk.Transport
	speaksNoMCP atomic.Bool
	// tooMuch says that an answer was longer than any may be: sessions do not tell.
	tooMuch atomic.Bool
}

// endSession ends a session with all that belongs to it, and tells of what was skipped of it.
func (w *way) endSession(session *sdk.ClientSession, s toolserver.Server, note func(string)) {
	slow := time.AfterFunc(farewell, w.stop)
	_ = session.Close() // it ends either way
	slow.Stop()
	w.stop()
	if printed := w.printed(); printed != "" {
		note(fmt.Sprintf("tool server %s printed %s; they were skipped", s.Name, printed))
	}
}

// grantNothing refuses what a server may ask its client for.
func grantNothing(asks func(method string)) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch method {
			case "roots/list", "sampling/createMessage", "elicitation/create":
				asks(method)
				return nil, errors.New("nightcrier grants this to no server")
			}
			return next(ctx, method, req)
		}
	}
}

func openWay(ctx context.Context, s toolserver.Server, o Options) (*way, error) {
	if len(s.Command) > 0 {
		return startCommand(ctx, s, o)
	}
	token := o.Variables[s.TokenEnv]
	if s.TokenEnv != "" && token == "" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the variable %s, which holds its token, is not set", s.TokenEnv)
	}
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 16, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	life, end := context.WithCancel(context.Background())
	silent := func() string { return "" }
	w := &way{stop: func() { end(); base.CloseIdleConnections() }, complaint: silent, printed: silent}
	web := &http.Client{
		Transport: wire{base: base, token: token, life: life, way: w},
		// Where it leads to was not allowed, and the token is not for there.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server redirects, which is not followed")
		},
	}
	// No stream of its own: what a server has to say beside its answers is nothing that we act
	// on. One that ends the stream of an answer early is asked for the rest.
	w.transport = &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: web, MaxRetries: resumes, DisableStandaloneSSE: true, MaxEventSize: maxAnswer}
	w.older = older{s.URL, web}
	return w, nil
}

// wire adds the token, bounds what comes back, and ends with the session.
type wire struct {
	base  http.RoundTripper
	token string
	life  context.Context
	way   *way
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(w.life, cancel)
	r = r.Clone(ctx)
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.base.RoundTrip(r)
	if err != nil {
		unhook()
		cancel()
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		w.way.speaksNoMCP.Store(true)
	}
	resp.Body = &bounding{ReadCloser: resp.Body, left: maxAnswer, over: &w.way.tooMuch, end: func() { unhook(); cancel() }}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/json" {
		return resp, nil
	}
	// A session ends when such a body cannot be read whole, but not when there was no answer.
	said, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(said))
	return resp, nil
}

// bounding is a reader that fails when more comes than was granted.
type bounding struct {
	io.ReadCloser
	left int64
	over *atomic.Bool // nil, or what is set then
	end  func()       // nil, or what else Close does
}

// Close implements io.Closer.
func (b *bounding) Close() error {
	if b.end != nil {
		defer b.end()
	}
	return b.ReadCloser.Close()
}

var errTooMuch = nightcrier.Errorf(nightcrier.Exhausted, "the server answers with more than is taken")

// Read implements io.Reader.
func (b *bounding) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.over != nil {
			b.over.Store(true)
		}
		return 0, errTooMuch
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
