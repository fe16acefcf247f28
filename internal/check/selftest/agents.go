package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// Agent is a CLI on this machine.
type Agent struct {
	Executor     agent.Executor
	Command      string
	Model        string
	AllowedTools []string
	// NoShell is an executor's that has our tools in the place of its shell.
	NoShell bool
}

// resultName is how results call it.
func (a Agent) resultName() string {
	if a.NoShell {
		return a.Executor.Name + " without a shell"
	}
	return a.Executor.Name
}

// agentsAtOnce is how many agents run beside each other: each is a process of some
// weight, which waits for others most of the time.
const agentsAtOnce = 2

// eachAgent makes attacks by every agent, and returns what became of them in the order
// of who made them.
func (b *Bench) eachAgent(ctx context.Context, attacks func(context.Context, Agent) ([]Result, error)) ([]Result, error) {
	results := make([][]Result, len(b.Agents))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(agentsAtOnce)
	for i, a := range b.Agents {
		group.Go(func() (err error) {
			results[i], err = attacks(ctx, a)
			return err
		})
	}
	err := group.Wait()
	return byWhom(slices.Concat(results...)), err
}

// byWhom puts results in the order of who made the attacks.
func byWhom(all []Result) []Result {
	slices.SortStableFunc(all, func(x, y Result) int { return strings.Compare(x.By, y.By) })
	return all
}

// agentAttacks has each agent's model order what its agent can be ordered.
func (b *Bench) agentAttacks(ctx context.Context, suite string, of func(Agent) []Order) ([]Result, error) {
	return b.eachAgent(ctx, func(ctx context.Context, a Agent) ([]Result, error) {
		orders := of(a)
		if len(orders) == 0 {
			return nil, nil
		}
		b.Progress(fmt.Sprintf("%s: %d orders to %s", suite, len(orders), a.resultName()))
		return b.runOrders(ctx, a, suite, orders)
	})
}

// runOrders has one agent's model order everything in one run.
func (b *Bench) runOrders(ctx context.Context, a Agent, suite string, orders []Order) ([]Result, error) {
	var calls []fakemodel.ToolCall
	for _, o := range orders {
		calls = append(calls, o.asCall(a.Executor.Calls))
	}
	ran, t, err := b.Orders(ctx, a, calls)
	if err != nil {
		return a.unorderedResults(suite, err)
	}
	var all []Result
	for i, o := range orders {
		at := o.asAttack(suite, a.resultName())
		at.Expected = append([]Layer{CLI}, at.Expected...)
		if ran[i], err = t.byTools(o, ran[i]); err != nil {
			return nil, err
		}
		all = append(all, b.judgeAttack(at, ran[i]))
	}
	return all, nil
}

// modelCall is a call of an agent's as its model asks for it.
func modelCall(c agent.Call) fakemodel.ToolCall {
	return fakemodel.ToolCall{Name: c.Tool, Input: c.Input}
}

// Orders has a real CLI run with a model that makes these calls, one a turn, and tells
// of each what became of it.
func (b *Bench) Orders(ctx context.Context, a Agent, calls []fakemodel.ToolCall) ([]Ran, Trail, error) {
	return b.ordersWith(ctx, a, calls, func(*backend.Spec) error { return nil })
}

// ordersWith is Orders in a run that prepare completes.
func (b *Bench) ordersWith(ctx context.Context, a Agent, calls []fakemodel.ToolCall, prepare func(*backend.Spec) error) ([]Ran, Trail, error) {
	steps := make([]fakemodel.Step, 0, len(calls)+1)
	for _, c := range calls {
		steps = append(steps, fakemodel.Step{Tools: []fakemodel.ToolCall{c}})
	}
	model, err := serveModel(fakemodel.Scenario{Steps: append(steps, fakemodel.Step{Text: "Done.", Repeat: true})})
	if err != nil {
		return nil, Trail{}, err
	}
	defer model.Close()
	t, err := b.runWorker(ctx, func(spec *backend.Spec, secrets *backend.Secrets, _ *target.Door) error {
		a.fillSpec(spec, secrets, model.URL(orders), len(calls)+10)
		return prepare(spec)
	})
	if err != nil {
		return nil, t, err
	}
	t.Asked = model.Requests(orders)
	ran, err := t.splitTurns(t.Asked, calls)
	if err == nil && !anyMade(ran) {
		err = muteError{t.Result.FailureReason}
	}
	return ran, t, err
}

