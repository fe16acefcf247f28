// Package slack sends notifications to a Slack incoming webhook as Block Kit
// messages.
//
// Its JSON is a handful of structs of its own: an incoming webhook is one POST,
// and a client library of the whole API would bring a websocket stack along.
package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/retry"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// sendTimeout bounds one attempt; maxAnswer is how much of an answer is read.
const (
	sendTimeout = 15 * time.Second
	maxAnswer   = 512
)

// Options are what a Webhook may be given beside its address.
type Options struct {
	// Timeout bounds one attempt; 0 means 15 s.
	Timeout time.Duration
	// Mask, when set, is applied to all text that came from a cluster or an agent.
	Mask func(string) string
}

// Webhook is a Slack incoming webhook; it satisfies notify.Channel. Its address
// is a secret: no error and no String shows it.
type Webhook struct {
	address string
	client  *http.Client
	timeout time.Duration
	mask    func(string) string
}

// New checks the address, https anywhere or http on loopback, and returns a
// Webhook. An address it cannot use is an Invalid error that does not repeat it.
func New(address string, opt Options) (*Webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "slack.webhook_url is not an address")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "slack.webhook_url must begin with https://; its path is a secret")
	}
	w := &Webhook{address: address, timeout: opt.Timeout, mask: opt.Mask, client: &http.Client{
		// A redirect would hand the message, and the path, to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	w.timeout = cmp.Or(w.timeout, sendTimeout)
	if w.mask == nil {
		w.mask = func(s string) string { return s }
	}
	return w, nil
}

// Name implements notify.Channel.
func (w *Webhook) Name() string { return "slack" }

// String keeps the address out of logs.
func (w *Webhook) String() string { return "slack webhook" }

// GoString keeps it out of %#v as well.
func (w *Webhook) GoString() string { return w.String() }

// Send implements notify.Channel: one POST. When the request left us and no
// status came back, nobody can tell whether the message was taken: Lost.
func (w *Webhook) Send(ctx context.Context, m notify.Message) notify.Attempt {
	body, err := json.Marshal(w.renderMessage(m))
	if err != nil {
		return notify.Attempt{Verdict: notify.Refused, Detail: "the message cannot be written as JSON: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var left atomic.Bool // set once any of the request may have left this machine
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { left.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { left.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return notify.Attempt{Verdict: notify.Refused, Detail: "slack.webhook_url is not usable"}
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := w.client.Do(req)
	if err != nil {
		return unansweredAttempt(left.Load(), err)
	}
	defer resp.Body.Close()
	return w.answeredAttempt(resp)
}

func unansweredAttempt(left bool, err error) notify.Attempt {
	if left {
		return notify.Attempt{Verdict: notify.Lost, Detail: "no answer after the message was sent: " + causeWithoutAddress(err)}
	}
	return notify.Attempt{Verdict: notify.Deferred, Detail: "not reached: " + causeWithoutAddress(err)}
}

func (w *Webhook) answeredAttempt(resp *http.Response) notify.Attempt {
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the status decides; the text is for people
	detail := fmt.Sprintf("%d %s", resp.StatusCode, texts.MaskClean(w.hideAddress(string(answer)), w.mask, texts.FoldLine))
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return notify.Attempt{Verdict: notify.Accepted}
	case code == http.StatusTooManyRequests:
		return notify.Attempt{Verdict: notify.Deferred, Wait: retry.ReadAfter(resp.Header, time.Now(), 24*time.Hour), Detail: detail}
	case code == http.StatusGatewayTimeout: // something behind the gateway may have it
		return notify.Attempt{Verdict: notify.Lost, Detail: detail}
	case code >= 500:
		return notify.Attempt{Verdict: notify.Deferred, Wait: retry.ReadAfter(resp.Header, time.Now(), 24*time.Hour), Detail: detail}
	default:
		return notify.Attempt{Verdict: notify.Refused, Detail: detail}
	}
}

// hideAddress removes the address and its path, should a proxy echo them.
func (w *Webhook) hideAddress(s string) string {
	s = strings.ReplaceAll(s, w.address, "(webhook)")
	if u, err := url.Parse(w.address); err == nil && len(u.Path) > 1 {
		s = strings.ReplaceAll(s, u.Path, "(webhook)")
	}
	return s
}

// causeWithoutAddress says why a request failed without the address, which *url.Error repeats.
func causeWithoutAddress(err error) string {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return err.Error()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
