package api

import (
	"fmt"
	"net/http"

	"nightcrier.dev/nightcrier"
)

// answerUnrouted serves mux, and answers with a problem where it has no route for the path, or
// none for the method: the mux itself answers those with plain text.
func answerUnrouted(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern == "" {
			h.ServeHTTP(&unrouted{ResponseWriter: w, request: r}, r)
			return
		}
		mux.ServeHTTP(w, r) // which also reads the parameters in the path
	})
}

// unrouted writes a problem in the place of the mux's own refusal.
type unrouted struct {
	http.ResponseWriter
	request *http.Request
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (u *unrouted) WriteHeader(status int) {
	p := newProblem(nightcrier.NotFound, "there is nothing at this path; /api/v1/openapi.json describes what there is")
	switch status {
	case http.StatusNotFound:
	case http.StatusMethodNotAllowed:
		p = &Problem{Title: http.StatusText(status), Status: status, Code: nightcrier.Invalid,
			Detail: fmt.Sprintf("%.20q is not taken at this path, which takes %s", u.request.Method, u.Header().Get("Allow"))}
	default:
		u.ResponseWriter.WriteHeader(status)
		return
	}
	u.refused = true
	writeProblem(u.ResponseWriter, p)
}

// Write implements http.ResponseWriter.
func (u *unrouted) Write(b []byte) (int, error) {
	if u.refused {
		return len(b), nil
	}
	return u.ResponseWriter.Write(b)
}
