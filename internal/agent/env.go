package agent

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// systemPath is where an agent finds programs; a CLI's own directory is added.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnv is the environment of every agent.
func baseEnv(j Job) map[string]string {
	return map[string]string{
		"INCIDENT_ID":           j.IncidentID,
		"INCIDENT_WORKSPACE":    j.Workspace,
		"KUBERNETES_CLUSTER":    j.Cluster,
		"KUBERNETES_NAMESPACE":  j.Namespace,
		"KUBECONFIG":            j.Kubeconfig,
		"CLAUDE_READ_ONLY_MODE": "true",
		"HOME":                  filepath.Join(j.Workspace, "home"),
		"TMPDIR":                filepath.Join(j.Workspace, "tmp"),
		"PATH":                  systemPath,
		"LANG":                  "C.UTF-8",
	}
}

// addModel points env at the model guard, by the names that the provider's clients
// read.
func addModel(env map[string]string, j Job) {
	if j.ModelURL == "" {
		return
	}
	switch j.Provider {
	case nightcrier.OpenAI:
		env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"] = j.ModelURL+"/v1", j.ModelToken
	case nightcrier.Google:
		env["GOOGLE_GEMINI_BASE_URL"], env["GEMINI_API_KEY"] = j.ModelURL, j.ModelToken
	default:
		env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_API_KEY"] = j.ModelURL, j.ModelToken
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// loaderVars change what code a program runs, or what our own layers see.
var loaderVars = regexp.MustCompile(`^(LD_.*|BASH_ENV|ENV|NODE_OPTIONS|PYTHONSTARTUP|PYTHONPATH|PERL5OPT|RUBYOPT|IFS|SHELLOPTS|ANTHROPIC_.*|CLAUDE_CODE_.*|OPENAI_.*|GOOSE_.*|GEMINI_.*|GOOGLE_.*|XDG_.*|.*_API_KEY|.*_PROXY|.*_proxy)$`)

// addExtra adds the variables of Job.ExtraEnv, and tells of those that it left out.
func addExtra(env, extra map[string]string) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		_, ours := env[name]
		if !envName.MatchString(name) || ours || loaderVars.MatchString(name) || strings.ContainsRune(extra[name], 0) {
			notes = append(notes, fmt.Sprintf("environment variable %q is not the configuration's to set; left out", name))
			continue
		}
		env[name] = extra[name]
	}
	return notes
}

// listEnv renders env as exec wants it, in a stable order.
func listEnv(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// findProgram finds a command: a path, or a name in PATH, which is looked up in our
// own environment because the operator installed it for us.
func findProgram(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "agent program %q: %w", command, err)
	}
	return path, nil
}

// pathWith returns the system's PATH with the directories of the given
// programs behind it.
func pathWith(programs ...string) string {
	dirs := filepath.SplitList(systemPath)
	for _, p := range programs {
		if dir := filepath.Dir(p); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// addKubectl makes this kubectl the one that the agent finds, and returns the
// files to be readable for it. There may be none.
func addKubectl(env map[string]string, kubectl string) ([]string, error) {
	if kubectl == "" {
		return nil, nil
	}
	env["PATH"] = filepath.Dir(kubectl) + ":" + env["PATH"]
	return sandbox.ProgramFiles(kubectl)
}
