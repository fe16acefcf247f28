// Package toolserver is an MCP server of somebody else's, as an operator configures it
// and a run is given it. Package guard/mcp is how its tools are used.
package toolserver

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// Server is one server of the operator's. It holds no secret.
type Server struct {
	Name string `json:"name"`
	// URL is where it is asked by Streamable HTTP; or Command is its program and
	// arguments, which then speaks on its standard streams.
	URL     string   `json:"url,omitempty"`
	Command []string `json:"command,omitempty"`
	// TokenEnv names the variable whose value is sent to URL as a bearer token.
	TokenEnv string `json:"tokenEnv,omitempty"`
	// Env names the variables that the command gets, Read the files and directories
	// that it may read beside the system's, Ports the TCP ports that it may connect to.
	Env   []string `json:"env,omitempty"`
	Read  []string `json:"read,omitempty"`
	Ports []int    `json:"ports,omitempty"`
	// Tools are the names of those that may be used, or patterns with *.
	Tools []string `json:"tools"`
	// Only, where it is not empty, are those of Tools that a skill wants. Approval are those, or
	// patterns of them, that nobody calls before a person agrees; nobody can be asked yet.
	Only     []string `json:"only,omitempty"`
	Approval []string `json:"approval,omitempty"`
	// Writes lets tools be used that say that they change something.
	Writes bool `json:"writes,omitempty"`
	// Timeout bounds a call.
	Timeout time.Duration `json:"timeout"`
}

// Reachable says whether there is a way to the server.
func (s Server) Reachable() bool { return s.URL != "" || len(s.Command) > 0 }

// Recorded is the server as a record of it is played: without any way to it.
func (s Server) Recorded() Server {
	return Server{Name: s.Name, Tools: s.Tools, Only: s.Only, Approval: s.Approval, Writes: s.Writes, Timeout: s.Timeout}
}

// Variables are the names of the environment variables that hold what it needs.
func (s Server) Variables() []string {
	if s.TokenEnv == "" {
		return s.Env
	}
	return append(slices.Clone(s.Env), s.TokenEnv)
}

var serverName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)

// ours are the first words of the names of our own tools.
var ours = []string{"kubernetes", "list", "loki", "nightcrier", "prometheus", "read"}

// CheckName says what is wrong with the name of a server: it stands in front of the
// names of its tools.
func CheckName(name string) error {
	switch {
	case !serverName.MatchString(name):
		return nightcrier.Errorf(nightcrier.Invalid, "%.60q is not a name for a tool server: use up to 20 lower-case letters, digits and '-', with a letter first", name)
	case slices.Contains(ours, name):
		return nightcrier.Errorf(nightcrier.Invalid, "%s begins the names of Nightcrier's own tools: choose another name", name)
	}
	return nil
}

// CheckPattern says what is wrong with an entry of Server.Tools.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > MaxToolName {
		return nightcrier.Errorf(nightcrier.Invalid, "%.60q is neither the name of a tool nor a pattern of names with *", pattern)
	}
	return nil
}

// IsPattern reports whether an entry of Server.Tools stands for more than one name.
func IsPattern(entry string) bool { return strings.ContainsAny(entry, `*?[\`) }

// MaxToolName bounds the name that a server gives to a tool, in bytes.
const MaxToolName = 128

// Allows says whether an entry of Tools names the tool, and whether one does so in
// full. Of those it is one that a skill wants.
func (s Server) Allows(tool string) (allowed, inFull bool) {
	if len(s.Only) > 0 && !slices.Contains(s.Only, tool) {
		return false, false
	}
	for _, pattern := range s.Tools {
		if pattern == tool {
			return true, true
		}
		if ok, err := path.Match(pattern, tool); err == nil && ok {
			allowed = true
		}
	}
	return allowed, false
}

// NeedsApproval says whether a person has to agree to each call of the tool.
func (s Server) NeedsApproval(tool string) bool {
	return slices.ContainsFunc(s.Approval, func(pattern string) bool {
		ok, err := path.Match(pattern, tool)
		return pattern == tool || ok || err != nil // what cannot be read may mean any
	})
}

// Kind is that of the evidence which a tool's result becomes. What a tool makes of its
// arguments is not known, so nobody may cite it for more than that the tool said so.
const Kind = "tool"
