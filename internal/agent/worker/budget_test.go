package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// paidModel is a model whose price is known.
const paidModel = "claude-haiku-4-5"

// paidPrice is what it costs.
func paidPrice(t *testing.T) price.Price {
	t.Helper()
	p, ok := price.Defaults().Of(nightcrier.Anthropic, paidModel)
	if !ok {
		t.Fatal("the model has no price")
	}
	return p
}

// askOn is an agent that asks its model again and again until it is refused. Between
// two calls it says so.
func askOn() int {
	for {
		body := fmt.Sprintf(`{"model":%q,"max_tokens":60,"messages":[{"role":"user","content":%q}]}`, paidModel, "on and on, "+os.Getenv("INCIDENT_ID"))
		req, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", strings.NewReader(body))
		if err != nil {
			return 2
		}
		req.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
		req.Header.Set("Anthropic-Version", "2023-06-01")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 3
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			fmt.Println(string(answer))
			return 1
		}
	}
}

// biller is a model's API that keeps its own bill. Each call's request has another
// number of tokens, by which it is found in the ledger.
type biller struct {
	price price.Price
	// before is called when a call is billed, and its answer not begun.
	before func(n int, request string)

	mu    sync.Mutex
	calls int
	bill  map[int64]price.Money // by the tokens of the request
}

func (b *biller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		MaxTokens int64 `json:"max_tokens"`
	}
	request, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(request, &ask) != nil || ask.MaxTokens > 60 || !strings.HasSuffix(r.URL.Path, "/messages") {
		http.Error(w, "nonsense", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	b.calls++
	n := b.calls
	used := price.Tokens{Input: int64(n), Output: min(ask.MaxTokens, int64(20+n%40))}
	b.bill[used.Input] = b.price.Of(used)
	b.mu.Unlock()
	b.before(n, string(request))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":"on"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`,
		paidModel, used.Input, used.Output)
}

// TestTwoCents: five runs at once spend two cents, their workers killed in between.
// The bill of the model's API is never over it, and the ledger agrees with the bill to
// the billionth.
func TestTwoCents(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const runs, limit = 5, price.Dollar / 50
	dir := filepath.Join(t.TempDir(), "budget")
	benches, dirs := make([]*bench, runs), make([]atomic.Value, runs) // where each has its worker now
	for i := range benches {
		b := newBench(t, "exec '"+self+"' ask-on\n")
		b.spec.ReadPaths, b.spec.Model, b.sec.ModelAPIKey = []string{self}, paidModel, realKey
		b.spec.BudgetDir, b.spec.Budget = dir, budget.Limits{Day: budget.Limit{Money: limit}}
		benches[i] = b
	}
	api := &biller{price: paidPrice(t), bill: map[int64]price.Money{}, before: func(n int, request string) {
		if n%5 != 0 || n > 5*runs {
			return
		}
		for i, b := range benches { // its worker dies, and nobody knows what the call cost
			if strings.Contains(request, b.spec.IncidentID) {
				dies(dirs[i].Load().(string))
			}
		}
	}}
	server := httptest.NewServer(api)
	defer server.Close()
	var wg sync.WaitGroup
	for i, b := range benches {
		b.spec.BaseURL = server.URL
		dirs[i].Store(string(b.dir()))
		wg.Go(func() { b.untilSpent(&dirs[i]) })
	}
	wg.Wait()

	var billed, known price.Money
	settled := settledCalls(t, dir)
	for tokens, amount := range api.bill {
		billed += amount
		if was, ok := settled[tokens]; ok {
			if known += amount; was != amount {
				t.Errorf("call %d: the ledger has %s, the bill %s", tokens, was, amount)
			}
		}
	}
	l, err := budget.Open(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := l.Spending("")
	if err != nil {
		t.Fatal(err)
	}
	if billed > limit || s.Spent.Money+s.Held.Money > limit || s.Spent.Money != known || billed > s.Spent.Money+s.Held.Money {
		t.Errorf("billed %s of %s, %s of it for settled calls; the ledger has %s spent and %s held", billed, limit, known, s.Spent.Money, s.Held.Money)
	}
	if len(settled) < 3 || s.Held.Money == 0 {
		t.Errorf("this tests nothing: %d calls settled, %s held", len(settled), s.Held.Money)
	}
	t.Logf("%d calls, %s billed of %s; %d settled for %s, %s held", api.calls, billed, limit, len(settled), s.Spent.Money, s.Held.Money)
}

// dies kills the worker of a directory, where there is one at work.
func dies(dir string) {
	var p workdir.PIDs
	if workdir.Dir(dir).ReadFile(workdir.PIDFile, &p) == nil && p.Worker.Alive() {
		_ = syscall.Kill(p.Worker.PID, syscall.SIGKILL)
	}
}

// untilSpent runs workers of one run after each other until the budget ends one.
func (b *bench) untilSpent(dir *atomic.Value) {
	for {
		r, entries := b.run()
		if r.FailureClass == nightcrier.FailBudget {
			if r.State != nightcrier.StateFailed || !strings.Contains(r.FailureReason, "budget.per_day_usd is reached") || !strings.Contains(r.FailureReason, "of $0.02 are spent") {
				b.Errorf("%+v", r)
			}
			b.noneLeft()
			return
		}
		if r.FailureClass != nightcrier.FailLost {
			b.Errorf("%+v\n%s", r, text(entries))
			return
		}
		b.spec.Attempt++
		dir.Store(string(b.dir()))
	}
}

// settledCalls reads which calls are settled, by the tokens of their request, and for
// how much.
func settledCalls(t *testing.T, dir string) map[int64]price.Money {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.ledger"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	settled := map[int64]price.Money{}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			var r struct {
				Op    string       `json:"op"`
				Money price.Money  `json:"money"`
				Used  price.Tokens `json:"used"`
			}
			_, text, _ := bytes.Cut(line, []byte(" "))
			if json.Unmarshal(text, &r) == nil && r.Op == "settle" {
				settled[r.Used.Input] = r.Money
			}
		}
	}
	return settled
}

