package app

import (
	"context"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/platform/chat"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// newChat is where people ask about incidents.
func (a *Investigator) newChat() *chat.Chat {
	return &chat.Chat{Store: a.store, Complete: a.completeAnswer, Told: a.tellEnqueued, Mask: a.masker.String, Now: a.opt.Now}
}

// completeAnswer adds to a run that is to answer what it needs, and refuses one that nobody would do.
func (a *Investigator) completeAnswer(ctx context.Context, n *store.NewRun) error {
	if err := a.completeRun(ctx, n); err != nil {
		return err
	}
	if n.Executor == config.Builtin {
		return nightcrier.Errorf(nightcrier.Conflict, "the built-in rules answer no questions: name an agent in agent.executor")
	}
	return nil
}
