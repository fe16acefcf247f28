package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/retry"
)

// MaxObject is the largest object that a streaming read takes, in bytes. An API
// server stores no object of that size.
const MaxObject = 8 << 20

// ErrGone says that a resourceVersion, or the place within a paged list, is too
// old: only a fresh list tells what there is.
var ErrGone = errors.New("the resource version is too old")

// RetryAfter returns how long the API server asked to be left alone when it
// refused err's request, zero when it did not say.
func RetryAfter(err error) time.Duration {
	var b *busy
	if errors.As(err, &b) {
		return b.after
	}
	return 0
}

// busy is a refusal that says when to come again.
type busy struct {
	error
	after time.Duration
}

func (b *busy) Unwrap() error { return b.error }

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 5 * time.Minute

// Selection names the objects of a streaming read.
type Selection struct {
	// APIVersion may be empty for a builtin kind.
	APIVersion, Kind string
	// Namespace is empty for all.
	Namespace string
	// Fields is a field selector, e.g. "type=Warning".
	Fields string
}

func (s Selection) String() string { return s.Kind + inNamespace(s.Namespace) }

// collectionOf is where the selected objects are.
func (c *Client) collectionOf(ctx context.Context, s Selection) (kinds.Kind, url.Values, error) {
	if err := (nightcrier.Resource{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: "x"}).Check(); err != nil {
		return kinds.Kind{}, nil, err
	}
	if s.Kind == "Secret" {
		return kinds.Kind{}, nil, nightcrier.Errorf(nightcrier.Refused, "Secrets are not streamed: their data never leaves the cluster")
	}
	k, err := c.findKind(ctx, s.APIVersion, s.Kind)
	q := url.Values{}
	setNonEmpty(q, "fieldSelector", s.Fields)
	return k, q, err
}

// openStream sends r and returns the body of a successful answer to be streamed. The
// answer must begin within the client's timeout. Closing the body ends the
// request.
func (c *Client) openStream(ctx context.Context, r request) (_ *stream, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			cancel(err)
		}
	}()
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", r.what, withoutURL(err))
	}
	late := time.AfterFunc(c.timeout, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.cutError(ctx, r.what, err)
	}
	if resp.StatusCode/100 == 2 {
		return &stream{client: c, what: r.what, ctx: ctx, cancel: cancel, body: resp.Body, left: MaxObject}, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what came of it says enough
	return nil, c.rejectedError(r.what, resp, body)
}

// rejectedError is refusalError with what a stream needs to know beside the code.
func (c *Client) rejectedError(what string, resp *http.Response, body []byte) error {
	err := c.refusalError(what, resp.StatusCode, body)
	if resp.StatusCode == http.StatusGone {
		return nightcrier.Errorf(nightcrier.NotFound, "%w: %w", ErrGone, err)
	}
	if after := retryAfter(resp); after > 0 {
		return &busy{err, after}
	}
	return err
}

// retryAfter reads the header of an answer that refuses for now.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	return retry.ReadAfter(resp.Header, time.Now(), maxRetryAfter)
}

// cutError tells why a stream broke: a deadline of ours looks like a cancelled
// context from outside.
func (c *Client) cutError(ctx context.Context, what string, err error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	return c.unreachableError(ctx, what, err)
}

// stream is an answer of JSON that is read value by value. Each value is
// bounded, not their sum.
type stream struct {
	client *Client
	what   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	left   int64
	idle   time.Duration // how long one read may take, 0: as long as ctx
}

// Read implements io.Reader within the bounds of one value.
func (s *stream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, nightcrier.Errorf(nightcrier.Exhausted, "%s: an object is larger than %d bytes", s.what, MaxObject)
	}
	if s.idle > 0 {
		late := time.AfterFunc(s.idle, func() { s.cancel(context.DeadlineExceeded) })
		defer late.Stop()
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// allowNextValue allows for another value.
func (s *stream) allowNextValue() { s.left = MaxObject }

func (s *stream) close() {
	s.cancel(context.Canceled)
	_ = s.body.Close()
}

// brokenError tells why a value could not be read; what was not JSON is said as such.
func (s *stream) brokenError(err error) error {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case nightcrier.CodeOf(err) == nightcrier.Exhausted:
		return err
	case errors.As(err, &syntax), errors.As(err, &shape):
		return nightcrier.Errorf(nightcrier.Unreachable, "%s: answer of %s is not what an API server sends: %w", s.what, s.client.base.Host, err)
	}
	return s.client.cutError(s.ctx, s.what, err)
}
