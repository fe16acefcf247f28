package model

import (
	"net/http"
	"strconv"
	"time"
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

// failure reads an answer that is an error.
func failure(resp *http.Response, now time.Time) Failure {
	return Failure{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now)}
}

// retryAfter reads the header's two forms, seconds and a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, seconds), 1<<30)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
