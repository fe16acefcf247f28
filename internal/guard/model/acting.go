package model

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// acting are pieces of the names of models that act by themselves, at the provider and
// unasked: they search and read the web, run code, or send others to. No field of a
// request says so, and none keeps them from it.
var acting = []string{":online", "search", "research", "sonar", "compound", "computer-use", "alltools"}

func actsByItself(model string) bool {
	model = strings.ToLower(model)
	return slices.ContainsFunc(acting, func(piece string) bool { return strings.Contains(model, piece) })
}

// checkModel refuses a model that the run is not for, and one that acts by itself unless the
// configuration has its very name: a pattern may have been meant for others.
func (g *Guard) checkModel(model string) error {
	if actsByItself(model) && !slices.Contains(g.cfg.Models, model) {
		return fmt.Errorf("the model %.64q is not asked: it acts by itself at the provider, as those do that search the web, and neither agent.model nor agent.models has this very name", model)
	}
	if len(g.cfg.Models) == 0 || slices.ContainsFunc(g.cfg.Models, func(pattern string) bool { return price.Fits(pattern, model) }) {
		return nil
	}
	return fmt.Errorf("the model %.64q is not asked: it is not agent.model, and agent.models does not name it", model)
}
