package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// protocolVersion is the newest protocol whose servers push notifications over
// a session; its successors have neither sessions nor log messages.
const protocolVersion = "2025-11-25"

// streamRetries is how often in a row the library may reopen the notification
// stream without our doubt ending the session first. Far more would overflow
// its exponential wait.
const streamRetries = 50

// session is one connection to the server, used by the loop's goroutine alone.
type session struct {
	src     *Source
	timings Timings
	wire    *wire
	client  *sdk.ClientSession
	tools   toolSet
	mode    string
	subID   string
}

// openSession connects: initialize, the notification stream, and the checks of what
// the server is.
func (s *Source) openSession(ctx context.Context, t transport) (*session, error) {
	endpoint, err := s.checkedEndpoint()
	if err != nil {
		return nil, err
	}
	w := s.newWire(t)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timings.Call)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "nightcrier", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	cs, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint:     endpoint.String(),
		HTTPClient:   &http.Client{Transport: w},
		MaxRetries:   streamRetries,
		MaxEventSize: maxFrame,
	}, &sdk.ClientSessionOptions{ProtocolVersion: protocolVersion})
	if err != nil {
		w.cancel()
		return nil, explainConnect(w, err)
	}
	sess := &session{src: s, timings: s.cfg.Timings, wire: w, client: cs}
	if err := sess.checkServer(); err != nil {
		sess.close(ctx)
		return nil, err
	}
	return sess, nil
}

// checkedEndpoint checks the configured address. Errors do not repeat it: it may hold
// credentials.
func (s *Source) checkedEndpoint() (*url.URL, error) {
	u := s.redact.url
	if u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "endpoint of cluster %s is not an http or https URL", s.cfg.Cluster)
	}
	return u, nil
}

func (s *Source) newWire(t transport) *wire {
	w := &wire{
		base:    t,
		key:     s.cfg.APIKey,
		timeout: s.cfg.Timings.Call,
		poke:    make(chan struct{}, 1),
		broken:  make(chan error, 1),
		notify:  s.queuePayload,
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// queuePayload queues one payload for the sink and counts it.
func (s *Source) queuePayload(raw []byte) {
	now := s.cfg.Now()
	if s.queue.putDelivery(nightcrier.Delivery{Source: "mcp", Cluster: s.cfg.Cluster, ReceivedAt: now, Raw: raw}) {
		s.noteEvent(now)
	}
}

// checkServer refuses servers that accept a session and then push nothing.
func (s *session) checkServer() error {
	version := s.client.InitializeResult().ProtocolVersion
	switch {
	case version > protocolVersion:
		return tooNew(version)
	case s.client.ID() == "":
		return nightcrier.Errorf(nightcrier.Invalid, "the server runs without sessions (stateless), so it cannot push faults; start it stateful")
	case !s.wire.attached.Load():
		return nightcrier.Errorf(nightcrier.Unreachable, "%w", s.wire.noStream())
	}
	return nil
}

func tooNew(versions string) error {
	return nightcrier.Errorf(nightcrier.Invalid, "the server speaks only protocol %s, in which nothing is pushed over a session; faults need a server that speaks %s or older", versions, protocolVersion)
}

// explainConnect names the one failure of connecting that a person must mend
// at the server, and the cause behind a vague one.
func explainConnect(w *wire, err error) error {
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) && rpc.Code == sdk.CodeUnsupportedProtocolVersion {
		var data sdk.UnsupportedProtocolVersionData
		if json.Unmarshal(rpc.Data, &data) == nil {
			return tooNew(quoteList(data.Supported))
		}
	}
	if stream := w.streamErr.Load(); stream != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "%w", *stream)
	}
	select {
	case doubt := <-w.broken:
		err = doubt
	default:
	}
	return unreachableError("initialize", err)
}

func unreachableError(call string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s got no answer in time: %w", call, err)
	}
	var failed *url.Error
	if errors.As(err, &failed) { // what stands around it names the library's layers
		err = failed.Err
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "%s: %w", call, err)
}

// chooseSubscription reads what the server has, and decides how to subscribe to it.
func (s *session) chooseSubscription(ctx context.Context) (err error) {
	if s.tools, err = s.readTools(ctx); err != nil {
		return err
	}
	s.mode, err = s.tools.chooseMode(s.src.cfg.Mode)
	return err
}

// subscribeFaults asks for the log level and the faults.
func (s *session) subscribeFaults(ctx context.Context) error {
	if err := s.chooseSubscription(ctx); err != nil {
		return err
	}
	if err := s.setLevel(ctx); err != nil {
		return err
	}
	said, err := s.callTool(ctx, toolSubscribe, map[string]any{"mode": s.mode})
	if err != nil {
		return err
	}
	if s.subID = subscriptionID(said); s.subID == "" {
		return nightcrier.Errorf(nightcrier.Invalid, "%s answered without a subscription id: %q", toolSubscribe, text.CutLine(said, 200))
	}
	return nil
}

// callTool runs a tool and returns what it said. What the tool itself reports as
// an error is one.
func (s *session) callTool(ctx context.Context, tool string, args map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timings.Call)
	defer cancel()
	res, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", unreachableError(tool, err)
	}
	said := textOf(res)
	if res.IsError {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s failed: %s", tool, text.CutLine(said, 300))
	}
	return said, nil
}

// checkSubscription proves that the subscription stands, as far as the server can tell.
func (s *session) checkSubscription(ctx context.Context) error {
	if _, ok := s.tools[toolList]; !ok {
		ctx, cancel := context.WithTimeout(ctx, s.timings.Call)
		defer cancel()
		if err := s.client.Ping(ctx, nil); err != nil {
			return unreachableError("ping", err)
		}
		return nil
	}
	said, err := s.callTool(ctx, toolList, map[string]any{})
	if err != nil {
		return err
	}
	if err := subscriptionHealth(said, s.subID); err != nil {
		return &lost{err}
	}
	return nil
}

// lost marks a subscription that the server itself says is no good.
type lost struct{ error }

func (l *lost) Unwrap() error { return l.error }

// close says goodbye, within the Close timing whatever the server does, and
// even when ctx has ended.
func (s *session) close(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	cut := time.AfterFunc(s.timings.Close, s.wire.cancel)
	defer cut.Stop()
	defer s.wire.cancel()
	if s.subID != "" {
		if _, err := s.callTool(ctx, toolUnsubscribe, map[string]any{"subscriptionId": s.subID}); err != nil {
			s.src.log.Debug("unsubscribing failed", "error", s.src.redact.redactError(err))
		}
	}
	if err := s.client.Close(); err != nil {
		s.src.log.Debug("closing the session failed", "error", s.src.redact.redactError(fmt.Errorf("closing: %w", err)))
	}
}
