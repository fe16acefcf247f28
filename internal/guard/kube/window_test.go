package kube_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

const keyWords = "MIIEowIBAAKCAQEAq1w2e3r4t5y6u7i8o9p0Zx7CvBnM1q2w3e4r5t6y7u8i9o0p\n"

// spread are logs, each with a secret that no line of it tells by itself, and words that
// are part of it.
var spread = map[string]struct {
	log   string
	words []string
}{
	"a manifest":           {"up\napiVersion: v1\nkind: Secret\nmetadata:\n  name: db\nstringData:\n  any: orange-horse\n  more: brown-cow\ndone\n", []string{"orange", "brown"}},
	"its kind at the end":  {"up\napiVersion: v1\ndata:\n  any: b3JhbmdlLWhvcnNl\n  more: YnJvd24tY293\nkind: Secret\nmetadata:\n  name: db\ndone\n", []string{"b3Jh", "YnJv"}},
	"JSON over many lines": {"up\n{\n  \"apiVersion\": \"v1\",\n  \"data\": {\n    \"any\": \"b3JhbmdlLWhvcnNl\",\n    \"more\": \"YnJvd24tY293\"\n  },\n  \"kind\": \"Secret\"\n}\ndone\n", []string{"b3Jh", "YnJv"}},
	"a block of lines":     {"apiVersion: v1\nkind: Secret\nstringData:\n  file: |\n    orange first\n    brown second\ntype: Opaque\ndone\n", []string{"orange", "brown"}},
	"a name and a value":   {"env:\n- name: DB_PASSWORD\n  value: orange-horse\n- name: MODE\n  value: plain\n", []string{"orange"}},
	"the same in JSON":     {"{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"orange-horse\"\n}\ndone\n", []string{"orange"}},
	"a key":                {"up\n-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(keyWords, 4) + "-----END RSA PRIVATE KEY-----\ndown\n", []string{"MIIE"}},
	"a key without an end": {"up\n-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(keyWords, 3) + "panic: no more\nat main\n", []string{"MIIE"}},
	"a token":              {"begin\nclone with " + cutToken + " now\nend\n", []string{cutToken[:6]}},
}

// windows are ways to ask for a part of a log of so many lines and bytes.
func windows(lines, bytes int) (all []string) {
	for n := range lines + 2 {
		all = append(all, fmt.Sprintf("tailLines=%d", n), fmt.Sprintf("sinceSeconds=%d", 60*n+1), fmt.Sprintf("tailLines=%d&sinceSeconds=%d", n, 120))
		all = append(all, "sinceTime="+url.QueryEscape(time.Now().Add(-time.Duration(n)*time.Minute).UTC().Format(time.RFC3339)))
	}
	for n := 1; n < bytes+40; n += 7 {
		all = append(all, fmt.Sprintf("limitBytes=%d", n), fmt.Sprintf("limitBytes=%d&tailLines=2", n))
	}
	return append(all, "", "sinceSeconds=9999999", "tailLines=99999999999999999")
}

// TestNoWindowShowsASecret: whatever part of a log is asked for, and however.
func TestNoWindowShowsASecret(t *testing.T) {
	for name, c := range spread {
		log := kubetest.EndedLog(c.log)
		g := serve(t, scripted(t, log.ServeHTTP), func(c *guardkube.Config) { c.Limits.PerSecond = 1 << 20 })
		for _, window := range windows(strings.Count(c.log, "\n"), len(c.log)) {
			for _, more := range []string{"", "&timestamps=true", "&follow=true", "&follow=true&timestamps=true", "&previous=true"} {
				got := g.text(t, podURL+"/log?"+strings.TrimPrefix(window+more, "&"))
				for _, word := range c.words {
					if strings.Contains(got, word) {
						t.Errorf("%s, %s%s: %s", name, window, more, got)
					}
				}
			}
		}
	}
}

// TestWindowsAreThoseOfTheCluster: of a log without secrets each part is what the cluster
// gives, to the byte.
func TestWindowsAreThoseOfTheCluster(t *testing.T) {
	for _, text := range []string{
		"one\ntwo\n\nfour, which is longer\nfive\n", "a line without an end", "\n\n", "",
		"2026-01-02T03:04:05.123456789Z its own moment\n2026-01-02T03:04:05Z another\n", "tabs\tand\r\nthe like\r\n",
	} {
		log := kubetest.EndedLog(text)
		up := scripted(t, log.ServeHTTP)
		g := serve(t, up, func(c *guardkube.Config) { c.Limits.PerSecond = 1 << 20 })
		for _, window := range windows(strings.Count(text, "\n"), len(text)) {
			for _, more := range []string{"", "&timestamps=true", "&follow=true", "&follow=true&timestamps=true"} {
				query := strings.TrimPrefix(window+more, "&")
				direct := httptest.NewRecorder()
				log.ServeHTTP(direct, httptest.NewRequest(http.MethodGet, "/log?"+query, nil))
				if got := g.text(t, podURL+"/log?"+query); got != direct.Body.String() {
					t.Errorf("%q, %s: %q, and the cluster gives %q", text, query, got, direct.Body)
				}
			}
		}
	}
}

// TestAFollowerRemembers: a log that is followed tells no secret either, in whatever bits it
// comes, and in the end all of its lines have come.
func TestAFollowerRemembers(t *testing.T) {
	for name, c := range spread {
		lines := strings.SplitAfter(strings.TrimSuffix(c.log, "\n"), "\n")
		for had := range lines {
			for _, query := range []string{"", "&tailLines=0", "&tailLines=1", "&sinceSeconds=1"} {
				log := kubetest.NewLog(strings.Join(lines[:had], ""))
				g := serve(t, scripted(t, log.ServeHTTP), nil)
				resp := g.ask(t, podURL+"/log?follow=true"+query)
				for _, line := range lines[had:] {
					_, _ = io.WriteString(log, line)
				}
				log.End()
				got := text(t, resp)
				for _, word := range c.words {
					if strings.Contains(got, word) {
						t.Errorf("%s, with %d lines before%s: %s", name, had, query, got)
					}
				}
				if want := len(lines) - had; strings.Count(got+"\n", "\n") < want || query == "" && strings.Count(got+"\n", "\n") < len(lines) {
					t.Errorf("%s, with %d lines before%s, of %d lines: %s", name, had, query, len(lines), got)
				}
			}
		}
	}
}

// TestAFollowerOfALongLog: how much there was before decides nothing.
func TestAFollowerOfALongLog(t *testing.T) {
	c := spread["its kind at the end"]
	head, rest, _ := strings.Cut(c.log, "kind: Secret")
	log := kubetest.NewLog(strings.Repeat("GET /items?id=7 200\n", 10000) + head)
	g := serve(t, scripted(t, log.ServeHTTP), nil)
	resp := g.ask(t, podURL+"/log?follow=true")
	_, _ = io.WriteString(log, "kind: Secret"+rest)
	log.End()
	if got := text(t, resp); strings.Contains(got, c.words[0]) || !strings.HasSuffix(got, "done\n") || strings.Count(got, "\n") != 10000+strings.Count(c.log, "\n") {
		t.Errorf("%s", got[max(0, len(got)-300):])
	}
}

// TestAFollowerWaits: what may become a secret by the next line is told when that has come.
func TestAFollowerWaits(t *testing.T) {
	log := kubetest.NewLog("up\n")
	g := serve(t, scripted(t, log.ServeHTTP), nil)
	resp := g.ask(t, podURL+"/log?follow=true")
	in := bufio.NewReader(resp.Body)
	expect := func(want string) {
		t.Helper()
		got, err := in.ReadString('\n')
		if err != nil || !strings.HasPrefix(got, want) {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	expect("up")
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(log, line)
		expect(strings.TrimSpace(line))
	}
	_, _ = io.WriteString(log, "apiVersion: v1\n")
	expect("apiVersion")
	_, _ = io.WriteString(log, "data:\n")
	_, _ = io.WriteString(log, "  any: b3JhbmdlLWhvcnNl\n")
	_, _ = io.WriteString(log, "kind: Secret\n")
	for _, want := range []string{"data:", "  any: ‹secret:", "kind: Secret"} {
		expect(want)
	}
	_, _ = io.WriteString(log, "stringData:\n")
	expect("stringData:")
	_, _ = io.WriteString(log, "  more: orange\n")
	expect("  more: ‹secret:")
	log.End()
}

// TestALogThatGrowsMeanwhile: what comes between two reads of the guard moves no window over
// what stands before it.
func TestALogThatGrowsMeanwhile(t *testing.T) {
	secret := "env:\n- name: DB_PASSWORD\n  value: orange-horse\n"
	for _, growth := range []int{0, 1, 100, 499, 501, 2000} {
		for _, query := range []string{"sinceSeconds=31", "sinceSeconds=31&timestamps=true", "sinceSeconds=31&follow=true", "tailLines=1", "tailLines=1&follow=true", "tailLines=0&follow=true", "sinceSeconds=5&follow=true"} {
			log := kubetest.NewLog(secret)
			var mu sync.Mutex
			reads := 0
			g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				if reads++; reads > 1 {
					_, _ = io.WriteString(log, strings.Repeat("busy\n", growth))
				}
				if r.URL.Query().Get("follow") == "true" {
					log.End()
				}
				mu.Unlock()
				log.ServeHTTP(w, r)
			}), nil)
			if got := g.text(t, podURL+"/log?"+query); strings.Contains(got, "orange") {
				t.Errorf("%s, %d lines more: %.300s", query, growth, got)
			}
		}
	}
}

