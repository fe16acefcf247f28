package model

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestCheckKey(t *testing.T) {
	const key = "sk-the-key"
	for provider, api := range dialects {
		list := api.factsAt("").listing
		version, _, _ := strings.Cut(strings.TrimPrefix(list, "/"), "/") // of the API, with which a base URL may end
		for status, want := range map[int]nightcrier.Code{200: "", 401: nightcrier.Refused, 403: nightcrier.Refused, 402: nightcrier.Exhausted, 429: nightcrier.Exhausted,
			404: nightcrier.Unreachable, 500: nightcrier.Unreachable, 302: nightcrier.Unreachable} {
			for _, suffix := range []string{"", "/", "/" + version, "/" + version + "/"} {
				var got *http.Request
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got = r
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(status)
					w.Write([]byte(`{"error": "Incorrect API key provided: ` + key + `"}`))
				}))
				err := CheckKey(t.Context(), Config{Provider: provider, Upstream: srv.URL + "/proxy" + suffix, Key: key})
				srv.Close()
				if (err == nil) != (want == "") || err != nil && (nightcrier.CodeOf(err) != want || strings.Contains(err.Error(), key)) {
					t.Errorf("%s, HTTP %d: %v", provider, status, err)
				}
				if path, _, _ := strings.Cut(list, "?"); got == nil || got.Method != http.MethodGet || got.URL.Path != "/proxy"+path || strings.Contains(got.URL.RawQuery, key) {
					t.Errorf("%s%s: asked %+v", provider, suffix, got)
				}
				h := got.Header
				if held := h.Get("X-Api-Key") + strings.TrimPrefix(h.Get("Authorization"), "Bearer ") + h.Get("X-Goog-Api-Key"); held != key {
					t.Errorf("%s: the key came as %q", provider, held)
				}
			}
		}
	}
}

func TestCheckKeyAtNobody(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	if err := CheckKey(t.Context(), Config{Upstream: srv.URL, Key: "sk-the-key"}); nightcrier.CodeOf(err) != nightcrier.Unreachable || strings.Contains(err.Error(), "sk-the-key") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := CheckKey(ctx, Config{Key: "k"}); nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Errorf("%v", err)
	}
	if err := CheckKey(t.Context(), Config{Upstream: "ftp://x", Key: "k"}); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("%v", err)
	}
	if err := CheckKey(t.Context(), Config{Provider: "acme", Key: "k"}); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("%v", err)
	}
}
