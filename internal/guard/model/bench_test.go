package model

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/mask"
)

// BenchmarkCall is a call of 200 KB that is answered with a stream of 8 MB: straight, and
// through a guard that masks, reserves, settles and records. It tells the bytes that pass
// in a second and the time to the first of them.
func BenchmarkCall(b *testing.B) {
	event := "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"" + strings.Repeat("a line of a report. ", 50) + "\"}}\n\n"
	part := strings.Repeat(event, 64)
	parts := 8 << 20 / len(part)
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", events)
		for range parts {
			_, _ = io.WriteString(w, part)
		}
	}))
	defer u.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g, err := Start(l, Config{
		Upstream: u.URL, Key: realKey, Logger: slog.New(slog.DiscardHandler), Mask: mask.New([]byte("key"), "some-known-value").String,
		Prices: price.Table{{Model: "m", Price: price.PerMillion(1, 2, 1, 1)}}, NeedsPrice: true, Budget: &purse{output: 1000}, Record: func(Exchange) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	body := `{"model":"m","stream":true,"max_tokens":64000,"messages":[{"role":"user","content":"` + strings.Repeat("a line of a log. ", 200<<10/17) + `"}]}`
	for _, to := range []struct{ name, url string }{{"straight", u.URL}, {"guarded", g.URL()}} {
		b.Run(to.name, func(b *testing.B) {
			b.SetBytes(int64(parts * len(part)))
			var first time.Duration
			for b.Loop() {
				req, _ := http.NewRequestWithContext(b.Context(), "POST", to.url+"/v1/messages", strings.NewReader(body))
				req.Header = withToken(g)
				began := time.Now()
				resp, err := http.DefaultClient.Do(req)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
				_, _ = io.ReadFull(resp.Body, make([]byte, 1))
				first += time.Since(began)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			b.ReportMetric(float64(first.Microseconds())/1000/float64(b.N), "ms-to-first-byte")
		})
	}
}
