package bench

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/github"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// BenchmarkGitHubDelivery is a signed event of GitHub until it is stored and answered; p99-ms is
// what one of a hundred takes at least.
func BenchmarkGitHubDelivery(b *testing.B) {
	s, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "x.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	const secret = "a-secret-of-the-benchmark"
	hook := github.New(github.Config{Secret: secret, Mention: "nightcrier", Logger: slog.New(slog.DiscardHandler), Start: func(ctx context.Context, e github.Event) (github.Started, error) {
		q, err := s.EnqueueRun(ctx, store.NewRun{ID: nightcrier.DerivedID("github", e.Digest), Pipeline: "look", Subject: nightcrier.Subject{Kind: nightcrier.SubjectPullRequest, ID: "shop/cart#7"},
			Key: "shop/cart#7", Policy: store.CancelPrevious})
		return github.Started{Runs: []string{q.Run.ID}}, err
	}})
	const pull = `{"action":"synchronize","repository":{"full_name":"shop/cart"},"sender":{"login":"alice","type":"User"},"pull_request":{"number":7,"state":"open","title":"%d","body":"%s","head":{"ref":"x","sha":"%040d"},"base":{"ref":"main","sha":""}}}`
	text := strings.Repeat("words of a pull request ", 1000)
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		body := fmt.Appendf(nil, pull, i, text, i)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		r := httptest.NewRequest(http.MethodPost, github.Path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", "pull_request")
		r.Header.Set("X-GitHub-Delivery", "d")
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		w := httptest.NewRecorder()
		begin := time.Now()
		hook.ServeHTTP(w, r)
		times = append(times, time.Since(begin))
		if w.Code != http.StatusAccepted {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
