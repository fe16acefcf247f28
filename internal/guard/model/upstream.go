package model

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// resolveDialect returns the API that is spoken, and where.
func (c Config) resolveDialect() (dialect, *url.URL, error) {
	api, ok := dialects[c.Provider]
	if !ok {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "the model API of %q is not spoken", c.Provider)
	}
	base := c.Upstream
	if base == "" {
		base = api.factsAt("").vendorURL
	}
	upstream, err := parseUpstream(base)
	if err != nil {
		return nil, nil, err
	}
	return api, upstream, nil
}

func parseUpstream(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model base URL %q is not an http(s) URL without credentials", base)
	}
	if Signed(u.Hostname()) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model base URL %q is not supported: calls of Bedrock and Vertex are signed; put a gateway with a key before it", base)
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath keeps an empty one relative
	}
	return u, nil
}

// clouds are where Amazon's APIs are.
var clouds = []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"}

// Signed reports whether a host takes no key, but calls that are signed: those of Bedrock
// and Vertex.
func Signed(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	amazon := slices.ContainsFunc(clouds, func(c string) bool { return strings.HasSuffix(host, c) })
	return amazon && strings.Contains("."+host, ".bedrock") || strings.HasSuffix(host, "aiplatform.googleapis.com")
}

func transportOrDefault(rt http.RoundTripper) http.RoundTripper {
	if rt != nil {
		return rt
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 10 * time.Minute // a long answer that is not streamed
	return t
}

func (g *Guard) rewriteRequest(r *httputil.ProxyRequest, upstream *url.URL) {
	path := r.In.URL.Path
	r.Out.URL = joinURL(upstream, path)
	query := r.Out.URL.Query() // what the base URL has
	maps.Copy(query, g.facts.forwardedQuery(r.In.URL.Query()))
	r.Out.URL.RawQuery = query.Encode()
	r.Out.Host = ""
	var unknown []string
	r.Out.Header, unknown = g.facts.forwardedHeaders(r.In.Header)
	g.dropped.warnOfBetas(g.cfg.Logger, unknown)
	g.facts.setKey(r.Out.Header, g.cfg.Key)
}

// deployments stands in Azure's older base URLs, before the name of a model's
// deployment. Chat is asked below that, all else beside it.
const deployments = "/openai/deployments/"

// joinURL puts a call's path behind the base URL. Both may have the API's version, as
// clients differ in where they expect it; it is written once.
func joinURL(base *url.URL, path string) *url.URL {
	version, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	host, _, deployed := strings.Cut(base.Path, deployments)
	switch {
	case deployed && path == chatPath:
		path = rest
	case deployed:
		beside := *base
		beside.Path, beside.RawPath = host+"/openai", ""
		return beside.JoinPath(rest)
	case strings.HasSuffix(strings.TrimRight(base.Path, "/"), "/"+version):
		path = rest
	}
	return base.JoinPath(path)
}

// observeAnswer has an answer kept and its tokens counted while it streams through, and
// keeps the upstream from redirecting the agent anywhere.
func (g *Guard) observeAnswer(resp *http.Response) error {
	resp.Header.Del("Location")
	resp.Header.Del("Set-Cookie")
	g.hideKey(resp)
	x := exchangeOf(resp.Request.Context())
	resp.Body = x.watchBody(resp)
	if resp.StatusCode == http.StatusOK && x.call.billed {
		x.call.turn = false // it is used up
		resp.Body = &metered{ReadCloser: resp.Body, guard: g, exchange: x, kind: resp.Header.Get("Content-Type")}
	} else if resp.StatusCode >= http.StatusMultipleChoices {
		x.settleCost(g, price.Tokens{}) // errors are not billed
	}
	g.returnTurn(x.call) // before the agent knows, who may ask again at once
	if resp.StatusCode >= http.StatusBadRequest {
		g.cfg.Failed(readFailure(resp, time.Now()))
	}
	if g.facts.endsBrokenStreams && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = ended{resp.Body}
	}
	return nil
}

// ended is a body that, broken off, looks as if it had ended.
type ended struct{ io.ReadCloser }

func (b ended) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

func (g *Guard) handleCallError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // the agent hung up
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		g.writeRefusal(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request is over the guard's limit")
		return
	}
	g.cfg.Logger.Warn("model is unreachable", "error", err)
	if x := exchangeOf(r.Context()); x != nil {
		g.returnTurn(x.call)
	}
	g.cfg.Failed(Failure{Status: http.StatusBadGateway, Unreachable: err})
	g.writeRefusal(w, http.StatusBadGateway, "api_error", "the guard cannot reach the model")
}

// CheckKey makes the one call that shows whether the key is accepted: it lists the
// models. Its errors have the code Refused when it is not, Exhausted when nothing is left
// of its quota, and Unreachable when there is no answer to tell by. They hold nothing of
// the answer, which may repeat the key.
func CheckKey(ctx context.Context, c Config) error {
	api, upstream, err := c.withDefaults().resolveDialect()
	if err != nil {
		return err
	}
	known := api.factsAt(upstream.Hostname())
	req, err := known.newListingRequest(ctx, upstream)
	if err != nil {
		return err
	}
	known.setKey(req.Header, c.Key)
	resp, err := transportOrDefault(c.Transport).RoundTrip(req)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s does not answer: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	host, status := req.URL.Host, resp.StatusCode
	switch {
	case status == http.StatusOK:
		return nil
	case known.isKeyDenied(status):
		return nightcrier.Errorf(nightcrier.Refused, "%s does not accept the key (HTTP %d)", host, status)
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return nightcrier.Errorf(nightcrier.Exhausted, "%s knows the key, and refuses more calls for now (HTTP %d): its rate or quota is used up", host, status)
	case status == http.StatusNotFound:
		return nightcrier.Errorf(nightcrier.Unreachable, "%s lists no models (HTTP 404): whether it accepts the key is not known", host)
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "%s answers with HTTP %d: whether it accepts the key is not known", host, status)
}

// newListingRequest makes the call that lists the models, without a key.
func (f *facts) newListingRequest(ctx context.Context, upstream *url.URL) (*http.Request, error) {
	path, query, _ := strings.Cut(f.listing, "?")
	to := joinURL(upstream, path)
	all := to.Query() // what the base URL has
	own, _ := url.ParseQuery(query)
	maps.Copy(all, own)
	to.RawQuery = all.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model base URL: %w", err)
	}
	maps.Copy(req.Header, f.listingHeader)
	return req, nil
}
