package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// denial is a request that the guard does not pass on. The rule is a word for
// machines; the text says what to do instead.
type denial struct {
	status     int
	rule, text string
}

func (d *denial) Error() string { return d.rule + ": " + d.text }

// newDenialf makes a denial by policy.
func newDenialf(rule, format string, args ...any) error {
	return &denial{http.StatusForbidden, rule, fmt.Sprintf(format, args...)}
}

// newFailuref makes an error of a request that policy lets pass and that cannot be answered.
func newFailuref(status int, rule, format string, args ...any) error {
	return &denial{status, rule, fmt.Sprintf(format, args...)}
}

// reasons are the API's words for the statuses that the guard answers with.
var reasons = map[int]string{
	http.StatusBadRequest:            "BadRequest",
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusForbidden:             "Forbidden",
	http.StatusNotFound:              "NotFound",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusNotAcceptable:         "NotAcceptable",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusUnsupportedMediaType:  "UnsupportedMediaType",
	http.StatusTooManyRequests:       "TooManyRequests",
	http.StatusServiceUnavailable:    "ServiceUnavailable",
	http.StatusGatewayTimeout:        "Timeout",
}

// statusAnswer is a Kubernetes Status, which kubectl shows as an error.
func statusAnswer(code int, message string) answer {
	body, err := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": "Failure", "message": message, "reason": reasons[code], "code": code,
	})
	if err != nil {
		body = []byte("{}") // strings and numbers always marshal
	}
	return answer{status: code, contentType: mediaJSON, body: body}
}

// refusalAnswer is the answer to what the guard did not pass on, or could not answer.
func refusalAnswer(err error) answer {
	var d *denial
	if !errors.As(err, &d) {
		d = &denial{http.StatusServiceUnavailable, "internal", "the request could not be answered"}
	}
	return statusAnswer(d.status, "nightcrier guard ("+d.rule+"): "+d.text)
}
