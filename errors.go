package nightcrier

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an error is. Exit codes, HTTP statuses and
// retries are decided by the code, never by the text.
type Code string

const (
	// Internal is a failure of ours: a bug or a broken invariant.
	Internal Code = "internal"
	// Invalid is bad input or configuration; the text names the field or file.
	Invalid Code = "invalid"
	// NotFound is a thing that does not exist.
	NotFound Code = "not_found"
	// Conflict is a change that the present state does not allow.
	Conflict Code = "conflict"
	// Refused is a request that policy forbids.
	Refused Code = "refused"
	// Unreachable is a cluster, store or endpoint that does not answer or denies us.
	Unreachable Code = "unreachable"
	// Exhausted is a limit that was reached: disk, queue, size.
	Exhausted Code = "exhausted"
	// NoReport is work that ended without a valid report.
	NoReport Code = "no_report"
	// Interrupted is work that was stopped from outside.
	Interrupted Code = "interrupted"
)

// Error is an error with a Code. Text is for people; Err is its cause.
type Error struct {
	Code Code
	Text string
	Err  error
}

// Error returns the text followed by the cause.
func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Text
	case e.Text == "":
		return e.Err.Error()
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error. A cause given with %w stays inspectable.
func Errorf(code Code, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Err: err}
}

// CodeOf returns the code of the outermost Error in err's chain, Internal when
// there is none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
