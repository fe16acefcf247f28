package oneshot

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// ModelGuardOptions say what a command may spend on models.
type ModelGuardOptions struct {
	// USD is the most, in dollars.
	USD price.Money
	// Prices are those of the configuration.
	Prices []string
	// Out keeps the record of what is spent, in a directory of its own.
	Out string
	// Environ holds the keys; a guard stands before the API of each.
	Environ []string
	Logger  *slog.Logger
	Now     func() time.Time
}

// ModelGuards stand before the models whose keys an environment holds. Close ends them.
type ModelGuards struct {
	unset, set []string
	ledger     *budget.Ledger
	account    *account
	guards     []*model.Guard
}

// account is what a command may spend on all models together.
type account struct {
	*budget.Account

	mu  sync.Mutex
	why error // of the first call that was refused
}

// Reserve implements model.Budget.
func (p *account) Reserve(ctx context.Context, w model.Want) (model.Grant, error) {
	g, err := p.Account.Reserve(ctx, w, nil)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// noteRefusal keeps why.
func (p *account) noteRefusal(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil {
		p.why = err
	}
}

// loginVariables log in to a model's API in other ways than by a key.
var loginVariables = []string{"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}

// OpenModelGuards starts a guard for each key.
func OpenModelGuards(o ModelGuardOptions) (_ *ModelGuards, err error) {
	m := &ModelGuards{unset: slices.Clone(loginVariables)}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.closeAll())
		}
	}()
	if m.ledger, err = budget.Open(filepath.Join(o.Out, "budget"), o.Now); err != nil {
		return nil, err
	}
	prices, err := price.Defaults().With(o.Prices)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "agent.prices: %w", err)
	}
	m.account = &account{Account: m.ledger.Account(budget.Who{Run: nightcrier.NewID()}, budget.Limits{Run: budget.Limit{Money: o.USD}})}
	for _, p := range nightcrier.Providers() {
		if err := m.openGuard(p, o, prices); err != nil {
			return nil, err
		}
	}
	if len(m.guards) == 0 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "--budget-usd bounds what is spent by a key of the environment, and there is none: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY")
	}
	return m, nil
}

// openGuard starts the guard of one provider, where there is a key for it.
func (m *ModelGuards) openGuard(p nightcrier.Provider, o ModelGuardOptions, prices price.Table) error {
	keys, addresses := config.KeyVariables(p), config.AddressVariables(p)
	key := firstSet(o.Environ, keys)
	if key == "" {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "model guard: %w", err)
	}
	g, err := model.Start(l, model.Config{
		Provider: p, Upstream: firstSet(o.Environ, addresses), Key: key, Prices: prices, NeedsPrice: true,
		Unpriced: "in the file that --config names, or to NIGHTCRIER_AGENT_PRICES",
		Budget:   m.account, Spent: m.account.noteRefusal, Logger: o.Logger,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	m.guards = append(m.guards, g)
	address := g.URL()
	if p == nightcrier.OpenAI {
		address += "/v1" // its clients want the version there
	}
	m.unset = slices.Concat(m.unset, keys, addresses)
	m.set = append(m.set, keys[0]+"="+g.Token(), addresses[0]+"="+address)
	return nil
}

// firstSet is the first of the variables that is set.
func firstSet(environ, names []string) string {
	for _, name := range names {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
				return v
			}
		}
	}
	return ""
}

// Environ is an environment in which the guards and their tokens stand in the place of
// the APIs and their keys.
func (m *ModelGuards) Environ(environ []string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(m.unset, name)
	})
	return append(kept, m.set...)
}

// Close ends the guards and tells what was spent. The error is of code Exhausted when
// a call was refused because the budget did not allow it.
func (m *ModelGuards) Close() (Spent, error) {
	for _, g := range m.guards {
		_ = g.Close() // what is cut belongs to nobody any more
	}
	m.guards = nil
	sum, err := m.account.Used()
	m.account.mu.Lock()
	defer m.account.mu.Unlock()
	return spentOf(budget.Line{Sum: sum}, budget.Limit{}), errors.Join(m.account.why, err, m.closeAll())
}

func (m *ModelGuards) closeAll() (err error) {
	for _, g := range m.guards {
		err = errors.Join(err, g.Close())
	}
	if m.ledger != nil {
		err = errors.Join(err, m.ledger.Close())
	}
	return err
}
