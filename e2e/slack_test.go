package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// slackHook is a Slack that counts.
type slackHook struct {
	*httptest.Server
	mu    sync.Mutex
	posts []string
	// onPost, if not nil, runs before a post is answered.
	onPost func()
	// refusing answers 503; accepted counts the other answers.
	refusing bool
	accepted int
}

func newSlackHook(tb testing.TB) *slackHook {
	h := &slackHook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, quiet := range []string{`"mrkdwn":false`, `"parse":"none"`, `"link_names":false`, `"unfurl_links":false`, `"unfurl_media":false`} {
			if !strings.Contains(string(body), quiet) {
				tb.Errorf("a message to Slack is without %s: %.300s", quiet, body)
			}
		}
		h.mu.Lock()
		h.posts = append(h.posts, string(body))
		then, refusing := h.onPost, h.refusing
		if !refusing {
			h.accepted++
		}
		h.mu.Unlock()
		if then != nil {
			then()
		}
		if refusing {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "ok")
	}))
	h.Server.URL += "/hook"
	tb.Cleanup(h.Close)
	return h
}

// got returns the posts so far.
func (h *slackHook) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.posts)
}

// refuse sets whether posts are refused from now on.
func (h *slackHook) refuse(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusing = on
}

// taken counts the posts that were not refused.
func (h *slackHook) taken() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.accepted
}

// whenPosted sets what happens before the next posts are answered.
func (h *slackHook) whenPosted(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onPost = fn
}
