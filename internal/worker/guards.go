package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/price"
)

// guards is how many guards the agent gets, each on a port of its own.
func (a *attempt) guards() int {
	n := 0
	if a.hasModel() {
		n++
	}
	if a.secret.Cluster != nil {
		n++
	}
	if a.hasTools() {
		n++
	}
	return n
}

// hasModel says whether the agent gets a way to a model.
func (a *attempt) hasModel() bool { return a.secret.ModelAPIKey != "" || a.spec.Keyless }

// hasTools says whether the agent gets our endpoint: one without a shell does, and
// every CLI where there is something that a shell cannot ask.
func (a *attempt) hasTools() bool {
	return a.executor.UsesTools || a.executor.ToolPrefix != "" && len(a.spec.ToolServers) > 0 || a.hasSources()
}

// openGuards starts the guards on the box's listeners, which they take over.
func (a *attempt) openGuards(ctx context.Context) error {
	if !a.hasModel() && a.executor.NeedsModel {
		return authError{nightcrier.Errorf(nightcrier.Invalid, "executor %s needs a model key and there is none", a.executor.Name)}
	}
	free := a.box.Listeners()
	var err error
	if a.secret.Cluster != nil || a.hasTools() {
		if a.records, err = a.openRecords(); err != nil {
			return err
		}
	}
	if a.hasModel() {
		if err := a.openModel(free[0]); err != nil {
			return err
		}
		free = free[1:]
	}
	if a.secret.Cluster != nil {
		if a.cluster, err = a.openCluster(free[0], a.secret.Cluster, a.records); err != nil {
			a.note("warn", "the agent cannot look into the cluster: "+err.Error())
		}
		free = free[1:]
	}
	if a.hasTools() {
		return a.openTools(ctx, free[0])
	}
	return nil
}

func (a *attempt) openModel(l net.Listener) (err error) {
	cfg := model.Config{Provider: a.provider(), Upstream: a.spec.ModelBaseURL, Key: a.secret.ModelAPIKey, Keyless: a.spec.Keyless, Failed: a.modelFailed, Refused: a.callRefused, Logger: a.log}
	cfg.MaxTokens, cfg.Mask = int64(a.spec.MaxTokens), a.secret.masker().String
	if cfg.Prices, err = price.Defaults().With(a.spec.Prices); err != nil {
		l.Close()
		return err
	}
	cfg.Models = a.models()
	if a.calls, err = a.openExchanges(); err != nil {
		a.note("warn", "the calls of the model are not kept: "+err.Error())
	} else {
		cfg.Record = a.calls.record
	}
	if err := a.openPurse(); err != nil {
		l.Close()
		return err
	}
	if a.purse != nil {
		cfg.Budget, cfg.NeedsPrice, cfg.Spent = a.purse, a.spec.Budget.Limits.InMoney(), a.outOfBudget
	}
	if a.executor.TurnsUncounted {
		cfg.Answers, cfg.Exhausted = a.spec.MaxTurns, func() { a.stop(outOfTurns(a.spec.MaxTurns)) }
	}
	a.guard, err = model.Start(l, cfg)
	if err != nil {
		l.Close()
	}
	return err
}

// models are the names that the agent may ask for; none means any. A script has its
// CLI ask for what it likes, and a CLI without a model chooses: those are bound by what
// is configured alone.
func (a *attempt) models() []string {
	if a.spec.Model == "" || a.executor.Command == "" && len(a.spec.Models) == 0 {
		return a.spec.Models
	}
	return append(spellings(a.spec.Model), a.spec.Models...)
}

// spellings are the names that CLIs make of a model's: sonnet is claude-sonnet-5-5,
// flash gemini-2.5-flash, and auto whichever of Google's.
func spellings(model string) []string {
	if short, ok := strings.CutSuffix(model, "[1m]"); ok { // with a longer context
		return append(spellings(short), model)
	}
	switch model {
	case "opusplan":
		return append(spellings("opus"), spellings("sonnet")...)
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
			a.note("error", "the model's API cannot be reached: "+why)
		}
	}
	tooLong := f.RetryAfter > 0 && f.RetryAfter >= time.Until(a.began.Add(a.spec.Timeout))
	if tooLong || f.Status < http.StatusInternalServerError {
		a.refused.Store(true)
	}
	if f.Status == http.StatusUnauthorized {
		a.unauthorized.Store(true)
	}
	if tooLong {
		a.stop(aborted(nightcrier.FailQuota, fmt.Sprintf("the model's API is not to be asked again for %s (HTTP %d)", f.RetryAfter, f.Status)))
	}
}

// callRefused notes what an agent asked of the model's API that was not passed on.
func (a *attempt) callRefused(call, why string) { a.blocked.note("model", call, why) }

// provider is whose API the agent's model guard speaks.
func (a *attempt) provider() nightcrier.Provider {
	if a.spec.Provider == "" && len(a.executor.Providers) > 0 {
		return a.executor.Providers[0]
	}
	return a.spec.Provider
}

// settle ends the model's guard, once: the agent is gone, what is cut belongs to
// nobody any more, and what was asked is counted and on record.
func (a *attempt) settle() {
	if a.guard != nil {
		_ = a.guard.Close()
	}
	if a.calls != nil {
		a.calls.close()
		a.calls = nil
	}
	a.names.close()
	a.blocked.tell()
}
