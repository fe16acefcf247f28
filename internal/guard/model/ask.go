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

// lists are the calls that name a provider's models: they cost nothing, and need a
// key that is accepted.
var lists = map[nightcrier.Provider]string{
	nightcrier.Anthropic: "/v1/models?limit=1",
	nightcrier.OpenAI:    "/v1/models",
	nightcrier.Google:    "/v1beta/models?pageSize=1",
}

// Ask makes the one call that shows whether the key is accepted. Its errors have the
// code Refused when it is not, Exhausted when nothing is left of its quota, and
// Unreachable when there is no answer to tell by. They hold nothing of the answer,
// which may repeat the key.
func Ask(ctx context.Context, c Config) error {
	req, err := listing(ctx, c)
	if err != nil {
		return err
	}
	resp, err := transport(c.Transport).RoundTrip(req)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s does not answer: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	host, status := req.URL.Host, resp.StatusCode
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusBadRequest && c.Provider == nightcrier.Google:
		return nightcrier.Errorf(nightcrier.Refused, "%s does not accept the key (HTTP %d)", host, status)
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return nightcrier.Errorf(nightcrier.Exhausted, "%s knows the key, and refuses more calls for now (HTTP %d): its rate or quota is used up", host, status)
	case status == http.StatusNotFound:
		return nightcrier.Errorf(nightcrier.Unreachable, "%s lists no models (HTTP 404): whether it accepts the key is not known", host)
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "%s answers with HTTP %d: whether it accepts the key is not known", host, status)
}

func listing(ctx context.Context, c Config) (*http.Request, error) {
	api, upstream, err := c.api()
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(lists[c.provider()], "?")
	to := join(upstream, path)
	all := to.Query() // what the base URL has
	own, _ := url.ParseQuery(query)
	maps.Copy(all, own)
	to.RawQuery = all.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model base URL: %w", err)
	}
	if c.Key != "" {
		api.authorize(req.Header, c.Key)
	}
	if c.provider() == nightcrier.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	return req, nil
}
