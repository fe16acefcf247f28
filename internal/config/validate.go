package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/portable"
)

// checkAll looks at what concerns several keys, the files that keys name, and
// decides what follows from other keys.
func (l *loader) checkAll(cfg *Config) {
	l.checkHooks(cfg)
	l.checkClusters(cfg)
	l.checkAgent(cfg)
	l.checkToolServers(cfg)
	l.checkRunbooks(cfg)
	l.checkPipelines(cfg)
	l.checkSkills(cfg)
	l.narrowTools(cfg)
	if err := checkWorkspaceRoot(cfg.WorkspaceRoot, l.environ["HOME"]); err != nil {
		l.problemAt(cfg, "workspace_root", err)
	}
	l.placeHealth(cfg)
	l.checkPage(cfg)
	if cfg.HealthListen != "" && cfg.HealthListen == cfg.Listen && !strings.HasSuffix(cfg.Listen, ":0") {
		l.problemAt(cfg, "health_listen", errors.New("is the same address as listen: choose another port, or leave it out"))
	}
}

// defaultHealth is where a server is asked how it is that was told of no address.
const defaultHealth = "127.0.0.1:8080"

// placeHealth leaves health where the API listens, if listen says where, and opens no
// port that nobody spoke of, if it says none.
func (l *loader) placeHealth(cfg *Config) {
	_, said := cfg.origins["health_listen"]
	if at, decided := cfg.origins["listen"]; decided && !said {
		cfg.HealthListen = ""
		cfg.origins["health_listen"] = Origin{Layer: LayerDerived, Name: "listen is set by " + at.String()}
	}
}

func (l *loader) problemAt(cfg *Config, key string, err error) {
	l.addProblem(cfg.origins[key], key, err)
}

// addNeed warns of something that one cluster or agent lacks; Check fails on it.
func (l *loader) addNeed(cfg *Config, key, text string) {
	l.warnings = append(l.warnings, Warning{Origin: cfg.origins[key], Key: key, Text: text, FailsCheck: true})
}

func (l *loader) checkClusters(cfg *Config) {
	names, endpoints := map[string]int{}, map[string]int{}
	for i := range cfg.Clusters {
		c, at := &cfg.Clusters[i], fmt.Sprintf("clusters[%d]", i)
		l.checkName(names, "clusters", c.Name, i, l.places[i], "every cluster needs a unique name")
		l.checkSource(cfg, c, i, endpoints)
		l.checkCredential(cfg, c, at)
		l.checkSources(cfg, c, at)
	}
}

func (l *loader) checkCredential(cfg *Config, c *Cluster, at string) {
	if c.Kubeconfig == "" {
		if c.Watch && !l.hasProblem(at+".kubeconfig") {
			l.problemAt(cfg, at+".watch", fmt.Errorf("needs a credential to read the cluster with: set %s.kubeconfig", at))
		}
		if c.Context != "" {
			l.addNeed(cfg, at+".context", "has no effect without a kubeconfig")
		}
		return
	}
	if err := checkReadable(c.Kubeconfig); err != nil {
		so := "its incidents are investigated from the event alone"
		if c.Watch {
			so = "it is not watched before that can be read"
		}
		l.addNeed(cfg, at+".kubeconfig", fmt.Sprintf("cluster %s: %s %s: %s", c.Name, c.Kubeconfig, err, so))
	}
}

// checkName looks at the name of the i-th entry of a list: it has one, and no other has the
// same. Names are those of the entries before it.
func (l *loader) checkName(names map[string]int, list, name string, i int, place Origin, use string) {
	at := fmt.Sprintf("%s[%d].name", list, i)
	earlier, again := names[name]
	switch {
	case name == "" && !l.hasProblem(at):
		l.addProblem(place, at, errors.New("is missing: "+use))
	case again && name != "":
		l.addProblem(place, at, fmt.Errorf("%s is also the name of %s[%d]: names are unique", name, list, earlier))
	default:
		names[name] = i
	}
}

// hasProblem reports whether a key already has a problem of its own.
func (l *loader) hasProblem(key string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Key == key })
}

