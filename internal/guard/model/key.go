package model

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"nightcrier.dev/nightcrier"
)

// CheckKey makes the one call that shows whether the key is accepted: it lists the
// models. Its errors have the code Refused when it is not, Exhausted when nothing is left
// of its quota, and Unreachable when there is no answer to tell by. They hold nothing of
// the answer, which may repeat the key.
func CheckKey(ctx context.Context, c Config) error {
	api, upstream, err := c.withDefaults().resolveProtocol()
	if err != nil {
		return err
	}
	req, err := newListingRequest(ctx, api, upstream)
	if err != nil {
		return err
	}
	if c.Key != "" {
		api.setKeyHeader(req.Header, c.Key)
	}
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
	case api.keyRefused(status):
		return nightcrier.Errorf(nightcrier.Refused, "%s does not accept the key (HTTP %d)", host, status)
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return nightcrier.Errorf(nightcrier.Exhausted, "%s knows the key, and refuses more calls for now (HTTP %d): its rate or quota is used up", host, status)
	case status == http.StatusNotFound:
		return nightcrier.Errorf(nightcrier.Unreachable, "%s lists no models (HTTP 404): whether it accepts the key is not known", host)
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "%s answers with HTTP %d: whether it accepts the key is not known", host, status)
}

// newListingRequest makes the call that lists the models, without a key.
func newListingRequest(ctx context.Context, api protocol, upstream *url.URL) (*http.Request, error) {
	list, header := api.modelListing()
	path, query, _ := strings.Cut(list, "?")
	to := joinURL(upstream, path)
	all := to.Query() // what the base URL has
	own, _ := url.ParseQuery(query)
	maps.Copy(all, own)
	to.RawQuery = all.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model base URL: %w", err)
	}
	maps.Copy(req.Header, header)
	return req, nil
}
