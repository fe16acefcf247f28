package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Webhooks read bodies of their own size; all other routes stay bounded, however
// the path is written.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	var read int64
	h := limitBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { read, _ = io.Copy(io.Discard, r.Body) }))
	for path, want := range map[string]int64{webhooksPath + "x": maxBody + 1, "/api/v1/incidents": maxBody, "/api/v1/webhooks": maxBody, "//api/v1/webhooks/x": maxBody} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(strings.Repeat("x", maxBody+1)))
		r.URL.Path = path
		if h.ServeHTTP(httptest.NewRecorder(), r); read != want {
			t.Errorf("%s: %d bytes are read, want %d", path, read, want)
		}
	}
	if got := ask(newFake().api(t), "POST", path("webhooks/alertmanager/prod")); got.Code != http.StatusNotFound {
		t.Errorf("without webhooks: %d %s", got.Code, got.Body)
	}
	if got := ask(newFake().api(t), "POST", path("webhooks/../incidents/x/cancel")); got.Code == http.StatusOK || got.Code == http.StatusAccepted {
		t.Errorf("a path that is not clean: %d", got.Code)
	}
}