func (l *loader) checkSource(cfg *Config, c *Cluster, i int, endpoints map[string]int) {
	at := fmt.Sprintf("clusters[%d].mcp", i)
	if c.MCP.Endpoint == "" {
		if c.Name != "" && !l.hasProblem(at+".endpoint") && !c.Watch && !c.Alertmanager.Given && len(cfg.Webhooks) == 0 {
			l.addWarning(l.places[i], at+".endpoint", fmt.Sprintf("is not set, and watch is false: no faults of cluster %s arrive, unless this machine posts alerts of it; `alertmanager: {}` says that it does", c.Name))
		}
		return
	}
	if earlier, again := endpoints[c.MCP.Endpoint]; again {
		l.addWarning(cfg.origins[at+".endpoint"], at+".endpoint", fmt.Sprintf("is also the endpoint of clusters[%d]: each fault will open two incidents", earlier))
	}
	endpoints[c.MCP.Endpoint] = i
	if c.MCP.APIKeyEnv == "" {
		return
	}
	key := l.environ[c.MCP.APIKeyEnv]
	if err := checkAPIKey(key); err != nil {
		l.problemAt(cfg, at+".api_key_env", fmt.Errorf("the value of %s %w", c.MCP.APIKeyEnv, err))
	} else if key == "" {
		l.addNeed(cfg, at+".api_key_env", fmt.Sprintf("the variable %s is not set: cluster %s is asked without a key", c.MCP.APIKeyEnv, c.Name))
	}
	c.MCP.APIKey = NewSecret(key)
}

func (l *loader) checkAgent(cfg *Config) {
	a := &cfg.Agent
	a.Keyless = a.isKeyless()
	if cli, ok := modelledOf(a.Executor); ok {
		l.checkCLI(cfg, cli)
	} else if a.Executor == Script {
		l.checkScript(cfg)
	}
	if err := a.checkKey(); err != nil {
		l.problemAt(cfg, "agent.base_url", err)
	}
	if err := a.checkShell(); err != nil {
		l.problemAt(cfg, "agent.shell", err)
	}
	if a.ScriptPath != "" && a.Executor != Script {
		l.addWarning(cfg.origins["agent.script_path"], "agent.script_path", "has no effect: the executor is "+a.Executor)
	}
	if a.SystemPromptFile != "" {
		if err := checkReadable(a.SystemPromptFile); err != nil {
			l.problemAt(cfg, "agent.system_prompt_file", fmt.Errorf("%s %w", a.SystemPromptFile, err))
		}
	}
	if dir := cfg.Skills.CacheDir; dir != "" && !isDirectory(dir) {
		l.addNeed(cfg, "skills.cache_dir", dir+" is not a directory: the embedded skill is used")
	}
	if path := cfg.Skills.TriageScript; path != "" {
		if err := checkExecutable(path); err != nil {
			l.addNeed(cfg, "skills.triage_script", fmt.Sprintf("%s %s: agents start without its output", path, err))
		}
	}
	if cfg.Agent.Require == "none" {
		l.addWarning(cfg.origins["sandbox.require"], "sandbox.require", "none: agents start even when nothing isolates them")
	}
}

// inPath reports whether a command can be found; it holds back where the
// environment has no PATH.
func (l *loader) inPath(command string) bool {
	dirs := filepath.SplitList(l.environ["PATH"])
	for _, dir := range dirs {
		if checkExecutable(filepath.Join(dir, command)) == nil {
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
	if err := checkExecutable(path); err != nil {
		l.problemAt(cfg, "agent.script_path", fmt.Errorf("%s %w", path, err))
	}
}

func (l *loader) narrowTools(cfg *Config) {
	allowed, notes := readonly.Parse(cfg.Agent.AllowedTools)
	cfg.Agent.AllowedTools = allowed.Words()
	if len(notes) > 0 {
		l.addWarning(cfg.origins["agent.allowed_tools"], "agent.allowed_tools", strings.Join(notes, "; "))
	}
}

// checkFileMode warns when others can read secrets out of the file.
func (l *loader) checkFileMode(name string) {
	for _, s := range l.settings {
		if !s.key.typ.secret || s.origin.Layer != LayerFile {
			continue
		}
		if info, err := os.Stat(name); err == nil && portable.HasModes && info.Mode().Perm()&0o004 != 0 {
			l.addWarning(s.origin, s.path, "every user of this machine can read this file: chmod 600 it, or use "+s.key.envName())
		}
		return
	}
}

func checkReadable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("cannot be read (%w)", causeWithoutPath(err))
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot be read (%w)", causeWithoutPath(err))
	}
	return f.Close()
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("cannot be run (%w)", causeWithoutPath(err))
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case portable.HasModes && info.Mode().Perm()&0o111 == 0:
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
	return rest, problemsError(found)
}

