package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// readEnv takes the settings from the environment, in the order of the keys.
func (l *loader) readEnv() {
	known := []string{fileVariable}
	for i := range l.keys {
		for _, s := range l.keys[i].allSpellings() {
			if s.layer != LayerEnv {
				continue
			}
			known = append(known, s.name)
			if value := l.environ[s.name]; value != "" {
				at := place{origin: Origin{Layer: LayerEnv, Name: s.name}, path: s.name, cluster: onlyCluster}
				l.parseSetting(&l.keys[i], s, l.keys[i].typ.splitWords(value), at)
			}
		}
	}
	l.strayVariables(known)
}

// serviceLink matches what Kubernetes itself sets for a Service of our name.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)$`)

// strayVariables looks at variables with one of our prefixes that are no key.
// One that nearly is a key is a typing mistake and a problem; any other one
// may serve another purpose and is a warning.
func (l *loader) strayVariables(known []string) {
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		ours := strings.HasPrefix(name, "NIGHTCRIER_") || strings.HasPrefix(name, "AGENT_RUNTIME_")
		if !ours || slices.Contains(known, name) || serviceLink.MatchString(name) {
			continue
		}
		where := Origin{Layer: LayerEnv, Name: name}
		if near := nearVariable(name, known); near != "" {
			l.addProblem(where, name, fmt.Errorf("is not a variable of nightcrier: did you mean %s?", near))
			continue
		}
		l.addWarning(where, name, "is not a variable of nightcrier and has no effect")
	}
}

// nearVariable compares what follows the common prefix, so that the prefix
// does not make everything look alike.
func nearVariable(name string, known []string) string {
	for _, prefix := range []string{"NIGHTCRIER_", "AGENT_RUNTIME_"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		var candidates []string
		for _, k := range known {
			if tail, ok := strings.CutPrefix(k, prefix); ok {
				candidates = append(candidates, tail)
			}
		}
		if near := texts.FindNearest(rest, candidates); near != "" {
			return prefix + near
		}
	}
	return ""
}

