package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// opener starts a guard on a listener, which it takes over.
type opener func(context.Context, net.Listener) error

// guardOpeners are those that the agent gets, each on a port of its own. The tools read
// through the cluster's guard, so they come behind it.
func (a *attempt) guardOpeners() (all []opener) {
	if a.hasModel() {
		all = append(all, func(_ context.Context, l net.Listener) error { return a.openModel(l) })
	}
	if a.secret.Cluster != nil {
		all = append(all, a.tryCluster)
	}
	if a.hasTools() {
		all = append(all, a.openTools)
	}
	return all
}

// hasModel says whether the agent gets a way to a model.
func (a *attempt) hasModel() bool { return a.secret.ModelAPIKey != "" || a.spec.Keyless }

// hasTools says whether the agent gets our endpoint: one without a shell does, and
// every CLI where there is something that a shell cannot ask.
func (a *attempt) hasTools() bool {
	return a.executor.UsesTools || a.executor.ToolPrefix != "" && len(a.spec.ToolServers) > 0 || a.hasSources()
}

// openGuards starts the guards on the sandbox's listeners.
func (a *attempt) openGuards(ctx context.Context, guards []opener, listeners []net.Listener) (err error) {
	if !a.hasModel() && a.executor.NeedsModel {
		return authError{nightcrier.Errorf(nightcrier.Invalid, "executor %s needs a model key and there is none", a.executor.Name)}
	}
	if a.secret.Cluster != nil || a.hasTools() {
		if a.records, err = a.openRecords(); err != nil {
			return err
		}
	}
	for i, open := range guards {
		if err := open(ctx, listeners[i]); err != nil {
			return err
		}
	}
	return nil
}

// tryCluster starts the guard of the cluster. An agent can do without it.
func (a *attempt) tryCluster(_ context.Context, l net.Listener) (err error) {
	if a.cluster, err = a.openCluster(l, a.secret.Cluster, a.records); err != nil {
		a.appendNote("warn", "the agent cannot look into the cluster: "+err.Error())
	}
	return nil
}

func (a *attempt) openModel(l net.Listener) (err error) {
	cfg, err := a.modelConfig()
	if err == nil {
		a.guard, err = model.Start(l, cfg)
	}
	if err != nil {
		l.Close()
	}
	return err
}

// modelConfig opens the account and the record of the model's calls, and is the guard that they
// belong to.
func (a *attempt) modelConfig() (cfg model.Config, err error) {
	cfg = model.Config{Provider: a.modelProvider(), Upstream: a.spec.BaseURL, Key: a.secret.ModelAPIKey, Keyless: a.spec.Keyless, Failed: a.modelFailed, Refused: a.callRefused, Logger: a.log}
	cfg.MaxTokens, cfg.Mask = int64(a.spec.MaxTokens), a.secret.NewSeparateMasker("model").String
	if cfg.Prices, err = price.Defaults().With(a.spec.Prices); err != nil {
		return cfg, err
	}
	cfg.Models = a.allowedModels()
	if a.calls, err = a.openExchanges(); err != nil {
		a.appendNote("warn", "the calls of the model are not kept: "+err.Error())
	}
	calls := a.calls
	cfg.Record = func(x model.Exchange) {
		if calls != nil {
			calls.recordExchange(x)
		}
		a.noteAnswer(x)
	}
	if err := a.openAccount(); err != nil {
		return cfg, err
	}
	if a.account != nil {
		cfg.Budget, cfg.NeedsPrice, cfg.Spent = a.account, a.spec.Budget.InMoney(), a.outOfBudget
	}
	if a.executor.TurnsUncounted {
		cfg.Answers, cfg.Exhausted = a.spec.MaxTurns, func() { a.requestStop(outOfTurns(a.spec.MaxTurns)) }
	}
	return cfg, nil
}

// allowedModels are the names that the agent may ask for; none means any. A script's CLI asks
// for what it likes, and a CLI without a model chooses one: agent.models alone bounds
// these.
func (a *attempt) allowedModels() []string {
	if a.executor.Loop {
		return slices.Concat([]string{a.spec.Model}, a.spec.Fallbacks, a.spec.Models)
	}
	if a.spec.Model == "" || a.executor.Command == "" && len(a.spec.Models) == 0 {
		return a.spec.Models
	}
	return append(modelSpellings(a.spec.Model), a.spec.Models...)
}

// modelSpellings are the names that CLIs make of a model's: sonnet is claude-sonnet-5-5,
// flash gemini-2.5-flash, and auto whichever of Google's.
func modelSpellings(model string) []string {
	if short, ok := strings.CutSuffix(model, "[1m]"); ok { // with a longer context
		return append(modelSpellings(short), model)
	}
	switch model {
	case "opusplan":
		return append(modelSpellings("opus"), modelSpellings("sonnet")...)
	case "auto", "auto-gemini-2.5", "auto-gemini-3":
		return []string{model, "gemini-*"}
	}
	return []string{model, "claude-" + model + "-*", "gemini-*-" + model, "gemini-*-" + model + "-preview"}
}

// modelFailed ends an agent whose model asks it to wait for longer than it has left:
// some CLIs would, without a word.
func (a *attempt) modelFailed(f model.Failure) {
	if f.Unreachable != nil {
		why := f.Unreachable.Error()
		if a.unreachable.Swap(&why) == nil {
			a.appendNote("error", "the model's API cannot be reached: "+why)
		}
	}
	tooLong := f.RetryAfter > 0 && f.RetryAfter >= time.Until(a.began.Add(a.spec.Timeout))
	if tooLong || f.Status < http.StatusInternalServerError {
		a.refused.Store(true)
	}
	if tooLong {
		a.requestStop(abortCause(nightcrier.FailQuota, fmt.Sprintf("the model's API is not to be asked again for %s (HTTP %d)", f.RetryAfter, f.Status)))
	}
}

// callRefused notes what an agent asked of the model's API that was not passed on.
func (a *attempt) callRefused(call, why string) { a.blocked.noteAttempt("model", call, why) }

// modelProvider is whose API the agent's model guard speaks.
func (a *attempt) modelProvider() nightcrier.Provider {
	if a.spec.Provider == "" && len(a.executor.Providers) > 0 {
		return a.executor.Providers[0]
	}
	return a.spec.Provider
}

// closeGuards ends the model's guard and the answers to names, and notes what was asked
// of them. The cluster's guard stays until the result is known.
func (a *attempt) closeGuards() {
	if a.guard != nil {
		_ = a.guard.Close()
	}
	if a.calls != nil {
		a.calls.close()
	}
	a.names.close()
	a.blocked.noteSummary()
}
