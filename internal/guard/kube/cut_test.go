package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
)

const cutToken = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"

// text is a whole answer.
func (g *guarded) text(tb testing.TB, target string) string {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "https://guard"+target, nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := g.guard.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		tb.Fatalf("%s: %d %s %v", target, resp.StatusCode, body, err)
	}
	return string(body)
}

// logging is a cluster whose one log is cut as a kubelet cuts it.
func logging(log string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := log
		if n, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
			lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
			text = strings.Join(lines[max(0, len(lines)-n):], "") + "\n"
		}
		if n, err := strconv.Atoi(r.URL.Query().Get("limitBytes")); err == nil {
			text = text[:min(n, len(text))]
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, text)
	}
}

// TestACallerCannotCutASecret: who could choose where a log ends, or begins, could
// have a secret cut in two, of which neither half looks like one.
func TestACallerCannotCutASecret(t *testing.T) {
	log := "begin\nclone with " + cutToken + " now\nend\n"
	for _, bound := range []int64{1 << 20, 45, 60} { // the guard's own, too
		g := serve(t, scripted(t, logging(log)), func(c *guardkube.Config) {
			c.Limits.LogBytes, c.Limits.StreamBytes, c.Limits.PerSecond = bound, bound, 10000
		})
		for n := 1; n < len(log)+5; n++ {
			for _, follow := range []string{"", "&follow=true"} {
				got := g.text(t, fmt.Sprintf("%s/log?limitBytes=%d%s", podURL, n, follow))
				if strings.Contains(got, cutToken[:6]) || len(got) > n {
					t.Fatalf("limitBytes=%d%s with a bound of %d: %q", n, follow, bound, got)
				}
			}
		}
		if got := g.text(t, podURL+"/log"); strings.Contains(got, cutToken[:6]) || !strings.HasPrefix(got, "begin\n") {
			t.Errorf("with a bound of %d: %q", bound, got)
		}
	}
	g := serve(t, scripted(t, logging(log)), nil)
	if got := g.text(t, podURL+"/log?limitBytes=9"); got != "begin\nclo" {
		t.Errorf("%q", got)
	}
	if got := g.text(t, podURL+"/log?limitBytes=9&follow=true"); got != "begin\nclo" {
		t.Errorf("%q", got)
	}
}

func TestTheEndOfAKeyIsNoText(t *testing.T) {
	line := strings.Repeat("aB3+xY7/", 8)
	log := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(line+"\n", 5) + "aBcD3fgH==\n-----END RSA PRIVATE KEY-----\nready\n"
	for name, log := range map[string]string{"": log, ", with times": "T " + strings.ReplaceAll(strings.TrimSuffix(log, "\n"), "\n", "\n2026-11-20T10:00:00.123Z ") + "\n"} {
		g := serve(t, scripted(t, logging(log)), nil)
		for tail := 1; tail < 10; tail++ {
			for _, follow := range []string{"", "&follow=true"} {
				got := g.text(t, fmt.Sprintf("%s/log?tailLines=%d%s", podURL, tail, follow))
				if strings.Contains(got, line) || (tail > 3 || tail > 2 && follow == "") && strings.Contains(got, "aBcD3fgH") || !strings.HasSuffix(got, "ready\n") {
					t.Errorf("tailLines=%d%s%s: %q", tail, follow, name, got)
				}
			}
		}
	}
}
