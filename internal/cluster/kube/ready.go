package kube

import (
	"context"
	"io"
	"net/http"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Ready asks the API server whether it can serve. Its own words say why not. An
// error means that it could not be asked, which may be for a reason of ours.
func (c *Client) Ready(ctx context.Context) (ready bool, why string, err error) {
	const what = "ask whether the API is ready"
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.newRequest(ctx, request{path: "/readyz", accept: acceptText})
	if err != nil {
		return false, "", nightcrier.Errorf(nightcrier.Invalid, "%s: %w", what, withoutURL(err))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, "", c.unreachableError(ctx, what, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<14))
	switch {
	case err != nil:
		return false, "", c.unreachableError(ctx, what, err)
	case resp.StatusCode == http.StatusOK:
		return true, "", nil
	case resp.StatusCode == http.StatusInternalServerError:
		return false, statusMessage(failedChecks(body)), nil
	}
	return false, "", c.refusalError(what, resp.StatusCode, body)
}

// failedChecks keeps the lines of a readiness answer that say what is wrong, all
// when none does.
func failedChecks(body []byte) []byte {
	var failed []string
	for line := range strings.Lines(string(body)) {
		if name, ok := strings.CutPrefix(line, "[-]"); ok {
			failed = append(failed, strings.TrimSpace(name))
		}
	}
	if len(failed) == 0 {
		return body
	}
	return []byte(strings.Join(failed, "; "))
}