// The checks here look at one value alone. None of them quotes a value that
// may hold a credential.

var clusterNamePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

func checkClusterName(s string) error {
	if !clusterNamePattern.MatchString(s) {
		return fmt.Errorf("%s is not a cluster name: use up to 63 lower-case letters, digits, '-' and '.', with a letter or digit at both ends", quoteValue(s))
	}
	return nil
}

var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func checkNamespace(s string) error {
	if !namespacePattern.MatchString(s) {
		return fmt.Errorf("%s is not a namespace: name each by itself, with lower-case letters, digits and '-'; patterns are not supported", quoteValue(s))
	}
	return nil
}

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func checkVariableName(s string) error {
	if !variablePattern.MatchString(s) {
		return errors.New("is not the name of an environment variable: name the variable that holds the key, not the key itself")
	}
	return nil
}

// checkEndpoint accepts an http or https URL without credentials.
func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return errors.New("is not a URL: write http://host:port/path or https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("has the scheme %s: only http and https are supported", quoteValue(u.Scheme))
	case u.User != nil:
		return errors.New("contains a user name or password: remove it, and name the variable that holds the key in api_key_env")
	case u.Fragment != "":
		return errors.New("contains a #fragment: remove it")
	}
	return nil
}

func checkModelURL(s string) error {
	if err := checkEndpoint(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err == nil && model.Signed(u.Hostname()) {
		return errors.New("is that of Bedrock or Vertex, which are not called, because their calls are signed: put a gateway with a key before it")
	}
	if isLocal(s) {
		return nil // without a key there is nothing to be read on the way; with one, checkKey says so
	}
	return checkEncrypted(s, "the model API key")
}

// isLocal reports whether a URL is plain http to this machine, to a private address or
// to a service of the cluster that we run in: there models answer without a key.
func isLocal(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	return isLoopback(host) || err == nil && addr.Unmap().IsPrivate() || strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local")
}

func checkSlackURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return errors.New("is not a webhook URL: copy the https:// URL of the incoming webhook")
	}
	return checkEncrypted(s, "the webhook URL")
}

// checkEncrypted wants https unless the host is this machine.
func checkEncrypted(s, what string) error {
	u, err := url.Parse(s)
	if err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return nightcrier.Errorf(nightcrier.Refused, "would send %s unencrypted: use https", what)
	}
	return nil
}

func checkDatabaseURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("is not a postgres:// URL: write postgres://user:password@host/database, or leave it empty for SQLite in the workspace root")
	}
	return nil
}

// checkAddress accepts host:port.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%s is not an address: write host:port, such as 127.0.0.1:8080", quoteValue(s))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s has no port between 0 and 65535", quoteValue(s))
	}
	return nil
}

// checkLoopback refuses an address that other machines reach.
func checkLoopback(s string) error {
	host, _, err := net.SplitHostPort(s)
	if err == nil && !isLoopback(host) {
		return nightcrier.Errorf(nightcrier.Refused,
			"%s is reachable from other machines, and whoever reaches the API may use it: name a loopback address, such as 127.0.0.1:8080, and health_listen for probes and metrics", quoteValue(s))
	}
	return checkAddress(s)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// checkWord accepts a value that is handed to a command as one argument.
func checkWord(s string) error {
	if strings.HasPrefix(s, "-") || strings.ContainsAny(s, " \t'\"`$;|&<>\\") {
		return fmt.Errorf("%s is not a plain name: it may not start with '-' nor hold spaces, quotes or shell characters", quoteValue(s))
	}
	return nil
}

func checkCommand(s string) error {
	if strings.HasPrefix(s, "-") {
		return fmt.Errorf("%s is not the path or name of a command", quoteValue(s))
	}
	return nil
}

func checkAPIKey(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("contains a space or a character outside ASCII: paste the key alone")
	}
	return nil
}

// crowded are directories that belong to the system or to everybody.
var crowded = []string{"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var"}

// checkWorkspaceRoot wants a directory of our own. The path is absolute.
func checkWorkspaceRoot(path, home string) error {
	if slices.Contains(crowded, path) || path == home ||
		strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/") || strings.HasPrefix(path, "/dev/") {
		return fmt.Errorf("%s is not a directory for workspaces alone: name one below it, such as %s/nightcrier", quoteValue(path), strings.TrimSuffix(path, "/"))
	}
	return nil
}
