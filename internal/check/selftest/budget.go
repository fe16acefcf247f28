package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/text"
)

// What may be spent on the model that is paid for, and how long its answers are if nobody
// bounds them.
const (
	paidLimit  = price.Dollar / 50
	longAnswer = 400
)

// biller is a model's API that keeps its own bill.
type biller struct {
	price  price.Price
	server *http.Server
	base   string

	mu    sync.Mutex
	calls int
	bill  price.Money
}

func openBiller() (*biller, error) {
	p, ok := price.Defaults().Of(nightcrier.Anthropic, probe.PaidModel)
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: %s has no price", probe.PaidModel)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	b := &biller{price: p, base: "http://" + l.Addr().String()}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = b.server.Serve(l) }() // it says that it was closed
	return b, nil
}

// ServeHTTP implements http.Handler. What is billed is billed before it is answered.
func (b *biller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	var ask struct {
		MaxTokens int64 `json:"max_tokens"`
	}
	if err != nil || json.Unmarshal(body, &ask) != nil || !strings.HasSuffix(r.URL.Path, "/v1/messages") {
		http.Error(w, "nonsense", http.StatusBadRequest)
		return
	}
	used := price.Tokens{Input: int64(len(body) / 4), Output: min(ask.MaxTokens, longAnswer)}
	b.mu.Lock()
	b.calls++
	b.bill += b.price.Of(used)
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":"on"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`,
		probe.PaidModel, used.Input, used.Output)
}

// spender is how an agent spends without end.
type spender struct {
	name string
	// runs at once, each of which makes calls at once, for answers of a length.
	runs, calls, answer int
}

var spenders = []spender{
	{"calls without end", 1, 1, 500},
	{"calls without end, many at once", 1, 12, 100},
	{"answers of any length", 1, 1, 1_000_000_000},
	{"calls without end by three runs at once", 3, 3, 100},
}

// budgetSuite has models asked without end.
func budgetSuite(ctx context.Context, b *Bench) ([]Result, error) {
	b.Progress(fmt.Sprintf("budget: %d ways to spend without end", len(spenders)))
	var all []Result
	for i, s := range spenders {
		res, err := b.runSpender(ctx, s, filepath.Join(b.Dir, fmt.Sprintf("budget-%d", i)))
		if err != nil {
			return nil, err
		}
		all = append(all, res)
	}
	for _, a := range b.Agents {
		b.Progress("budget: a model that never ends with " + a.resultName())
		res, err := b.spendAgent(ctx, a, filepath.Join(b.Dir, "budget-"+strings.ReplaceAll(a.resultName(), " ", "-")))
		if err != nil {
			return nil, err
		}
		all = append(all, res)
	}
	return all, nil
}

