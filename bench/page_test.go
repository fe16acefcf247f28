package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/ui"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// pageServer is what the page asks of a server that has nothing to tell.
type pageServer struct{ ui.Server }

func (pageServer) Statuses() []nightcrier.SourceStatus  { return nil }
func (pageServer) RunSpending(string) (ui.Spent, error) { return ui.Spent{}, nil }

// servePage serves a page of so many incidents, and logs a client in.
func servePage(b *testing.B, incidents int) (*store.Store, *httptest.Server, *http.Client) {
	b.Helper()
	st, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "n.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	for i := range incidents {
		res := nightcrier.Resource{Kind: "Deployment", Namespace: fmt.Sprint("ns-", i%40), Name: fmt.Sprint("app-", i)}
		_, err := st.Accept(b.Context(), nightcrier.Event{ID: nightcrier.NewID(), ReceivedAt: time.Now(), Source: "mcp", Cluster: fmt.Sprint("c", i%300), FaultType: "CrashLoop", Severity: nightcrier.Warning,
			Resource: res, Owner: res, Context: "Back-off restarting failed container", Fingerprint: fmt.Sprint(i), Class: nightcrier.ClassWorkload}, store.AcceptPolicy{Pipeline: "p", Executor: "builtin", QueueMax: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
	}
	page := ui.New(ui.Options{Version: "bench", Incidents: st, Runs: st, Events: st, Server: pageServer{}, Access: ui.Access{Key: []byte("k")}, Logger: slog.New(slog.DiscardHandler)})
	srv := httptest.NewServer(page)
	b.Cleanup(func() { page.EndStreams(); srv.Close() })
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	resp, err := c.Get(page.LoginLink(srv.URL))
	if err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close()
	return st, srv, c
}

// BenchmarkPageList is the list of 10,000 incidents, as a browser gets it: narrowed to nothing,
// to a word, and to a cluster.
func BenchmarkPageList(b *testing.B) {
	_, srv, c := servePage(b, 10_000)
	for name, query := range map[string]string{"all": "", "word": "?text=app-77", "cluster": "?cluster=c7"} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				resp, err := c.Get(srv.URL + "/incidents" + query)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began)) // the head is there
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99-first-byte")
		})
	}
}

// BenchmarkPageWatchers has a thousand browsers watch one run, and tells how long after an entry
// was written the last of them has it, and what one costs. bare is the same by a handler that
// does nothing but send.
func BenchmarkPageWatchers(b *testing.B) {
	const watchers = 1000
	b.Run("page", func(b *testing.B) {
		st, srv, c := servePage(b, 1)
		run, err := st.AdmitNext(b.Context(), store.Limits{Total: 1, PerKey: 1})
		if err != nil {
			b.Fatal(err)
		}
		at, _ := url.Parse(srv.URL)
		cookie := c.Jar.Cookies(at)[0].String()
		n := 0
		watchStreams(b, watchers, srv, "/live/runs/"+run.ID, cookie, func() {
			n++
			data, _ := journal.OfMessage(journal.Message{Role: "assistant", Text: fmt.Sprint("tick ", time.Now().UnixNano())}).JSON()
			if _, err := st.AppendJournal(context.Background(), run.ID, nightcrier.JournalEntry{Run: run.ID, Time: time.Now(), Type: nightcrier.EntryMessage, Data: data, Key: fmt.Sprint(n)}); err != nil {
				b.Error(err)
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		var mu sync.Mutex
		changed, tick := make(chan struct{}), ""
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(w)
			_ = rc.Flush()
			for {
				mu.Lock()
				wait := changed
				mu.Unlock()
				select {
				case <-r.Context().Done():
					return
				case <-wait:
				}
				mu.Lock()
				said := tick
				mu.Unlock()
				fmt.Fprintf(w, "data: %s\n\n", said)
				_ = rc.Flush()
			}
		}))
		b.Cleanup(srv.Close)
		watchStreams(b, watchers, srv, "/", "", func() {
			said, _ := json.Marshal(fmt.Sprint("tick ", time.Now().UnixNano()))
			mu.Lock()
			tick = string(said)
			close(changed)
			changed = make(chan struct{})
			mu.Unlock()
		})
	})
}

// watchStreams opens streams, and has each entry that is written arrive at all of them.
func watchStreams(b *testing.B, n int, srv *httptest.Server, path, cookie string, write func()) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	arrived := make(chan time.Duration, n)
	for range n {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", path, srv.Listener.Addr(), cookie)
		go func() {
			in := bufio.NewReaderSize(conn, 512)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if _, rest, ok := strings.Cut(line, "tick "); ok && !strings.HasPrefix(line, "event:") {
					var at int64
					if _, err := fmt.Sscan(strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })[0], &at); err == nil {
						arrived <- time.Duration(time.Now().UnixNano() - at)
					}
				}
			}
		}()
	}
	time.Sleep(time.Second) // all of them are there
	runtime.GC()
	runtime.ReadMemStats(&after)
	var all []time.Duration
	for b.Loop() {
		write()
		for range n {
			select {
			case d := <-arrived:
				all = append(all, d)
			case <-time.After(10 * time.Second):
				b.Fatalf("an entry did not arrive everywhere: %d of %d", len(all)%n, n)
			}
		}
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(n)/1024, "KiB/watcher-and-client")
}
