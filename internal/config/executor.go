package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// Executors are the names of all who can investigate.
func Executors() []string {
	names := []string{Builtin, Script}
	for _, e := range modelled() {
		if !e.SingleCall {
			names = append(names, e.Name)
		}
	}
	return names
}

// modelled are the executors that ask a model by themselves: the CLIs, and our own.
func modelled() []agent.Executor {
	return slices.DeleteFunc(agent.Executors(), func(e agent.Executor) bool { return !e.Loop && e.Command == "" })
}

// modelledOf returns the executor of that name, if it is one that asks a model.
func modelledOf(executor string) (agent.Executor, bool) {
	return firstThat(modelled(), func(e agent.Executor) bool { return e.Name == executor })
}

func cliThat(fits func(agent.Executor) bool) (agent.Executor, bool) {
	return firstThat(agent.CLIs(), fits)
}

func firstThat(all []agent.Executor, fits func(agent.Executor) bool) (agent.Executor, bool) {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i], true
	}
	return agent.Executor{}, false
}

// modelAPI is how one provider's models are reached.
type modelAPI struct {
	baseURL string
	key     Secret
	wrong   error // with what was set: it is not as if nothing were
}

// chooseExecutor applies the rule for a configuration that names no executor.
func (l *loader) chooseExecutor(cfg *Config) {
	a := &cfg.Agent
	if a.Executor != "" || l.hasProblem("agent.executor") {
		return
	}
	executor, reason := Builtin, "no model key is set"
	if a.ScriptPath != "" {
		executor, reason = Script, "agent.script_path is set"
	} else if command := namedCLI(a); command != "" {
		cli, _ := cliThat(func(e agent.Executor) bool { return e.Command == command }) // agent.cli is one of them
		executor, reason = cli.Name, "a CLI is named"
	} else if cli, why := l.keyedCLI(a); why != "" {
		executor, reason = cli, why
	}
	a.Executor = executor
	cfg.origins["agent.executor"] = Origin{Layer: LayerDerived, Name: reason}
}

// namedCLI is the CLI that agent.cli or the name of agent.command asks for; a
// command of an unknown name is taken to speak claude's language.
func namedCLI(a *Agent) string {
	if a.CLI != "" || a.Command == "" {
		return a.CLI
	}
	base := filepath.Base(a.Command)
	if cli, ok := cliThat(func(e agent.Executor) bool { return e.Command == base || e.Alias == base }); ok {
		return cli.Command
	}
	return "claude"
}

// cliWords are the CLIs as AGENT_CLI calls them.
func cliWords() (words []string) {
	for _, cli := range agent.CLIs() {
		words = append(words, cli.Command)
	}
	return words
}

// keyedCLI is the executor that the configured provider, or else the model key that
// is set, belongs to, and why. Variables such as OPENAI_API_KEY serve many programs:
// except for claude, a key alone decides only where its CLI is installed.
func (l *loader) keyedCLI(a *Agent) (executor, why string) {
	for _, cli := range agent.CLIs() {
		usual := cli.Providers[0]
		switch {
		case a.Provider != "":
			if a.Provider == usual {
				return cli.Name, "agent.provider is " + string(usual)
			}
		case l.hasKey(usual) && (cli.Name == ClaudeCode || l.isInstalled(cli)):
			return cli.Name, "a model key is set"
		}
	}
	return "", ""
}

// hasKey reports whether a key is set that is that provider's, or may be anybody's
// and so is taken to be the first one's.
func (l *loader) hasKey(p nightcrier.Provider) bool {
	return slices.ContainsFunc(l.settings, func(s setting) bool {
		return s.key.path == "agent.api_key" && cmp.Or(s.provider, nightcrier.Anthropic) == p
	})
}

// chooseProvider decides whose API is used, takes what is set for it, and forgets
// what is another one's, but for its address and key: another executor may be asked
// for later.
func (l *loader) chooseProvider(cfg *Config) {
	a := &cfg.Agent
	if a.Provider == "" {
		a.Provider = providersOf(a.Executor, a.CLI)[0]
		cfg.origins["agent.provider"] = Origin{Layer: LayerDerived, Name: "the usual one of " + a.Executor}
	}
	if cli, ok := modelledOf(a.Executor); ok && !slices.Contains(cli.Providers, a.Provider) {
		l.problemAt(cfg, "agent.provider", fmt.Errorf("%s cannot use %s: use %s, or another agent.executor", cli.Name, a.Provider, texts.JoinWords(providerWords(cli.Providers), "or")))
	}
	if a.Model == "" {
		a.Model = defaultModel(a.Executor, a.Provider)
		cfg.origins["agent.model"] = Origin{Layer: LayerDerived, Name: "the usual one of " + a.Executor}
	}
	cfg.models = l.modelAPIs()
	l.settings = slices.DeleteFunc(l.settings, func(s setting) bool { return s.provider != "" && (s.provider != a.Provider || l.reportIfWrong(s)) })
}

