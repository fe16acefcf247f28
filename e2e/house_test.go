package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// house is an installation that is configured by a file.
type house struct {
	*site
	t      *testing.T
	cfg    *config.Config
	orders *orders
	log    *lines
	ahead  atomic.Int64 // how far the clock is ahead
	*app.App
}

func newHouse(t *testing.T) *house {
	return &house{site: newSite(t, ""), t: t, orders: &orders{gate: make(chan struct{})}, log: &lines{}}
}

// load reads a file that holds these lines.
func (h *house) load(env []string, text ...string) ([]config.Warning, error) {
	h.Helper()
	file := filepath.Join(filepath.Dir(h.root), "nightcrier.yaml")
	all := strings.Join(text, "\n") + "\n"
	if !strings.Contains(all, "workspace_root:") {
		all += "workspace_root: " + h.root + "\n"
	}
	if !strings.Contains(all, "\nlisten:") && !strings.HasPrefix(all, "listen:") {
		all += "listen: none\n"
	}
	h.must(os.WriteFile(file, []byte(all), 0o600))
	var warnings []config.Warning
	var err error
	h.cfg, warnings, err = config.Load(config.Options{File: file, Env: append(env, "PATH="+os.Getenv("PATH"))})
	return warnings, err
}

// start starts the product with a file. Agents are orders that are only written
// down and wait at a gate, unless the change says otherwise.
func (h *house) start(text ...string) *house {
	h.Helper()
	_, err := h.load(nil, text...)
	h.must(err)
	h.run(func(o *app.Options) { o.Runs = func(c *run.Config) { c.Workers = h.orders } })
	return h
}

func (h *house) run(change func(*app.Options)) {
	h.Helper()
	format := h.cfg.Log.Format
	if format == "auto" {
		format = "json" // as for all that no person looks at
	}
	logger, err := telemetry.NewLogger(h.log, telemetry.LogOptions{Level: h.cfg.Log.Level, Format: format})
	h.must(err)
	o := app.Options{
		Config: h.cfg, Logger: logger, Version: "e2e", SourceTimings: quickly(), RetryPause: 20 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) },
	}
	if change != nil {
		change(&o)
	}
	h.App, err = app.New(o)
	h.must(err)
	h.must(h.Start(context.Background()))
	running := h.App
	h.t.Cleanup(func() { h.must(running.Stop(context.Background())) })
}

// fault delivers a fault of a Deployment in cluster c1 or the one named.
func (h *house) fault(name, severity string, of ...string) store.Decision {
	h.Helper()
	cluster := "c1"
	if len(of) > 0 {
		cluster = of[0]
	}
	d := delivery(cluster, name, severity)
	d.ReceivedAt = time.Now().Add(time.Duration(h.ahead.Load()))
	dec, err := h.Deliver(h.t.Context(), d)
	h.must(err)
	return dec
}

// closed waits until an incident has ended.
func (h *house) closed(id string) (inc nightcrier.Incident) {
	h.Helper()
	h.eventually(func() string {
		var err error
		inc, err = h.Store().Incident(h.t.Context(), id)
		h.must(err)
		if inc.Status.Open() {
			return fmt.Sprintf("incident %s is %s", id, inc.Status)
		}
		return ""
	})
	return inc
}

// logs waits for words in the log: what happened is logged after it is stored.
func (h *house) logs(words string) {
	h.Helper()
	h.eventually(func() string {
		if strings.Contains(h.log.String(), words) {
			return ""
		}
		return fmt.Sprintf("the log does not say %q", words)
	})
}

// done delivers one fault and returns the incident once it has ended.
func (h *house) done() nightcrier.Incident {
	h.Helper()
	return h.closed(h.fault("d1", "critical").Incident.ID)
}

// counts waits for so many runs under way and waiting.
func (h *house) counts(leased, queued int) {
	h.Helper()
	h.eventually(func() string {
		c, err := h.Store().Counts(h.t.Context())
		h.must(err)
		if c.Leases == leased && c.Queued == queued {
			return ""
		}
		return fmt.Sprintf("%d runs under way and %d waiting", c.Leases, c.Queued)
	})
}

// order starts the product, lets one fault arrive, and returns what its worker
// was told to do.
func (h *house) order(text ...string) backend.Spec {
	h.Helper()
	h.start(text...)
	h.fault("d1", "critical")
	var got backend.Spec
	h.eventually(func() string {
		if all := h.orders.all(); len(all) > 0 {
			got = all[0]
			return ""
		}
		return "no worker was started"
	})
	return got
}

// inWorkspace reads a file of an incident.
func (h *house) inWorkspace(inc nightcrier.Incident, rel string) string {
	h.Helper()
	return string(h.file(inc, rel))
}

// get asks an address of the product.
func (h *house) get(url string) int {
	h.Helper()
	resp, err := http.Get(url)
	h.must(err)
	_, _ = io.Copy(io.Discard, resp.Body)
	h.must(resp.Body.Close())
	return resp.StatusCode
}

// getAs asks for an address by another name of the host, and for nothing that that leads to.
func (h *house) getAs(host, url string) int {
	h.Helper()
	r, err := http.NewRequest(http.MethodGet, strings.Split(url, "?")[0], nil)
	h.must(err)
	r.Host = host
	resp, err := http.DefaultTransport.RoundTrip(r)
	h.must(err)
	h.must(resp.Body.Close())
	return resp.StatusCode
}

// want fails unless it is so.
func (h *house) want(so bool, format string, args ...any) {
	h.Helper()
	if !so {
		h.Errorf(format, args...)
	}
}

// orders are workers that write down what they are told and succeed, without a
// report, when the gate opens.
type orders struct {
	gate chan struct{}
	mu   sync.Mutex
	got  []backend.Spec
}

// Launch implements run.Workers.
func (o *orders) Launch(_ context.Context, spec backend.Spec, _ *backend.Credential, _ []byte) (backend.Handle, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, spec)
	return backend.Handle{Backend: "orders", ID: spec.WorkerName()}, nil
}

// List implements run.Workers.
func (*orders) List(context.Context) ([]backend.Owned, error) { return nil, nil }

// Follow implements run.Workers.
func (o *orders) Follow(ctx context.Context, _ backend.Handle, _ int64, _ func(nightcrier.JournalEntry) error) (backend.Ended, error) {
	select {
	case <-o.gate:
		return backend.Ended{Result: nightcrier.AgentResult{State: nightcrier.StateSuccess}}, nil
	case <-ctx.Done():
		return backend.Ended{}, ctx.Err()
	}
}

// Cancel implements run.Workers.
func (o *orders) Cancel(context.Context, backend.Handle, string) error { return nil }

func (o *orders) all() []backend.Spec {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.got)
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
