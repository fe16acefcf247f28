package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/danielgtaylor/huma/v2"
)

// problemType is the media type of RFC 9457.
const problemType = "application/problem+json"

// maxDetail is how much an answer says of what is wrong with a request, in characters.
const maxDetail = 2000

// statusOf is the one place where codes become HTTP statuses.
var statusOf = map[nightcrier.Code]int{
	nightcrier.Internal:    http.StatusInternalServerError,
	nightcrier.Invalid:     http.StatusBadRequest,
	nightcrier.NotFound:    http.StatusNotFound,
	nightcrier.Conflict:    http.StatusConflict,
	nightcrier.Refused:     http.StatusForbidden,
	nightcrier.Unreachable: http.StatusServiceUnavailable,
	nightcrier.Exhausted:   http.StatusInsufficientStorage,
	nightcrier.NoReport:    http.StatusNotFound,
	nightcrier.Interrupted: http.StatusServiceUnavailable,
}

// Problem is the body of every answer that is not a success (RFC 9457). Its
// code is what programs decide by.
type Problem struct {
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Code   nightcrier.Code `json:"code" enum:"internal,invalid,not_found,conflict,refused,unreachable,exhausted,no_report,interrupted"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

func newProblem(code nightcrier.Code, detail string) *Problem {
	status := statusOf[code]
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

// newUnprocessable is an answer to what can be read, and is not to be done.
func newUnprocessable(detail string) *Problem {
	p := newProblem(nightcrier.Invalid, detail)
	p.Status, p.Title = http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
	return p
}

// problemFor turns err into an answer. The text of an internal error goes to the
// log only: nobody outside can act on it, and it may tell too much.
func (a *API) problemFor(ctx context.Context, err error) error {
	code := nightcrier.CodeOf(err)
	switch {
	case errors.Is(err, context.Canceled):
		return newProblem(nightcrier.Interrupted, "the request was given up")
	case code == nightcrier.Internal:
		a.log.LogAttrs(ctx, slog.LevelError, "request failed", slog.Any("error", err))
		return newProblem(code, "internal error; the server's log has the details")
	}
	return newProblem(code, a.opt.Mask(err.Error()))
}

// asProblem gives the framework's own errors (unknown path parameters, bad
// query values) the form of all others. They name what is wrong: the value itself may be a
// secret, or all of the body.
func (a *API) asProblem(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code := nightcrier.Invalid
	if m.Status >= http.StatusInternalServerError {
		code = nightcrier.Internal
	}
	p := &Problem{Title: m.Title, Status: m.Status, Detail: m.Detail, Code: code}
	for _, e := range m.Errors {
		p.Detail += "; " + e.Message
		if e.Location != "" {
			p.Detail += " (" + e.Location + ")"
		}
	}
	if m.Status == http.StatusRequestEntityTooLarge {
		p.Detail += "; send less, or where it is"
	}
	p.Detail = text.CutRunes(a.opt.Mask(p.Detail), maxDetail)
	return p, nil
}

// writeProblem answers outside of the framework.
func writeProblem(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone cannot be told
}
