package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// ToolServer is an MCP server whose tools agents may use, as far as Tools names them.
type ToolServer struct {
	Name string
	// URL is where it is asked, or Command what is started.
	URL     string
	Command []string
	// TokenEnv and Env name the variables of Variables.
	TokenEnv  string
	Env       []string
	Variables map[string]Secret
	// Read and Ports are what a command may reach.
	Read  []string
	Ports []int
	Tools []string
	// Writes gives skills that name the server its tools that write, and investigations none.
	Writes bool
	// Clusters are those in whose investigations it is used; empty means all.
	Clusters []string
	Timeout  time.Duration
}

// toolPrefix starts the path of every key that a tool server has of its own. Such
// keys stand in a file only.
const toolPrefix = "tool_servers[]."

func (k *key) ofTool() bool { return strings.HasPrefix(k.path, toolPrefix) }

func toolKeys() []key {
	tool := func(name string, typ valueType, def, doc string, field func(*ToolServer) any) key {
		return key{path: toolPrefix + name, typ: typ, def: def, doc: doc, tool: field}
	}
	return []key{
		tool("name", textType(toolserver.CheckName), "", "unique name, with which the names of its tools begin", func(s *ToolServer) any { return &s.Name }),
		tool("url", textType(checkToolURL), "", "address of the server, for Streamable HTTP or the older `/tools`; or use `command`", func(s *ToolServer) any { return &s.URL }),
		tool("command", listType(), "", "program and arguments, as a list of words without a shell, of a server that speaks over stdin and stdout; it is started for each investigation, in a sandbox of its own", func(s *ToolServer) any { return &s.Command }),
		tool("token_env", textType(checkVariableName), "", "name of the environment variable whose value is sent to `url` as a bearer token", func(s *ToolServer) any { return &s.TokenEnv }),
		tool("env", variablesType(), "", "names of the environment variables that the command gets; it gets no others", func(s *ToolServer) any { return &s.Env }),
		tool("read", placesType(), "", "files and directories that the command may read besides the system's programs and its own file", func(s *ToolServer) any { return &s.Read }),
		tool("ports", portsType(), "443", "TCP ports that the command may connect to", func(s *ToolServer) any { return &s.Ports }),
		tool("tools", toolPatterns(), "", "names of the tools that agents get, or patterns with `*`; required, since no other tool is allowed", func(s *ToolServer) any { return &s.Tools }),
		tool("writes", booleanType(), "false", "whether skills that name the server in `mcp_tools` get its tools that write, which `tools` must name in full; investigations get none of its tools then", func(s *ToolServer) any { return &s.Writes }),
		tool("clusters", listType(), "", "names of the clusters whose investigations use the server; unset means all", func(s *ToolServer) any { return &s.Clusters }),
		tool("timeout", durationType(time.Second, 55*time.Second), "30s", "how long one call may take", func(s *ToolServer) any { return &s.Timeout }),
	}
}

// checkedList is a list whose entries are checked one by one.
func checkedList(check func(string) error) valueType {
	t := listType()
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		for _, w := range words {
			if err := check(w); err != nil {
				return nil, err
			}
		}
		return inner(words)
	}
	return t
}

func variablesType() valueType { return checkedList(checkVariableName) }
func toolPatterns() valueType  { return checkedList(toolserver.CheckPattern) }

// placesType are absolute paths of what somebody may read.
func placesType() valueType {
	return checkedList(func(s string) error {
		if !filepath.IsAbs(s) || slices.Contains(crowded, filepath.Clean(s)) {
			return fmt.Errorf("%s is too much, or no absolute path: name what is needed", quoteValue(s))
		}
		return nil
	})
}

func portsType() valueType {
	t := listType()
	t.word = "list of ports"
	t.schema = map[string]any{"type": "array", "items": map[string]any{"type": "integer", "minimum": 1, "maximum": 65535}}
	t.parse = func(words []string) (any, error) {
		all := []int{}
		for _, w := range words {
			n, err := strconv.Atoi(w)
			if err != nil || n < 1 || n > 65535 {
				return nil, fmt.Errorf("%s is no port between 1 and 65535", quoteValue(w))
			}
			all = append(all, n)
		}
		return all, nil
	}
	return t
}

func checkToolURL(s string) error {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		return errors.New("contains a user name or password: remove it, and name the variable that holds the token in token_env")
	}
	return checkEndpoint(s)
}

