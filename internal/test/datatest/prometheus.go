// Package datatest gives tests systems to ask for metrics and logs: a real Prometheus,
// on loopback, with what the test says was measured, and a scripted Loki, which speaks
// the documented API; no real Loki can be had from a distribution's packages.
//
// The Prometheus has its API for administrators and its reload switched on, so that
// what is asked of them is kept from happening by whoever asks, not by it.
package datatest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// Sample is what was measured at one time.
type Sample struct {
	At    time.Time
	Value float64
}

// Series is one series of gauges; Labels are written as in an exposition,
// `namespace="shop",pod="cart-1"`.
type Series struct {
	Name, Labels string
	Samples      []Sample
}

const attempts = 3 // another process may take the port between choosing and listening

// Prometheus starts a server that holds these series, and returns its URL. The test
// skips, aloud, where none is installed.
func Prometheus(tb testing.TB, all ...Series) string {
	tb.Helper()
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Skipf("SKIPPED ALOUD: Prometheus: %s is not installed: apt-get install prometheus", program)
		}
	}
	dir := tb.TempDir()
	if err := backfill(tb.Context(), dir, all); err != nil {
		tb.Fatalf("datatest: %v", err)
	}
	var failures []error
	for range attempts {
		url, err := start(tb, dir)
		if err == nil {
			return url
		}
		failures = append(failures, err)
	}
	tb.Fatalf("datatest: %v", errors.Join(failures...))
	return ""
}

// backfill makes the blocks of a database.
func backfill(ctx context.Context, dir string, all []Series) error {
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte("global: {scrape_interval: 1h}\n"), 0o600); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	var text strings.Builder
	for _, s := range all {
		fmt.Fprintf(&text, "# TYPE %s gauge\n", s.Name)
		for _, v := range s.Samples {
			fmt.Fprintf(&text, "%s{%s} %g %d\n", s.Name, s.Labels, v.Value, v.At.Unix())
		}
	}
	text.WriteString("# EOF\n")
	input := filepath.Join(dir, "metrics.om")
	if err := os.WriteFile(input, []byte(text.String()), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", input, filepath.Join(dir, "data")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool: %w: %s", err, out)
	}
	return nil
}

func start(tb testing.TB, dir string) (string, error) {
	port, err := testproc.FreePort()
	if err != nil {
		return "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--storage.tsdb.retention.time=30d", "--web.listen-address="+address, "--web.enable-admin-api", "--web.enable-lifecycle", "--log.level=warn")
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "TZ=UTC"}
	p, err := testproc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return "", err
	}
	url := "http://" + address
	if err := ready(tb.Context(), url+"/-/ready", p); err != nil {
		p.Stop(syscall.SIGKILL)
		return "", err
	}
	tb.Cleanup(func() { p.Stop(syscall.SIGKILL) })
	return url, nil
}

const readyWithin = 2 * time.Minute // a second is usual

func ready(ctx context.Context, url string, p *testproc.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !answers(ctx, url) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("prometheus is not ready: %w: %s", ctx.Err(), p)
		case <-p.Done():
			return fmt.Errorf("prometheus ended: %s", p)
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
