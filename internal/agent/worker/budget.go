package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/model"
)

// runAccount is a run's part of the record of what all workers spend.
type runAccount struct {
	ledger  *budget.Ledger
	account *budget.Account
	note    func(level, text string)

	mu      sync.Mutex
	waits   int // calls that had to wait for others
	waiting time.Duration
}

// openAccount opens the record; its errors keep the agent from being started, as nobody
// could say what it spends.
func (a *attempt) openAccount() error {
	if a.spec.BudgetDir == "" {
		return nil
	}
	ledger, err := budget.Open(a.spec.BudgetDir, time.Now)
	if err != nil {
		return budgetError{err}
	}
	a.account = &runAccount{ledger: ledger, account: ledger.Account(a.spec.Spender(), a.spec.Budget), note: a.appendNote}
	return nil
}

// Reserve implements model.Budget.
func (p *runAccount) Reserve(ctx context.Context, w model.Want) (model.Grant, error) {
	var began time.Time
	g, err := p.account.Reserve(ctx, w, func(why string) {
		began = time.Now()
		p.beginWait(why)
	})
	if !began.IsZero() {
		p.endWait(time.Since(began))
	}
	if err != nil {
		return nil, err // and no grant that is not nil
	}
	return g, nil
}

// beginWait notes the first wait of a run; the others are counted.
func (p *runAccount) beginWait(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits++; p.waits == 1 {
		p.note("info", "waiting for budget held by others: "+why)
	}
}

func (p *runAccount) endWait(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += waited
}

// close notes how often the run's calls waited, and for how long in all.
func (p *runAccount) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits > 0 {
		p.note("info", fmt.Sprintf("calls of the model waited for budget held by others: %d, for %s in all", p.waits, p.waiting.Round(time.Millisecond)))
	}
	_ = p.ledger.Close() // what it holds is on disk
}

// budgetError marks a start that failed for want of a usable budget.
type budgetError struct{ error }

func (e budgetError) Unwrap() error { return e.error }

// outOfBudget ends an agent of which a call was refused: whatever it asks next would be
// as well.
func (a *attempt) outOfBudget(err error) {
	a.lacksRoom("the record of what is spent", err)
	a.requestStop(abortCause(nightcrier.FailBudget, err.Error()))
}