// readFlags takes the settings from flags, named as flags or as keys.
func (l *loader) readFlags(o Options) {
	var names []string
	for i := range l.keys {
		for _, s := range l.keys[i].allSpellings() {
			if s.layer == LayerFlag {
				names = append(names, s.name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		k, as, ok := l.findFlag(name)
		typed := cmp.Or(o.Typed[name], name)
		where := Origin{Layer: LayerFlag, Name: typed}
		switch {
		case !ok:
			l.addProblem(where, typed, fmt.Errorf("is not a flag%s", texts.SuggestName(": did you mean %s?", name, names)))
		case k.typ.secret:
			l.addProblem(where, typed, errors.New("every user of this machine can read flags: set "+k.envName()+" or use the file"))
		default:
			l.parseSetting(k, as, k.typ.splitWords(o.Flags[name]), place{origin: where, path: typed, cluster: onlyCluster})
		}
	}
}

func (l *loader) findFlag(name string) (*key, spelling, bool) {
	for i := range l.keys {
		k := &l.keys[i]
		for _, s := range k.allSpellings() {
			if s.layer == LayerFlag && (s.name == name || (k.path == name && s.name == k.flagName())) {
				return k, s, true
			}
		}
	}
	return nil, spelling{}, false
}

// Flag describes one command-line flag.
type Flag struct {
	// Name is without dashes; Key is the key it sets.
	Name, Key string
	// Default is in the one-line form; Usage is one sentence without a stop and
	// without the marks of Markdown.
	Default, Usage string
	// Switch says that it means true where no value follows behind a "=".
	Switch bool
}

// Flags returns a flag for every key that may be given on the command line.
func Flags() []Flag { return flags() }

// flags makes them once: each command of the program asks for them.
var flags = sync.OnceValue(func() []Flag {
	var list []Flag
	all := allKeys()
	for i := range all {
		k := &all[i]
		for _, s := range k.allSpellings() {
			if s.layer == LayerFlag && !k.typ.secret {
				list = append(list, Flag{Name: s.name, Key: k.path, Default: k.def, Usage: stripMarkdown(k.doc), Switch: k.typ.toggle})
			}
		}
	}
	return list
})

// markdownLink is a link from one page of docs/ to another.
var markdownLink = regexp.MustCompile(`\[[^]]*\]\(([^)]*)\)`)

// stripMarkdown returns the text of a page as a terminal shows it.
func stripMarkdown(doc string) string {
	return strings.ReplaceAll(markdownLink.ReplaceAllString(doc, "docs/$1"), "`", "")
}

// fate is what becomes of a variable that an older platform knew.
type fate int

const (
	// retired: what it controlled does not exist any more.
	retired fate = iota
	// unbuilt: what it controls is not in this version.
	unbuilt
	// refused: ignoring it would leave less protection than it asks for, or
	// obeying it would take some away.
	refused
	// ofToolServer: it has the address or the key of a tool server.
	ofToolServer
	// shared: other programs use the name; it is left alone without a word.
	shared
)

// platformVariable is a name, or a pattern of [path.Match].
type platformVariable struct {
	name string
	fate fate
	why  string
}

// platformTable lists the variables of the platform that are no spelling of
// a key. Those that are one stand with their key.
func platformTable() []platformVariable {
	return slices.Concat(
		[]platformVariable{
			{"AUTH_REQUIRED", refused, "authentication is not available in this version; the API listens on loopback only: unset it"},
			{"PTC_HOST_NETWORK", refused, "agents never share the network of the host: unset it"},
		},
		variablesOfFate(retired, "SANDBOX_IPC_MODE", "SANDBOX_NAMESPACE", "SANDBOX_IMAGE", "SANDBOX_RUNTIME_CLASS", "SANDBOX_IMAGE_PULL_POLICY",
			"POD_READY_TIMEOUT", "PTC_WORKER_IMAGE", "PTC_WORKER_CPU", "PTC_WORKER_MEMORY", "PTC_WORKER_TIMEOUT",
			"CLAUDE_CODE_WORKER_IMAGE", "CLAUDE_CODE_WORKER_CPU", "CLAUDE_CODE_WORKER_MEMORY", "CLAUDE_CODE_WORKER_TIMEOUT",
			"EXECUTION_REQUEST", "EXECUTOR_URL", "SKILL_RUNNER_IMAGE", "DB_HOST", "DB_USER", "DB_PASSWORD", "DB_NAME",
			"AUTH_ENABLED", "UVICORN_WORKERS", "SKILL_WATCH_DEBOUNCE_MS", "AGENTURA_SKILLS_DIR", "AGENTURA_WORKSPACE_ID", "AGENTURA_GATEWAY_URL", "AGENTURA_API_KEY", "AGENTURA_EXECUTOR_URL", "API_TARGET", "NEXT_PUBLIC_API_URL",
			"LANDING_ONLY", "OBOT_URL"),
		variablesOfFate(unbuilt, "OPENROUTER_REFERER", "AGENCY_DIR", "ARTIFACTS_DIR", "MAX_CONTINUATIONS", "MAX_AGENT_OUTPUT_CHARS",
			"MCP_CALL_TIMEOUT", "MCP_FETCH_TIMEOUT", "GATEWAY_PUBLIC_URL", "ADMIN_USER_IDS",
			"JWKS_URL", "JWT_ISSUER", "OAUTH_STATE_SECRET", "WEBHOOK_SECRET",
			"SLACK_*_SIGNING_SECRET", "SLACK_*_BOT_TOKEN", "SLACK_*_APP_TOKEN", "SLACK_BOT_TOKEN"),
		variablesOfFate(ofToolServer, serverPrefix+"*"+serverURL, serverPrefix+"*"+serverKey),
		variablesOfFate(shared, "WORK_DIR", "CONFIG_PATH", "DOCKER_HOST", "GITHUB_TOKEN", "HOST", "PORT",
			"DATABRICKS_*", "NOTION_API_KEY", "CLICKUP_API_KEY", "APPETIZE_API_KEY", "*_CLIENT_ID", "*_CLIENT_SECRET"),
	)
}

func variablesOfFate(f fate, names ...string) []platformVariable {
	all := make([]platformVariable, len(names))
	for i, name := range names {
		all[i] = platformVariable{name: name, fate: f}
	}
	return all
}

// fateOf returns the row of a variable; the first pattern that matches counts.
func fateOf(table []platformVariable, name string) (platformVariable, bool) {
	for _, row := range table {
		if ok, _ := path.Match(row.name, name); ok {
			return row, true
		}
	}
	return platformVariable{}, false
}

// platformVariables refuses the dangerous ones and warns once of all others.
// Those that a cluster names as its key are left alone.
func (l *loader) platformVariables(cfg *Config) {
	table := platformTable()
	found := map[fate][]string{}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		row, ok := fateOf(table, name)
		if !ok || slices.ContainsFunc(cfg.Clusters, func(c Cluster) bool { return c.MCP.APIKeyEnv == name }) {
			continue
		}
		if row.fate != refused {
			found[row.fate] = append(found[row.fate], name)
		} else if off, err := parseBool(l.environ[name]); err != nil || off != false {
			l.addProblem(Origin{Layer: LayerEnv, Name: name}, name, nightcrier.Errorf(nightcrier.Refused, "%s", row.why))
		}
	}
	l.warnOfVariables(found[retired], "retired and without effect: remove")
	l.warnOfVariables(found[unbuilt], "not used by this version:")
}

func (l *loader) warnOfVariables(names []string, what string) {
	if len(names) > 0 {
		l.addWarning(Origin{}, "", fmt.Sprintf("environment variables %s %s", what, strings.Join(names, ", ")))
	}
}