// TestClaudeWithinItsBudget: the CLI is ended at the limit, and what it spent is exact.
func TestClaudeWithinItsBudget(t *testing.T) {
	t.Parallel()
	b := claudeCLI().bench(t, fakemodel.Step{Text: "Looking on.", Tools: []fakemodel.ToolCall{claudeCLI().read("PROMPT.md")},
		Usage: &fakemodel.Usage{Input: 20_000, Output: 500}, Repeat: true})
	b.spec.Model, b.spec.MaxTurns = paidModel, 200
	const limit = price.Dollar * 2 / 5
	b.spec.BudgetDir, b.spec.Budget = filepath.Join(t.TempDir(), "budget"), budget.Limits{Run: budget.Limit{Money: limit}}
	r, entries := b.ends(t, nightcrier.StateFailed, nightcrier.FailBudget)
	if !strings.Contains(r.FailureReason, "budget.per_run_usd is reached") {
		t.Errorf("%s\n%s", r.FailureReason, clip(text(entries)))
	}
	l, err := budget.Open(b.spec.BudgetDir, time.Now)
	b.must(err)
	defer l.Close()
	s, err := l.Spending("")
	b.must(err)
	each := paidPrice(t).Of(price.Tokens{Input: 20_000, Output: 500})
	if s.Spent.Money < 2*each || s.Spent.Money+s.Held.Money > limit || s.Held.Money > 0 || price.FromDollars(r.Usage.CostUSD) != s.Spent.Money {
		t.Errorf("%s spent and %s held, the result says $%v; a call costs %s", s.Spent.Money, s.Held.Money, r.Usage.CostUSD, each)
	}
	t.Logf("%d calls, %s spent: %s", s.Calls, s.Spent.Money, r.FailureReason)
}

// TestNoBudgetNoAgent: an agent whose spending cannot be counted is not started.
func TestNoBudgetNoAgent(t *testing.T) {
	b := newBench(t, "touch \"$OUTPUT_DIR/started\"\n")
	dir := filepath.Join(t.TempDir(), "budget")
	l, err := budget.Open(dir, time.Now)
	b.must(err)
	g, err := l.Account(budget.Who{}, budget.Limits{}).Reserve(t.Context(), budget.Want{Output: 1}, nil)
	b.must(err)
	b.must(errors.Join(g.Release(), l.Close()))
	path := filepath.Join(dir, time.Now().UTC().Format(time.DateOnly)+".ledger")
	raw, err := os.ReadFile(path)
	b.must(err)
	b.must(os.WriteFile(path, append(raw, raw...), 0o600)) // records twice
	b.sec.ModelAPIKey = realKey
	b.spec.BudgetDir = dir
	if r, _ := b.run(); r.FailureClass != nightcrier.FailBudget || !strings.Contains(r.FailureReason, "is damaged") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(b.ws, ".scratch", "started")); err == nil {
		t.Error("the agent was started")
	}
}

// TestWaitIsNoted: that a run waits for what others hold is journaled once, however
// often it does, and counted.
func TestWaitIsNoted(t *testing.T) {
	l, err := budget.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	limits := budget.Limits{Incident: budget.Limit{Tokens: 100}}
	g, err := l.Account(budget.Who{Run: "another"}, limits).Reserve(t.Context(), budget.Want{Output: 80}, nil)
	if err != nil {
		t.Fatal(err)
	}
	notes := make(chan string, 10)
	p := &runAccount{ledger: l, account: l.Account(budget.Who{Run: "this"}, limits), note: func(level, text string) { notes <- level + ": " + text }}
	w := model.Want{Output: 50, Least: 50}
	ctx, hangUp := context.WithCancel(t.Context())
	hungUp := make(chan error)
	go func() {
		_, err := p.Reserve(ctx, w)
		hungUp <- err
	}()
	if note := <-notes; note != "info: waiting for budget held by others: budget.per_incident_tokens: 0 of 100 tokens are spent and 80 held for this incident, and this call may take 50" {
		t.Error(note)
	}
	hangUp()
	if err := <-hungUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	granted := make(chan error)
	go func() {
		g, err := p.Reserve(t.Context(), w)
		if err == nil {
			err = g.Release()
		}
		granted <- err
	}()
	if err := g.Settle(price.Tokens{Output: 5}); err != nil {
		t.Fatal(err)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	p.close()
	if note := <-notes; !strings.HasPrefix(note, "info: calls of the model waited for budget held by others: ") || len(notes) > 0 {
		t.Errorf("%s, and %d more", note, len(notes))
	}
}
