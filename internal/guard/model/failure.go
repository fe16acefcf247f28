package model

import (
	"net/http"
	"time"

	"nightcrier.dev/nightcrier/internal/retry"
)

// Failure is an answer of the upstream that is an error, or that no answer came. CLIs
// differ in what they tell of one, and some wait for as long as the upstream asks them
// to, without a word.
type Failure struct {
	Status int
	// RetryAfter is how long the upstream asks its caller to wait; 0 is that it does
	// not say.
	RetryAfter time.Duration
	// Unreachable is why there was no answer, nil where there was one; Status is then
	// what the agent gets.
	Unreachable error
}

// readFailure reads an answer that is an error.
func readFailure(resp *http.Response, now time.Time) Failure {
	return Failure{Status: resp.StatusCode, RetryAfter: retry.ReadAfter(resp.Header, now, maxRetryAfter)}
}

// maxRetryAfter bounds what an upstream may ask for.
const maxRetryAfter = 365 * 24 * time.Hour
