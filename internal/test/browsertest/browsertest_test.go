package browsertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPagesAreLookedAt looks at a page that a part of all people cannot use, and which does
// what its policy forbids.
func TestPagesAreLookedAt(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; require-trusted-types-for 'script'")
		_, _ = w.Write([]byte(`<!doctype html><html lang=en><meta name=viewport content="width=device-width"><title>x</title><main><h1>Page</h1><img src="/x.png"><script>document.title = "ran"</script></main>`))
	}))
	defer s.Close()
	tab := Open(t).Tab(Phone)
	tab.Go(s.URL)
	if found := strings.Join(tab.Axe(), "\n"); !strings.Contains(found, "image-alt") {
		t.Errorf("an image without words is not found: %q", found)
	}
	var title string
	if tab.Eval("document.title", &title); title != "x" {
		t.Errorf("a script ran under a policy that forbids it: %q", title)
	}
	var width int
	if tab.Eval("innerWidth", &width); width != Phone.Width {
		t.Errorf("a phone is %d pixels wide", width)
	}
}
