package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What no route takes is answered with a problem like every other refusal, wherever it
// is asked.
func TestWhatNoRouteTakesIsAProblem(t *testing.T) {
	hooks := http.NewServeMux()
	hooks.HandleFunc("POST "+webhooksPath+"{name}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	a := newFake().api(t, func(o *Options) { o.Webhooks = hooks })
	for _, c := range []struct {
		on             http.Handler
		method, target string
		status         int
		allow          string
	}{
		{a, "GET", "/", 404, ""},
		{a, "GET", "/api/v1/nothing", 404, ""},
		{a, "GET", "/api/v2/incidents", 404, ""},
		{a, "DELETE", path("incidents"), 405, "GET"},
		{a, "GET", path("incidents", id1, "cancel"), 405, "POST"},
		{a, "BREW", "/healthz", 405, "GET"},
		{a, "GET", webhooksPath + "pager", 405, "POST"},
		{a, "POST", webhooksPath + "pager/of/somebody", 404, ""},
		{a.Health(), "GET", path("incidents"), 404, ""},
		{a.Health(), "POST", "/readyz", 405, "GET"},
		{wrapForPublic(hooks), "GET", webhooksPath + "pager", 405, "POST"},
		{wrapForPublic(hooks), "POST", path("incidents"), 404, ""},
	} {
		rec := httptest.NewRecorder()
		c.on.ServeHTTP(rec, httptest.NewRequest(c.method, "http://localhost"+c.target, nil))
		p := decode(t, rec)
		if rec.Code != c.status || rec.Header().Get("Content-Type") != problemType || p["status"] != float64(c.status) || p["code"] == "" || p["title"] != http.StatusText(c.status) {
			t.Errorf("%s %s: %d %s %s", c.method, c.target, rec.Code, rec.Header(), rec.Body)
		}
		if got := rec.Header().Get("Allow"); !strings.Contains(got, c.allow) || c.allow != "" && !strings.Contains(p["detail"].(string), c.allow) {
			t.Errorf("%s %s: allowed is %q, %v", c.method, c.target, got, p["detail"])
		}
	}
	for target, status := range map[string]int{webhooksPath + "pager": http.StatusTeapot, "/api//v1/incidents": http.StatusTemporaryRedirect} {
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, httptest.NewRequest("POST", "http://localhost"+target, nil))
		if rec.Code != status {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
}
