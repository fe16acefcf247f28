package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// unreachableError wraps a failure to get any answer.
func (c *Client) unreachableError(ctx context.Context, what string, err error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("%s: %w", what, context.Canceled)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nightcrier.Errorf(nightcrier.Unreachable, "cluster at %s did not answer within %s: %s", c.base.Host, c.timeout, what)
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "cluster at %s cannot be reached: %s: %w", c.base.Host, what, withoutURL(err))
}

// withoutURL takes the URL, which may hold a user's name and password, off err.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// refusalError turns an answer that is no success into an error with a code.
func (c *Client) refusalError(what string, status int, body []byte) error {
	text := statusMessage(body)
	switch status {
	case http.StatusNotFound, http.StatusGone:
		if status == http.StatusNotFound && !namesMissing(body) {
			return nightcrier.Errorf(nightcrier.NotFound, "%s: %w: %s answered 404: %s", what, errNotServed, c.base.Host, text)
		}
		return nightcrier.Errorf(nightcrier.NotFound, "%s: not found on %s: %s", what, c.base.Host, text)
	case http.StatusForbidden:
		return nightcrier.Errorf(nightcrier.Refused, "%s: the credential for %s may not: %s", what, c.base.Host, text)
	case http.StatusUnauthorized:
		return nightcrier.Errorf(nightcrier.Unreachable, "%s: %s does not accept the credential (401): renew it in the kubeconfig", what, c.base.Host)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return nightcrier.Errorf(nightcrier.Invalid, "%s: %s: %s", what, c.base.Host, text)
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "%s: %s answered %d: %s", what, c.base.Host, status, text)
}

// errNotServed is in the chain of a NotFound that names no object: nothing serves the path,
// as for a kind or a version that the cluster has not, or behind an address that is another's.
var errNotServed = errors.New("the cluster does not serve it")

// namesMissing reports whether a Status names the object that is missing.
func namesMissing(body []byte) bool {
	var s struct {
		Reason  string
		Details struct{ Name string }
	}
	return json.Unmarshal(body, &s) == nil && s.Reason == "NotFound" && s.Details.Name != ""
}

const maxMessage = 300

// statusMessage takes the sentence out of a Status object, or shows the start
// of a body that is none; on one line, bounded, without control characters.
func statusMessage(body []byte) string {
	var s struct {
		Message string `json:"message"`
	}
	said := string(body[:min(len(body), 4*maxMessage)])
	if json.Unmarshal(body, &s) == nil && s.Message != "" {
		said = s.Message
	}
	return text.CutLine(said, maxMessage)
}
