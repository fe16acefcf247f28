package oneshot

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// A command spends what it was given and no more; it sees no key, and the last word says
// exactly what was spent.
func TestACommandsBudget(t *testing.T) {
	const key = "sk-ant-real-key-0123456789"
	var calls int
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if r.Header.Get("X-Api-Key") != key {
			t.Errorf("the model was asked with %v", r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1000,"output_tokens":200}}`)
	}))
	defer u.Close()
	environ := []string{"ANTHROPIC_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + u.URL, "PATH=/bin"}
	limit := price.FromDollars(0.02)
	m, err := OpenModelGuards(ModelGuardOptions{USD: limit, Out: t.TempDir(), Environ: environ, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	given := m.Environ(environ)
	if slices.ContainsFunc(given, func(kv string) bool { return strings.Contains(kv, key) }) || !slices.Contains(given, "PATH=/bin") {
		t.Errorf("the command gets %v", given)
	}
	ask := func() int {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", firstSet(given, []string{"ANTHROPIC_BASE_URL"})+"/v1/messages",
			strings.NewReader(`{"model":"claude-haiku-4-5","max_tokens":400,"messages":[{"role":"user","content":"`+strings.Repeat("a log. ", 500)+`"}]}`))
		req.Header.Set("X-Api-Key", firstSet(given, []string{"ANTHROPIC_API_KEY"}))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	status := http.StatusOK
	for i := 0; i < 50 && status == http.StatusOK; i++ {
		status = ask()
	}
	if status != http.StatusForbidden {
		t.Errorf("it ended with HTTP %d after %d calls", status, calls)
	}
	spent, err := m.Close()
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || !strings.Contains(err.Error(), "are spent for this run") {
		t.Errorf("ended with %v", err)
	}
	// $1 and $5 for a million tokens.
	if want := price.Money(calls) * price.FromDollars(0.002); spent.SpentUSD != want.Dollars() || want > limit || calls == 0 {
		t.Errorf("%d calls cost %+v, not %s", calls, spent, want)
	}
}

// A model whose price the configuration has may be asked, and one without is refused
// with what can be done about it here.
func TestACommandsPrices(t *testing.T) {
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1000,"output_tokens":200}}`)
	}))
	defer u.Close()
	environ := []string{"ANTHROPIC_API_KEY=sk-ant-real-key-0123456789", "ANTHROPIC_BASE_URL=" + u.URL}
	m, err := OpenModelGuards(ModelGuardOptions{USD: price.Dollar, Prices: []string{"house-*=3/10"}, Out: t.TempDir(), Environ: environ, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	given := m.Environ(environ)
	ask := func(model string) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", firstSet(given, []string{"ANTHROPIC_BASE_URL"})+"/v1/messages",
			strings.NewReader(`{"model":"`+model+`","max_tokens":400,"messages":[]}`))
		req.Header.Set("X-Api-Key", firstSet(given, []string{"ANTHROPIC_API_KEY"}))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if status, text := ask("house-model"); status != http.StatusOK {
		t.Errorf("a model of the configuration: HTTP %d %s", status, text)
	}
	status, text := ask("another-model")
	if status != http.StatusForbidden || !strings.Contains(text, "agent.prices") || !strings.Contains(text, "--config names") || strings.Contains(text, "budget.*_usd") {
		t.Errorf("a model without a price: HTTP %d %s", status, text)
	}
	spent, _ := m.Close()
	if want := price.FromDollars(0.003 + 0.002); spent.SpentUSD != want.Dollars() {
		t.Errorf("spent %+v, not %s", spent, want)
	}
}
