package doctor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// checkAgents looks at who investigates: whether it is there and starts, and whether
// it has a key. What only other executors lack is a warning.
func checkAgents(ctx context.Context, cfg *config.Config, o Options) []Check {
	var checks []Check
	switch c := (Check{Code: CheckAgent, Name: cfg.Agent.Executor}); cfg.Agent.Executor {
	case config.Builtin:
		checks = []Check{c.asOK("reports the facts without a model")}
	case config.Script:
		checks = []Check{c.asOK(cfg.Agent.ScriptPath)}
		if cfg.Agent.APIKey.IsSet() {
			checks = append(checks, checkKey(ctx, cfg.Agent, o))
		}
	default:
		checks = checkCLI(ctx, cfg, cfg.Agent, o)
	}
	if !o.AllAgents {
		return checks
	}
	for _, cli := range agent.CLIs() {
		if cli.Name == cfg.Agent.Executor {
			continue
		}
		for _, c := range checkOther(ctx, cfg, cfg.AgentToLookAt(cli.Name), o) {
			if c.Status == statusFail {
				c.Status = statusWarn
			}
			checks = append(checks, c)
		}
	}
	return checks
}

// checkOther looks at an agent that is not the configured one. Where the address of its
// model is wrong, nothing is tried by another one.
func checkOther(ctx context.Context, cfg *config.Config, a config.Agent, o Options) []Check {
	if err := cfg.CheckAddress(a.Provider); err != nil && a.Provider != cfg.Agent.Provider {
		return []Check{Check{Code: CheckAgent, Name: a.Executor}.asFailed(err, "set it to what speaks the API of "+string(a.Provider)+", or not at all")}
	}
	return checkCLI(ctx, cfg, a, o)
}

func checkCLI(ctx context.Context, cfg *config.Config, a config.Agent, o Options) []Check {
	c := Check{Code: CheckAgent, Name: a.Executor}
	cli, err := agent.For(a.Executor)
	if err != nil {
		return []Check{c.asFailed(err, "")}
	}
	if cli.Loop { // there is no program to be tried
		key := checkPriced(cfg, a, []string{a.Model}, checkKey(ctx, a, o))
		return []Check{c.asOK("it is our own and needs no program"), key}
	}
	found, err := cli.Find(ctx, a.Command)
	if err != nil {
		hint := "run it by hand to see why, or install the version that was tested: " + cli.Install()
		if found.Path == "" {
			hint = cli.Install() + ", or set agent.command to its path"
		}
		return []Check{c.asFailed(err, hint), checkKey(ctx, a, o)}
	}
	worker, err := worker.ChooseCommand(o.WorkerCommand)
	if err != nil {
		return []Check{c.asFailed(err, "")}
	}
	without := a.Shell && agent.LacksKubectl(a.Executor)
	a.Shell = a.Shell && !without
	tried, models, err := tryWays(ctx, worker, a, cli, o.AllAgents)
	if err != nil {
		return []Check{c.asFailed(fmt.Errorf("%s does not work in its sandbox: %w; %s", versionText(found), err, found.Path), "install the version that was tested: "+cli.Install()), checkKey(ctx, a, o)}
	}
	c = c.asOK(fmt.Sprintf("%s works in its sandbox%s; %s", versionText(found), tried, found.Path))
	if !cli.Tested(found.Version) {
		c.Status, c.Hint = statusWarn, describeUntested(cli, found)+": "+cli.Install()
	}
	if without {
		c.Status, c.Detail = statusWarn, c.Detail+"; kubectl is not in PATH, so it looks with our tools"
		c.Hint = cmp.Or(c.Hint, "install kubectl, or set agent.shell to false")
	}
	key := checkKey(ctx, a, o)
	if a.Model != "" { // without one the CLI chooses, and the trial did for it
		key = checkPriced(cfg, a, models, key)
	}
	return []Check{c, key}
}

// tryWays tries an agent as it is configured, and without a shell where it can do so
// and both ways are of interest. It says what it found, and which models were asked for.
func tryWays(ctx context.Context, worker []string, a config.Agent, cli agent.Executor, both bool) (found string, models []string, err error) {
	t, err := tryAgent(ctx, worker, a)
	switch {
	case err != nil:
		return "", nil, err
	case cli.UsesTools || !a.Shell:
		return ", without a shell: " + t.String(), t.Models, nil
	case !both:
		return ": " + t.String(), t.Models, nil
	}
	a.Shell = false
	other, err := tryAgent(ctx, worker, a)
	if err != nil {
		return "", nil, fmt.Errorf("with agent.shell: false: %w", err)
	}
	return ": " + t.String() + "; without a shell: " + other.String(), t.Models, nil
}

func versionText(found agent.Installed) string { return cmp.Or(found.Version, "an unknown version") }

// describeUntested says that a version is none of those that were tested.
func describeUntested(cli agent.Executor, found agent.Installed) string {
	if found.Version == "" {
		return fmt.Sprintf("it does not say its version; %s was tested", cli.Versions[0])
	}
	return fmt.Sprintf("%s was not tested, %s was", found.Version, cli.Versions[0])
}

// checkKey looks at the key of an agent's model, and asks the provider only where
// that is wanted.
func checkKey(ctx context.Context, a config.Agent, o Options) Check {
	c, variable := Check{Code: CheckModel, Name: string(a.Provider)}, config.KeyVariables(a.Provider)[0]
	if !a.APIKey.IsSet() && !a.Keyless {
		return c.asFailed(fmt.Errorf("no key for the model of %s", a.Executor), "set "+variable+" in the server's environment")
	}
	if a.Keyless && !o.CheckKey {
		return c.asOK("no key is set, and none is sent to " + a.BaseURL + "; --check-key asks whether it answers")
	}
	if !o.CheckKey {
		return c.asOK("a key is set; --check-key asks whether it is accepted")
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	err := model.CheckKey(ctx, model.Config{Provider: a.Provider, Upstream: a.BaseURL, Key: a.APIKey.Reveal(), Keyless: a.Keyless, Logger: slog.New(slog.DiscardHandler)})
	switch nightcrier.CodeOf(err) {
	case "":
		if a.Keyless {
			return c.asOK(a.BaseURL + " answers without a key")
		}
		return c.asOK("the key is accepted")
	case nightcrier.Refused:
		return c.asFailed(err, "put a valid key into "+variable+", and look whether agent.provider and agent.base_url are meant")
	case nightcrier.Exhausted:
		c = c.asFailed(err, "look at the limits and the balance of its account")
		c.Status = statusWarn
		return c
	}
	return c.asFailed(err, "look at agent.base_url, and whether it can be reached from here")
}

// checkPriced fails where a model that the agent asks for, by the name that its CLI makes
// of agent.model, has no price while dollars are limited: each call of it is refused.
func checkPriced(cfg *config.Config, a config.Agent, models []string, c Check) Check {
	b := cfg.Budget
	if c.Status == statusFail || max(b.PerRunUSD, b.PerIncidentUSD, b.PerClusterDayUSD, b.PerDayUSD) == 0 {
		return c
	}
	prices, err := price.Defaults().With(a.Prices)
	if err != nil {
		return c.asFailed(err, "mend agent.prices")
	}
	for _, m := range models {
		if _, known := prices.Of(a.Provider, m); !known {
			return c.asFailed(fmt.Errorf("%s has no price, and dollars are limited: each call of it is refused", m),
				"add it to agent.prices, or set the budget.*_usd limits to 0")
		}
	}
	return c
}
