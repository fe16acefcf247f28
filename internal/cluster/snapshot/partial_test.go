package snapshot

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What somebody happened to read is served where it tells, and nothing else is: that
// nobody read a thing does not mean that it was not there.
func TestPartsTellWhatWasReadAlone(t *testing.T) {
	pod := func(name, labels string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"shop","labels":{` + labels + `}},"spec":{"containers":[{"name":"app"}]},"status":{}}`
	}
	list := func(kind, items string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"` + kind + `List","metadata":{},"items":[` + items + `]}`)
	}
	api := Of(Parts{
		Info: Info{CapturedAt: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)},
		Objects: [][]byte{
			list("Pod", pod("cart-1", `"app":"cart","tier":"web"`)), list("Service", ""),
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cart","namespace":"shop"}}`), []byte(`{`), []byte(`{"kind":"Pod"}`),
		},
		Lists: []Listed{{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Labels: "app=cart"}, {APIVersion: "v1", Kind: "Service", Namespace: "shop"},
			{APIVersion: "v1", Kind: "NoSuchKind"}, {APIVersion: "a/b/c", Kind: "Pod"}},
		Logs: []Log{{"shop", "cart-1", "app", true, []byte("one\ntwo\n")}},
	}).Transport()
	for target, want := range map[string]struct {
		status int
		says   string
	}{
		"/api/v1/namespaces/shop/pods?labelSelector=app%3Dcart":                        {200, "cart-1"},
		"/api/v1/namespaces/shop/pods?labelSelector=tier%3Dweb,app%3Dcart":             {200, "cart-1"}, // less of it
		"/api/v1/namespaces/shop/pods?labelSelector=app%3Dcart&fieldSelector=x%3Dy":    {200, `"items":[]`},
		"/api/v1/namespaces/shop/pods":                                                 {403, "nobody listed"},
		"/api/v1/namespaces/shop/pods?labelSelector=app":                               {403, "nobody listed"},
		"/api/v1/pods?labelSelector=app%3Dcart":                                        {403, "nobody listed"},
		"/api/v1/namespaces/shop/pods/cart-1":                                          {200, "cart-1"},
		"/api/v1/namespaces/shop/pods/cart-2":                                          {403, "nobody listed"},
		"/api/v1/namespaces/shop/pods/cart-1/log?container=app&previous=1&tailLines=1": {200, "two"},
		"/api/v1/namespaces/shop/pods/cart-1/log?container=app":                        {400, "waiting"},
		"/api/v1/namespaces/shop/services":                                             {200, `"items":[]`},
		"/api/v1/namespaces/shop/services/cart":                                        {404, "not found"}, // a list would have it
		"/api/v1/namespaces/bank/services":                                             {403, "nobody listed"},
		"/api/v1/namespaces/shop/configmaps/cart":                                      {200, "cart"},
		"/api/v1/namespaces/shop/configmaps/other":                                     {403, "nobody listed"},
		"/api/v1/namespaces/shop/configmaps":                                           {403, "nobody listed"},
		"/api/v1/nodes":                                                                {403, "nobody listed"},
		"/api/v1":                                                                      {200, "configmaps"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://snapshot"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := api.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want.status || !strings.Contains(string(body), want.says) {
			t.Errorf("%s: %d, %s, %v; want %d, %q", target, resp.StatusCode, body, err, want.status, want.says)
		}
	}
}
