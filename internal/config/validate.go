package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
)

// checkAll looks at what concerns several keys, the files that keys name, and
// decides what follows from other keys.
func (l *loader) checkAll(cfg *Config) {
	l.checkClusters(cfg)
	l.checkHooks(cfg)
	l.chooseExecutor(cfg)
	l.checkAgent(cfg)
	l.checkRunbooks(cfg)
	l.narrow(cfg)
	if err := checkWorkspaceRoot(cfg.WorkspaceRoot, l.environ["HOME"]); err != nil {
		l.problemAt(cfg, "workspace_root", err)
	}
	if cfg.HealthListen != "" && cfg.HealthListen == cfg.Listen && !strings.HasSuffix(cfg.Listen, ":0") {
		l.problemAt(cfg, "health_listen", errors.New("is the same address as listen: choose another port, or leave it out"))
	}
}

func (l *loader) problemAt(cfg *Config, key string, err error) {
	l.problem(cfg.origins[key], key, err)
}

// needs warns of something that one cluster or agent lacks; Check fails on it.
func (l *loader) needs(cfg *Config, key, text string) {
	l.warnings = append(l.warnings, Warning{Origin: cfg.origins[key], Key: key, Text: text, FailsCheck: true})
}

func (l *loader) checkClusters(cfg *Config) {
	names, endpoints := map[string]int{}, map[string]int{}
	for i := range cfg.Clusters {
		c, at := &cfg.Clusters[i], fmt.Sprintf("clusters[%d]", i)
		l.checkName(c, i, names)
		l.checkSource(cfg, c, i, endpoints)
		l.checkCredential(cfg, c, at)
	}
}

func (l *loader) checkCredential(cfg *Config, c *Cluster, at string) {
	if c.Kubeconfig == "" {
		if c.Watch && !l.failed(at+".kubeconfig") {
			l.problemAt(cfg, at+".watch", fmt.Errorf("needs a credential to read cluster %s with: set %s.kubeconfig", c.Name, at))
		}
		if c.Context != "" {
			l.needs(cfg, at+".context", "has no effect without a kubeconfig")
		}
		return
	}
	if err := readable(c.Kubeconfig); err != nil {
		so := "its incidents are investigated from the event alone"
		if c.Watch {
			so = "it is not watched before that can be read"
		}
		l.needs(cfg, at+".kubeconfig", fmt.Sprintf("cluster %s: %s %s: %s", c.Name, c.Kubeconfig, err, so))
	}
}

func (l *loader) checkName(c *Cluster, i int, names map[string]int) {
	at := fmt.Sprintf("clusters[%d].name", i)
	earlier, again := names[c.Name]
	switch {
	case c.Name == "" && !l.failed(at):
		l.problem(l.places[i], at, errors.New("is missing: every cluster needs a unique name"))
	case again && c.Name != "":
		l.problem(l.places[i], at, fmt.Errorf("%s is also the name of clusters[%d]: names are unique", c.Name, earlier))
	default:
		names[c.Name] = i
	}
}

// failed reports whether a key already has a problem of its own.
func (l *loader) failed(key string) bool {
	for _, p := range l.problems {
		if p.Key == key {
			return true
		}
	}
	return false
}

func (l *loader) checkSource(cfg *Config, c *Cluster, i int, endpoints map[string]int) {
	at := fmt.Sprintf("clusters[%d].mcp", i)
	if c.MCP.Endpoint == "" {
		if c.Name != "" && !l.failed(at+".endpoint") && !c.Watch && c.Alertmanager.TokenEnv == "" && len(cfg.Webhooks) == 0 {
			l.warn(l.places[i], at+".endpoint", fmt.Sprintf("is not set, and watch is false: no faults of cluster %s arrive", c.Name))
		}
		return
	}
	if earlier, again := endpoints[c.MCP.Endpoint]; again {
		l.warn(cfg.origins[at+".endpoint"], at+".endpoint", fmt.Sprintf("is also the endpoint of clusters[%d]: each fault will open two incidents", earlier))
	}
	endpoints[c.MCP.Endpoint] = i
	if c.MCP.APIKeyEnv == "" {
		return
	}
	key := l.environ[c.MCP.APIKeyEnv]
	if err := checkAPIKey(key); err != nil {
		l.problemAt(cfg, at+".api_key_env", fmt.Errorf("the value of %s %w", c.MCP.APIKeyEnv, err))
	} else if key == "" {
		l.needs(cfg, at+".api_key_env", fmt.Sprintf("the variable %s is not set: cluster %s is asked without a key", c.MCP.APIKeyEnv, c.Name))
	}
	c.MCP.APIKey = NewSecret(key)
}

// chooseExecutor applies the rule for a configuration that names no executor.
func (l *loader) chooseExecutor(cfg *Config) {
	a := &cfg.Agent
	if a.Executor != "" || l.failed("agent.executor") {
		return
	}
	reason := ""
	switch cli := namedCLI(a); {
	case a.ScriptPath != "":
		a.Executor, reason = Script, "agent.script_path is set"
	case cli != "" && cli != "claude":
		l.problemAt(cfg, "agent.cli", fmt.Errorf("%s is not available in this version: use claude, a script, or agent.executor: builtin", cli))
	case cli != "":
		a.Executor, reason = ClaudeCode, "a CLI is named"
	case a.APIKey.IsSet():
		a.Executor, reason = ClaudeCode, "a model key is set"
	default:
		a.Executor, reason = Builtin, "no model key is set"
	}
	cfg.origins["agent.executor"] = Origin{Layer: LayerDerived, Name: reason}
}