// TestMarginsThatAreTooLarge: a margin that cannot be read is made of what was asked for.
func TestMarginsThatAreTooLarge(t *testing.T) {
	wide := strings.Repeat("x", 300<<10) + "\n"
	log := strings.Repeat(wide, 30) + "- name: DB_PASSWORD\n  value: orange-horse\nend\n"
	g := serve(t, scripted(t, kubetest.EndedLog(log).ServeHTTP), nil)
	for _, query := range []string{"tailLines=2", "sinceSeconds=100"} {
		if got := g.text(t, podURL+"/log?"+query); strings.Contains(got, "orange") || !strings.HasSuffix(got, "end\n") {
			t.Errorf("%s: %.300s", query, got)
		}
	}
	huge := strings.Repeat(strings.Repeat("y", 99)+"\n", 60000) + "- name: DB_PASSWORD\n  value: orange-horse\n" + strings.Repeat(strings.Repeat("z", 99)+"\n", 60000)
	g = serve(t, scripted(t, kubetest.EndedLog(huge).ServeHTTP), nil)
	resp := g.ask(t, podURL+"/log?tailLines=60001")
	warned := strings.Join(resp.Header["Warning"], "\n")
	got := text(t, resp)
	if strings.Contains(got, "orange") || len(got) < 3<<20 || strings.Contains(got, "y") || !strings.Contains(warned, "are not shown") || !strings.Contains(warned, "goes on") {
		t.Errorf("%d bytes, %s: %.300s", len(got), warned, got)
	}
}