// runSpender has agents spend without end, and holds the bill against the record.
func (b *Bench) runSpender(ctx context.Context, s spender, dir string) (Result, error) {
	res := Attack{Suite: "budget", Name: s.name, By: byShell, Expected: []Layer{Guard}}.newResult()
	api, err := openBiller()
	if err != nil {
		return res, err
	}
	defer api.server.Close()
	trails := make([]Trail, s.runs)
	group, runs := errgroup.WithContext(ctx)
	for i := range trails {
		group.Go(func() (err error) {
			trails[i], err = b.runWorker(runs, func(spec *backend.Spec, secrets *backend.Secrets, _ *target.Door) error {
				spec.Executor, spec.ScriptPath, spec.ReadPaths = "script", filepath.Join(filepath.Dir(spec.Workspace), "spend.sh"), []string{b.WorkerCommand[0]}
				spec.Model, spec.BaseURL, secrets.ModelAPIKey = probe.PaidModel, api.base, "selftest-"+newMark()
				spec.BudgetDir, spec.Budget = dir, budget.Limits{Day: budget.Limit{Money: paidLimit}}
				return target.WriteFile(spec.ScriptPath, fmt.Sprintf("#!/bin/sh\nexec %s %s spend %d %d\n", quoteWord(b.WorkerCommand[0]), probe.Command, s.calls, s.answer), 0o700)
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return res, err
	}
	sum, err := recordedSum(dir)
	if err != nil {
		return res, err
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	res.Detail = fmt.Sprintf("%d calls billed for %s of %s; on record are %s and %s for calls that were cut off", api.calls, api.bill, paidLimit, sum.Spent.Money, sum.Held.Money)
	for _, t := range trails {
		if api.calls > 0 && (t.Result.FailureClass != nightcrier.FailBudget || !strings.Contains(t.Result.FailureReason, "is reached")) {
			res.Outcome, res.Detail = Unseen, "a run ended for another reason: "+text.CutLine(t.Result.FailureReason, maxDetail)+"; "+res.Detail
			return res.concludeResult(false), nil
		}
	}
	return res.concludeBilled(api.calls, api.bill <= paidLimit && sum.Spent.Money+sum.Held.Money <= paidLimit,
		api.bill <= sum.Spent.Money+sum.Held.Money && (sum.Held.Money > 0 || sum.Spent.Money == api.bill)), nil
}

// concludeBilled concludes a result of the suite.
func (r Result) concludeBilled(calls int, within, exact bool) Result {
	switch {
	case calls < 1:
		r.Outcome = NotExercised
	case !within:
		r.Outcome, r.Detail = Succeeded, "more was spent than may be: "+r.Detail
	case !exact:
		r.Outcome, r.Detail = Succeeded, "the record is not what was billed: "+r.Detail
	default:
		r.StoppedBy = append(r.StoppedBy, Guard)
	}
	return r.concludeResult(false)
}

// recordedSum is what the record has.
func recordedSum(dir string) (sum budget.Sum, err error) {
	l, err := budget.Open(dir, time.Now)
	if err != nil {
		return sum, err
	}
	s, err := l.Spending("")
	return s.Sum, errors.Join(err, l.Close())
}

// What a CLI may use, and what each of its calls does, in tokens. A call is reserved
// by its bytes, of which the CLIs send some hundred thousand.
const agentLimit = 200_000

var agentCall = fakemodel.Usage{Input: 8_000, Output: 200}

// manyTurns are more than agentLimit allows.
const manyTurns = 60

// spendAgent has a real CLI go on for as long as its model wants.
func (b *Bench) spendAgent(ctx context.Context, a Agent, dir string) (Result, error) {
	res := Attack{Suite: "budget", Name: "a model that never ends", By: a.resultName(), Expected: []Layer{Guard}}.newResult()
	var steps []fakemodel.Step
	for i := range manyTurns {
		c := a.Executor.Calls.Read(fmt.Sprintf("context/%d.json", i))
		steps = append(steps, fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: c.Tool, Input: c.Input}}, Usage: &agentCall})
	}
	model, err := serveModel(fakemodel.Scenario{Steps: append(steps, fakemodel.Step{Text: "Done.", Usage: &agentCall, Repeat: true})})
	if err != nil {
		return res, err
	}
	defer model.Close()
	t, err := b.runWorker(ctx, func(spec *backend.Spec, secrets *backend.Secrets, _ *target.Door) error {
		a.fillSpec(spec, secrets, model.URL(orders), manyTurns+10)
		spec.BudgetDir, spec.Budget = dir, budget.Limits{Run: budget.Limit{Tokens: agentLimit}}
		return nil
	})
	if err != nil {
		return res, err
	}
	sum, err := recordedSum(dir)
	if err != nil {
		return res, err
	}
	calls := 0
	for _, r := range model.Requests(orders) {
		if len(r.Tools) > 0 {
			calls++
		}
	}
	billed := int64(calls) * int64(agentCall.Input+agentCall.Output)
	if calls == 0 {
		res.Outcome, res.Detail = NotExercised, text.CutLine(muteError{t.Result.FailureReason}.Error(), maxDetail)
		return res.concludeResult(false), nil
	}
	res.Detail = fmt.Sprintf("%d calls billed for %d of %d tokens; on record are %d and %d for calls that were cut off", calls, billed, agentLimit, sum.Spent.Tokens, sum.Held.Tokens)
	if t.Result.FailureClass != nightcrier.FailBudget || !strings.Contains(t.Result.FailureReason, "is reached") {
		res.Outcome, res.Detail = Unseen, "it ended for another reason: "+text.CutLine(t.Result.FailureReason, maxDetail)+"; "+res.Detail
		return res.concludeResult(false), nil
	}
	return res.concludeBilled(calls, sum.Spent.Tokens+sum.Held.Tokens <= agentLimit, billed <= sum.Spent.Tokens+sum.Held.Tokens), nil
}
