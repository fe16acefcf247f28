package api

import (
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	"nightcrier.dev/nightcrier"
)

// wrapForSocket wraps h for the Unix socket: its file's mode says who may ask.
func wrapForSocket(h http.Handler, log *slog.Logger) http.Handler { return recoverPanics(h, log) }

// wrapForLoopback wraps h for a loopback address, where every web page that the user
// visits can send requests to: the name asked for must be a loopback one
// (against DNS rebinding), and nothing is changed on behalf of another origin.
func wrapForLoopback(h http.Handler, log *slog.Logger) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, newProblem(nightcrier.Refused, "cross-origin requests may not change anything"))
	}))
	return recoverPanics(checkHost(origin.Handler(h)), log)
}

// wrapForHealth wraps h for the address of health and metrics. One that only this machine
// reaches answers to no name that a web page made up for it.
func wrapForHealth(h http.Handler, addr string, log *slog.Logger) http.Handler {
	if isLoopback(stripPort(addr)) {
		h = checkHost(h)
	}
	return recoverPanics(h, log)
}

func checkHost(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(stripPort(r.Host)) {
			writeProblem(w, newProblem(nightcrier.Refused, "the Host header does not name this machine's loopback address"))
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// stripPort strips the port of a Host header, and the brackets of IPv6.
func stripPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// recoverPanics answers a panic with an internal error and logs its stack.
func recoverPanics(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			switch {
			case p == nil:
			case p == http.ErrAbortHandler:
				panic(p)
			case r.Context().Err() != nil: // the framework panics when a client goes away
			default:
				log.Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				writeProblem(w, newProblem(nightcrier.Internal, "internal error; the server's log has the details"))
			}
		}()
		h.ServeHTTP(w, r)
	})
}
