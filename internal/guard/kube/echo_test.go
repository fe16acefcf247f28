package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
)

// An error that repeats a question does not tell whether a guess in it is right: names
// come back as they are, other words are replaced, and what is not the caller's is masked.
func TestErrorsConfirmNoGuess(t *testing.T) {
	const secret = "hunter2-q9x7"
	for name, c := range map[string]struct{ target, message, want string }{
		"an object":     {"/api/v1/namespaces/shop/pods/%s", `pods "%s" not found`, `pods "%s" not found`},
		"with a colon":  {"/api/v1/namespaces/shop/pods/password:%s", `pods "password:%s" not found`, `pods "password:%s" not found`},
		"a namespace":   {"/api/v1/namespaces/%s/pods", `namespaces "%s" is forbidden`, `namespaces "%s" is forbidden`},
		"a resource":    {"/apis/acme.io/v1/%s", `%s.acme.io is forbidden: cannot list resource "%s"`, `%s.acme.io is forbidden: cannot list resource "%s"`},
		"a container":   {"/api/v1/namespaces/shop/pods/cart-1/log?container=%s", `container %s is not valid for pod cart-1`, `container %s is not valid for pod cart-1`},
		"labels":        {"/api/v1/namespaces/shop/pods?labelSelector=app%%3D%s", `unable to parse requirement: invalid label value: "app": Invalid value: "%s"`, `unable to parse requirement: invalid label value: "app": Invalid value: "` + mask.Echo + `"`},
		"fields":        {"/api/v1/namespaces/shop/pods?fieldSelector=spec.nodeName%%3D%s", `field label not supported: spec.nodeName=%s, password=correct-horse-7`, `field label not supported: ` + mask.Echo + `, password=‹secret:`},
		"a token":       {"/api/v1/namespaces/shop/pods?continue=%s", `continue key is not valid: {"v":"%s"}`, `continue key is not valid: {\"v\":\"` + mask.Echo + `\"}`},
		"not its words": {"/api/v1/namespaces/shop/pods/cart-1", `pods "cart-1" not found, password=` + secret, `pods \"cart-1\" not found, password=‹secret:`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []string{"application/json", "text/plain"} {
				said := map[string]string{}
				for _, guess := range []string{secret, "hunter2-q9x8", "cart-7d4b9f"} {
					fill := func(s string) string {
						s = strings.ReplaceAll(s, "%%", "%")
						return strings.ReplaceAll(s, "%s", guess)
					}
					message := fill(c.message)
					g := serve(t, scripted(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", form)
						w.WriteHeader(http.StatusNotFound)
						if form == "text/plain" {
							fmt.Fprint(w, message)
							return
						}
						_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": 404, "details": map[string]any{"causes": []any{map[string]any{"message": message}}}})
					}), func(cfg *guardkube.Config) { cfg.Mask = mask.New([]byte("key"), secret).Bytes })
					got := text(t, g.ask(t, fill(c.target)))
					if want := fill(c.want); !strings.Contains(got, want) && !strings.Contains(got, strings.Trim(mustJSON(t, want), `"`)) {
						t.Errorf("asked for %s it says %s, want %s", fill(c.target), got, want)
					}
					said[guess] = strings.ReplaceAll(got, guess, "GUESS")
					if g.outcome(t).Status != http.StatusNotFound {
						t.Errorf("outcome %+v", g.outcome(t))
					}
				}
				if said[secret] != said["hunter2-q9x8"] && name != "not its words" {
					t.Errorf("a right guess is answered by %s, a wrong one by %s", said[secret], said["hunter2-q9x8"])
				}
			}
		})
	}
}

func mustJSON(t *testing.T, s string) string {
	t.Helper()
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A watch that ends with an error does not repeat what it was asked either.
func TestWatchErrorsConfirmNoGuess(t *testing.T) {
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version: %s (1)","code":410}}`+"\n", r.FormValue("resourceVersion"))
	}), func(cfg *guardkube.Config) { cfg.Mask = mask.New([]byte("key"), "73219046").Bytes })
	for _, guess := range []string{"73219046", "73219047"} {
		got := text(t, g.ask(t, podsURL+"?watch=true&resourceVersion="+url.QueryEscape(guess)))
		if !strings.Contains(got, "too old resource version: "+mask.Echo) {
			t.Errorf("asked for %s it says %s", guess, got)
		}
	}
}