// muteError is that an agent never asked its model what to do.
type muteError struct{ reason string }

// Error implements error.
func (e muteError) Error() string { return "it did not ask its model what to do: " + e.reason }

// unorderedResults is the result of an agent that never asked for orders: it shows nothing, and
// the results of the other agents count all the same. Any other error is returned.
func (a Agent) unorderedResults(suite string, err error) ([]Result, error) {
	if !errors.As(err, new(muteError)) {
		return nil, err
	}
	res := Attack{Suite: suite, Name: "all of it", By: a.resultName(), Expected: []Layer{CLI, Sandbox, Guard}}.newResult()
	res.Outcome, res.Detail = NotExercised, text.CutLine(err.Error(), maxDetail)
	return []Result{res.concludeResult(false)}, nil
}

// fillSpec makes a run this agent's, with a model of ours.
func (a Agent) fillSpec(spec *backend.Spec, secrets *backend.Secrets, model string, turns int) {
	spec.Executor, spec.Command, spec.Model, spec.AllowedTools = a.Executor.Name, a.Command, a.Model, a.AllowedTools
	spec.Provider, spec.BaseURL, spec.MaxTurns, spec.Shell = a.Executor.Providers[0], model, turns, !a.NoShell
	if a.Executor.UsesTools && secrets.Cluster != nil {
		secrets.Cluster.Namespaces = []string{target.Namespace} // so that others can be asked for in vain
	}
	secrets.ModelAPIKey = "selftest-" + newMark()
}

// orders is the scenario's name.
const orders = "orders"

// serveModel serves a script.
func serveModel(script fakemodel.Scenario) (*fakemodel.Server, error) {
	model, err := fakemodel.Serve(orders, script)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: the scripted model: %w", err)
	}
	return model, nil
}

// splitTurns tells the calls of a run apart: one lasts from the question that it answers to
// the next, which holds what came of it.
func (t Trail) splitTurns(requests []fakemodel.Request, calls []fakemodel.ToolCall) ([]Ran, error) {
	all := make([]Ran, len(calls))
	for i, call := range calls {
		from := slices.IndexFunc(requests, func(r fakemodel.Request) bool { return r.Turn == i && len(r.Tools) > 0 })
		to := slices.IndexFunc(requests, func(r fakemodel.Request) bool { return r.Turn == i+1 && len(r.Tools) > 0 })
		if from < 0 || to < 0 {
			all[i].Output = "the agent ended before: " + t.Result.FailureReason
			continue
		}
		r := &all[i]
		r.Made, r.Output = true, requests[to].TextSince(requests[from])
		if err := t.fillDuring(r, requests[from].At, requests[to].At); err != nil {
			return nil, err
		}
		denied, err := t.hasDenied(call)
		if err != nil {
			return nil, err
		}
		r.Denied = denied || !isOffered(requests[from].Tools, call.Name)
		r.Exit = 1 // a tool has none: what it says decides
	}
	return all, nil
}

// isOffered reports whether a tool is on offer, perhaps behind a prefix.
func isOffered(tools []string, name string) bool {
	return slices.ContainsFunc(tools, func(t string) bool { return t == name || strings.HasSuffix(t, "__"+name) })
}

// hasDenied reports whether the agent's CLI, or our tools, told that they refused a call.
func (t Trail) hasDenied(call fakemodel.ToolCall) (bool, error) {
	command, _ := call.Input["command"].(string)
	ids := map[string]bool{}
	for _, e := range t.Entries {
		switch e.Type {
		case nightcrier.EntryToolCall:
			c, err := journal.Decode[journal.ToolCall](e)
			if err != nil {
				return false, err
			}
			if c.ID != "" && command != "" && c.Command == command {
				ids[c.ID] = true
			}
		case nightcrier.EntryDenial:
			d, err := journal.Decode[journal.Denial](e)
			if err != nil {
				return false, err
			}
			if d.Request == nil && (ids[d.ID] || command != "" && d.Command == command) {
				return true, nil
			}
		}
	}
	return false, nil
}