// namedCLI is the CLI that agent.cli or the name of agent.command asks for; a
// command of an unknown name is taken to speak claude's language.
func namedCLI(a *Agent) string {
	if a.CLI != "" || a.Command == "" {
		return a.CLI
	}
	switch base := filepath.Base(a.Command); base {
	case "codex", "gemini", "goose":
		return base
	}
	return "claude"
}

func (l *loader) checkAgent(cfg *Config) {
	a := &cfg.Agent
	switch a.Executor {
	case Script:
		l.checkScript(cfg)
	case ClaudeCode:
		l.checkCLI(cfg)
	}
	if a.ScriptPath != "" && a.Executor != Script {
		l.warn(cfg.origins["agent.script_path"], "agent.script_path", "has no effect: the executor is "+a.Executor)
	}
	if a.SystemPromptFile != "" {
		if err := readable(a.SystemPromptFile); err != nil {
			l.problemAt(cfg, "agent.system_prompt_file", fmt.Errorf("%s %w", a.SystemPromptFile, err))
		}
	}
	if dir := cfg.Skills.CacheDir; dir != "" && !isDirectory(dir) {
		l.needs(cfg, "skills.cache_dir", dir+" is not a directory: the embedded skill is used")
	}
	if path := cfg.Skills.TriageScript; path != "" {
		if err := executable(path); err != nil {
			l.needs(cfg, "skills.triage_script", fmt.Sprintf("%s %s: agents start without its output", path, err))
		}
	}
	if cfg.Sandbox.Require == "none" {
		l.warn(cfg.origins["sandbox.require"], "sandbox.require", "none: agents start even when nothing isolates them")
	}
}

// checkCLI looks for what claude-code needs: a key and the command.
func (l *loader) checkCLI(cfg *Config) {
	if !cfg.Agent.APIKey.IsSet() {
		l.needs(cfg, "agent.api_key", "is not set: claude-code cannot reach a model; set ANTHROPIC_API_KEY or use agent.executor: builtin")
	}
	command := cfg.Agent.Command
	switch {
	case strings.Contains(command, "/"):
		if err := executable(command); err != nil {
			l.problemAt(cfg, "agent.command", fmt.Errorf("%s %w", command, err))
		}
	case !l.inPath(cmp.Or(command, "claude")):
		l.needs(cfg, "agent.command", cmp.Or(command, "claude")+" is not in PATH: install it, name its path, or use agent.executor: builtin")
	}
}

// inPath reports whether a command can be found; it holds back where the
// environment has no PATH.
func (l *loader) inPath(command string) bool {
	dirs := filepath.SplitList(l.environ["PATH"])
	for _, dir := range dirs {
		if executable(filepath.Join(dir, command)) == nil {
			return true
		}
	}
	return len(dirs) == 0
}

func (l *loader) checkScript(cfg *Config) {
	path := cfg.Agent.ScriptPath
	if path == "" {
		l.problemAt(cfg, "agent.script_path", errors.New("is not set, and agent.executor is script: name the executable"))
		return
	}
	if err := executable(path); err != nil {
		l.problemAt(cfg, "agent.script_path", fmt.Errorf("%s %w", path, err))
	}
}

func (l *loader) narrow(cfg *Config) {
	kept, notes := narrowTools(cfg.Agent.AllowedTools)
	cfg.Agent.AllowedTools = kept
	if len(notes) > 0 {
		l.warn(cfg.origins["agent.allowed_tools"], "agent.allowed_tools", strings.Join(notes, "; "))
	}
}

// checkFileMode warns when others can read secrets out of the file.
func (l *loader) checkFileMode(name string) {
	for _, s := range l.settings {
		if !s.key.typ.secret || s.origin.Layer != LayerFile {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o004 != 0 {
			l.warn(s.origin, s.path, "every user of this machine can read this file: chmod 600 it, or use "+s.key.env())
		}
		return
	}
}

func readable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("cannot be read (%w)", cause(err))
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot be read (%w)", cause(err))
	}
	return f.Close()
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("cannot be run (%w)", cause(err))
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case info.Mode().Perm()&0o111 == 0:
		return errors.New("is not executable: chmod +x it")
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Check does what Load does, and also fails on warnings that say that
// something configured cannot work. It is what a person runs before a start.
func Check(o Options) ([]Warning, error) {
	_, warnings, err := Load(o)
	var found Problems
	errors.As(err, &found)
	var rest []Warning
	for _, w := range warnings {
		if w.FailsCheck {
			found = append(found, Problem{Code: nightcrier.Invalid, Origin: w.Origin, Key: w.Key, Text: w.Text})
		} else {
			rest = append(rest, w)
		}
	}
	return rest, failure(found)
}