// reportIfWrong reports what is wrong with a setting that was given by a provider's name.
func (l *loader) reportIfWrong(s setting) bool {
	if s.err != nil {
		l.addProblem(s.origin, s.path, s.err)
	}
	return s.err != nil
}

// modelAPIs is what was set by the providers' own names.
func (l *loader) modelAPIs() map[nightcrier.Provider]modelAPI {
	all := map[nightcrier.Provider]modelAPI{}
	for _, s := range l.settings {
		if s.provider == "" {
			continue
		}
		m := all[s.provider]
		if s.err != nil {
			m.wrong = fmt.Errorf("%s %w", s.origin.Name, s.err)
			all[s.provider] = m
			continue
		}
		switch v := s.value.(type) {
		case Secret:
			m.key = v
		case string:
			m.baseURL = v
		}
		all[s.provider] = m
	}
	return all
}

// providersOf are those that an executor can use, the usual one first; a script is
// taken to use the CLI that it was told.
func providersOf(executor, cli string) []nightcrier.Provider {
	e, ok := modelledOf(executor)
	if !ok && executor == Script {
		e, ok = cliThat(func(e agent.Executor) bool { return e.Command == cli })
	}
	if !ok {
		return []nightcrier.Provider{nightcrier.Anthropic}
	}
	return e.Providers
}

// defaultModel is what is asked for where no model is configured. Scripts have
// always been told sonnet.
func defaultModel(executor string, p nightcrier.Provider) string {
	if e, ok := modelledOf(executor); ok {
		return e.DefaultModel
	}
	if p == nightcrier.Anthropic {
		return "sonnet"
	}
	return ""
}

// checkCLI looks for what a CLI needs: a key, perhaps a model, and the command.
func (l *loader) checkCLI(cfg *Config, cli agent.Executor) {
	a := &cfg.Agent
	if cli.NeedsModel && !a.APIKey.IsSet() && !a.Keyless && !l.hasProblem("agent.provider") {
		l.addNeed(cfg, "agent.api_key", fmt.Sprintf("is not set: %s cannot reach a model; set %s or use agent.executor: builtin", cli.Name, KeyVariables(a.Provider)[0]))
	}
	if cli.NamesModel && a.Model == "" {
		l.problemAt(cfg, "agent.model", fmt.Errorf("is not set, and %s has none of its own: name a model of %s there or in AGENT_MODEL", cli.Name, a.Provider))
	}
	switch command := cmp.Or(a.Command, cli.Command); {
	case cli.Loop:
	case strings.Contains(command, "/"):
		if err := checkExecutable(command); err != nil {
			l.problemAt(cfg, "agent.command", fmt.Errorf("%s %w", command, err))
		}
	case !l.inPath(command) && (a.Command != "" || cli.Alias == "" || !l.inPath(cli.Alias)):
		l.addNeed(cfg, "agent.command", fmt.Sprintf("%s is not in PATH: install it (%s), name its path, or use agent.executor: builtin", command, cli.Install()))
	}
}

// isKeyless reports whether the model is one that is asked without a key: a server that
// speaks the API of OpenAI or Anthropic, by plain http on this machine or in a private
// network, with no key set.
func (a *Agent) isKeyless() bool {
	return !a.APIKey.IsSet() && a.Provider != nightcrier.Google && isLocal(a.BaseURL)
}

// checkKey refuses to send a key in the open.
func (a *Agent) checkKey() error {
	if !a.APIKey.IsSet() {
		return nil
	}
	return checkEncrypted(a.BaseURL, "the model API key")
}

// checkShell says whether the executor is one that works without a shell, where it
// is to have none.
func (a *Agent) checkShell() error {
	e, err := agent.For(a.Executor)
	if err != nil || a.Shell { // the built-in rules have none
		return nil
	}
	_, err = e.WithoutShell()
	return err
}

// KeyVariables are the environment variables that a provider's key may stand in, the
// usual one first.
func KeyVariables(p nightcrier.Provider) []string { return variablesOf("agent.api_key", p) }

// AddressVariables are the same for the address of its API.
func AddressVariables(p nightcrier.Provider) []string { return variablesOf("agent.base_url", p) }