// TestUnfinishedLine: a runtime writes a long line in pieces; half of one may hold half a
// secret.
func TestUnfinishedLine(t *testing.T) {
	log := "up\n" + strings.Repeat("x ", 9<<9) + "clone with " + cutToken[:20]
	g := serve(t, scripted(t, kubetest.EndedLog(log).ServeHTTP), nil)
	for _, query := range []string{"timestamps=false", "tailLines=1", "follow=true", "sinceSeconds=99"} {
		resp := g.ask(t, podURL+"/log?"+query)
		if got := g.text(t, podURL+"/log?"+query); strings.Contains(got, cutToken[:6]) {
			t.Errorf("%s: %.100s", query, got)
		}
		if warned := strings.Join(resp.Header["Warning"], "\n"); !strings.Contains(warned, "still being written") {
			t.Errorf("%s: %s", query, warned)
		}
	}
}

// TestRecordedLogs: what was kept of another guard's answers is asked for as it was then.
func TestRecordedLogs(t *testing.T) {
	var asked []string
	up := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "2026-01-02T03:04:05.123456789Z one\n"+keyWords)
	})
	up.Recorded = true
	g := serve(t, up, nil)
	for _, query := range []string{"follow=true&limitBytes=4194304&sinceSeconds=9&tailLines=3&timestamps=true", "limitBytes=4194304&tailLines=1"} {
		asked = nil
		if got := g.text(t, podURL+"/log?"+query); got != "2026-01-02T03:04:05.123456789Z one\n"+keyWords {
			t.Errorf("%s: %q", query, got)
		}
		if len(asked) != 1 || asked[0] != query {
			t.Errorf("%s: %q", query, asked)
		}
	}
}

func BenchmarkLogs(b *testing.B) {
	var log bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&log, "INFO shop/cart-7d4b9c6f5d-x2x7q request=GET /items/%d status=200 user=anna took=12ms\n", i)
	}
	g := serve(b, scripted(b, kubetest.EndedLog(log.String()).ServeHTTP), func(c *guardkube.Config) { c.Limits.PerSecond, c.Evidence = 1<<20, nil })
	for _, query := range []string{"tailLines=100", "tailLines=2000", "sinceSeconds=6000", "tailLines=100&timestamps=true", ""} {
		b.Run(query, func(b *testing.B) {
			for b.Loop() {
				g.text(b, podURL+"/log?"+query)
			}
		})
	}
}