// checkToolServers looks at each server, and reads the variables that it names.
func (l *loader) checkToolServers(cfg *Config) {
	names := map[string]int{}
	for n := range cfg.ToolServers {
		s, at := &cfg.ToolServers[n], fmt.Sprintf("tool_servers[%d]", n)
		l.checkName(names, "tool_servers", s.Name, n, l.toolPlaces[n], "it begins the names of the server's tools")
		if len(s.Tools) == 0 && !l.hasProblem(at+".tools") {
			l.addProblem(l.toolPlaces[n], at+".tools", errors.New("is missing: name the tools that agents may use; nightcrier tools list shows what the server has"))
		}
		if i := slices.IndexFunc(s.Tools, toolserver.IsPattern); s.Writes && i >= 0 && !isOfVariables(l.toolPlaces[n]) {
			l.problemAt(cfg, at+".tools", fmt.Errorf("%s is a pattern, and the server writes: name each tool in full", quoteValue(s.Tools[i])))
		}
		l.checkReach(cfg, s, n)
		l.readVariables(cfg, s, at)
		for _, c := range s.Clusters {
			if !slices.ContainsFunc(cfg.Clusters, func(known Cluster) bool { return known.Name == c }) {
				l.problemAt(cfg, at+".clusters", fmt.Errorf("%s is the name of no cluster", quoteValue(c)))
			}
		}
	}
	i := slices.IndexFunc(l.toolPlaces, func(o Origin) bool { return !isOfVariables(o) })
	if _, cli := modelledOf(cfg.Agent.Executor); i >= 0 && !cli && !l.hasProblem("agent.executor") {
		l.addWarning(l.toolPlaces[i], "tool_servers", "has no effect: the executor "+cfg.Agent.Executor+" uses no tools of others")
	}
	l.checkServerKeys(cfg)
}

// checkReach looks at how a server is reached: in one way, with what belongs to it.
func (l *loader) checkReach(cfg *Config, s *ToolServer, i int) {
	at := fmt.Sprintf("tool_servers[%d]", i)
	switch {
	case s.URL == "" && len(s.Command) == 0 && !l.hasProblem(at+".url") && !l.hasProblem(at+".command"):
		l.addProblem(l.toolPlaces[i], at+".url", errors.New("is missing: say where the server is asked, or which command is started"))
	case s.URL != "" && len(s.Command) > 0:
		l.problemAt(cfg, at+".command", errors.New("is given beside url: keep one of them"))
	case len(s.Command) > 0 && l.severalWords(s.Command[0]):
		l.problemAt(cfg, at+".command", fmt.Errorf("%s is one word with spaces, and no file is called so: write [%s]", quoteValue(s.Command[0]), strings.Join(strings.Fields(s.Command[0]), ", ")))
	case s.URL != "" && len(s.Env)+len(s.Read) > 0:
		l.addProblem(l.toolPlaces[i], at, errors.New("env and read are for a command, and this server has a url: remove them, or use token_env"))
	case s.URL == "" && s.TokenEnv != "" && !l.hasProblem(at+".url"):
		l.problemAt(cfg, at+".token_env", errors.New("is for a url, and this server has a command: name the variable in env"))
	case s.TokenEnv != "" && checkEncrypted(s.URL, "the token") != nil:
		l.addWarning(cfg.origins[at+".url"], at+".url", "would send the token unencrypted: use https where it leaves this machine's own network")
	}
}

// severalWords reports whether a program's name looks like a whole command: nothing here
// asks a shell to take it apart.
func (l *loader) severalWords(program string) bool {
	if strings.Contains(program, "/") {
		return len(strings.Fields(program)) > 1 && checkExecutable(program) != nil
	}
	return len(strings.Fields(program)) > 1 && !l.inPath(program)
}

func (l *loader) readVariables(cfg *Config, s *ToolServer, at string) {
	s.Variables = map[string]Secret{}
	names, from := s.Env, at+".env"
	if s.TokenEnv != "" {
		names, from = append(slices.Clone(s.Env), s.TokenEnv), at+".token_env"
	}
	for _, name := range names {
		value := l.environ[name]
		if err := checkText(value); err != nil {
			l.problemAt(cfg, from, fmt.Errorf("the value of %s %w", name, err))
		} else if value == "" {
			l.addNeed(cfg, from, fmt.Sprintf("the variable %s is not set", name))
		}
		s.Variables[name] = NewSecret(value)
	}
}

// ToolServersOf are the MCP servers for the investigations of one cluster: none that writes.
func (c *Config) ToolServersOf(cluster string) (servers []toolserver.Server) {
	for _, s := range c.ToolServers {
		if !s.Writes && (len(s.Clusters) == 0 || slices.Contains(s.Clusters, cluster)) {
			servers = append(servers, s.Guarded())
		}
	}
	return servers
}

// WritingServers are the MCP servers for skills that change something, in runs about no incident.
func (c *Config) WritingServers() (servers []toolserver.Server) {
	for _, s := range c.ToolServers {
		if s.Writes && len(s.Clusters) == 0 {
			servers = append(servers, s.Guarded())
		}
	}
	return servers
}

// Guarded is the server as its guard takes it.
func (s *ToolServer) Guarded() toolserver.Server {
	return toolserver.Server{Name: s.Name, URL: s.URL, Command: s.Command, TokenEnv: s.TokenEnv, Env: s.Env, Read: s.Read, Ports: s.Ports, Tools: s.Tools, Writes: s.Writes, Timeout: s.Timeout}
}

// VariablesOf are the values that a run's servers need: no others leave us.
func (c *Config) VariablesOf(servers []toolserver.Server) map[string]string {
	values := map[string]string{}
	for _, s := range servers {
		i := slices.IndexFunc(c.ToolServers, func(known ToolServer) bool { return known.Name == s.Name })
		for _, name := range s.Variables() {
			if i >= 0 && c.ToolServers[i].Variables[name].IsSet() {
				values[name] = c.ToolServers[i].Variables[name].Reveal()
			}
		}
	}
	return values
}