func variablesOf(path string, p nightcrier.Provider) (names []string) {
	all := allKeys()
	for _, s := range all[slices.IndexFunc(all, func(k key) bool { return k.path == path })].also {
		if s.provider == p {
			names = append(names, s.name)
		}
	}
	return names
}

// AgentFor is the configuration's agent, with another executor in its place. Its
// command and its model go with it where they are another CLI's; the key is that of
// its provider, unset where there is none.
func (c *Config) AgentFor(executor string) (Agent, error) {
	a, err := c.agentOn(executor)
	if err == nil {
		err = a.checkModel()
	}
	if err != nil {
		return Agent{}, err
	}
	return a, nil
}

// checkModel says that a model has to be named and is not.
func (a *Agent) checkModel() error {
	if who, _ := modelledOf(a.Executor); who.NamesModel && a.Model == "" {
		return nightcrier.Errorf(nightcrier.Invalid, "executor %s needs agent.model: name a model of %s", a.Executor, a.Provider)
	}
	return nil
}

// agentOn is AgentFor, where the model may be named by somebody else.
func (c *Config) agentOn(executor string) (Agent, error) {
	a := c.Agent
	if executor == a.Executor || executor == "" {
		return a, nil
	}
	if !slices.Contains(Executors(), executor) {
		return Agent{}, nightcrier.Errorf(nightcrier.Invalid, "executor %s is not one of %s", quoteValue(executor), texts.JoinWords(Executors(), "or"))
	}
	if executor == Script && a.ScriptPath == "" {
		return Agent{}, nightcrier.Errorf(nightcrier.Invalid, "executor script needs agent.script_path: name the executable")
	}
	a.Executor, a.Command = executor, ""
	if usable := providersOf(executor, a.CLI); !slices.Contains(usable, a.Provider) {
		a.Provider, a.Model = usable[0], ""
	}
	if c.origins["agent.model"].Layer <= LayerDerived {
		a.Model = ""
	}
	if err := a.checkShell(); err != nil {
		return Agent{}, err
	}
	a.Model = cmp.Or(a.Model, defaultModel(executor, a.Provider))
	return a, c.reachModel(&a)
}

// reachModel has an agent reach its provider, where that is another one than the configured.
func (c *Config) reachModel(a *Agent) error {
	if a.Provider != c.Agent.Provider {
		m := c.models[a.Provider]
		if m.wrong != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "executor %s: %w", a.Executor, m.wrong)
		}
		a.BaseURL, a.APIKey = m.baseURL, m.key
	}
	a.Keyless = a.isKeyless()
	if err := a.checkKey(); err != nil {
		return fmt.Errorf("the base URL of %s %w", a.Provider, err)
	}
	return nil
}

// CheckAddress says what is wrong with the address that was set for a provider that is
// not in use.
func (c *Config) CheckAddress(p nightcrier.Provider) error { return c.models[p].wrong }

// ModelKey is the key for a provider, unset where there is none.
func (c *Config) ModelKey(p nightcrier.Provider) Secret {
	if p == c.Agent.Provider {
		return c.Agent.APIKey
	}
	return c.models[p].key
}

// ModelKeys are all keys that were found, in use or not.
func (c *Config) ModelKeys() []Secret {
	all := []Secret{c.Agent.APIKey}
	for _, m := range c.models {
		all = append(all, m.key)
	}
	return all
}

func providerWords(providers []nightcrier.Provider) []string {
	list := make([]string, len(providers))
	for i, p := range providers {
		list[i] = string(p)
	}
	return list
}

// isInstalled reports whether a command is in PATH, for certain.
func (l *loader) isInstalled(cli agent.Executor) bool {
	return l.environ["PATH"] != "" && l.inPath(cli.Command)
}

// AgentToLookAt is another executor as this configuration would have it; one that lacks a
// model's name can be looked at without.
func (c *Config) AgentToLookAt(executor string) Agent {
	if a, err := c.AgentFor(executor); err == nil {
		return a
	}
	e, err := agent.For(executor)
	if err != nil || len(e.Providers) == 0 {
		return Agent{Spec: agent.Spec{Executor: executor, Shell: c.Agent.Shell}}
	}
	p := e.Providers[0]
	spec := agent.Spec{Executor: executor, Provider: p, MaxTurns: c.Agent.MaxTurns, AllowedTools: c.Agent.AllowedTools, Shell: c.Agent.Shell, Require: c.Agent.Require}
	return Agent{Spec: spec, APIKey: c.ModelKey(p)}
}
