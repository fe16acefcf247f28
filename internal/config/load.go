package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Options say where the configuration comes from.
type Options struct {
	// File is the path of the YAML file; empty means NIGHTCRIER_CONFIG of Env,
	// or no file at all.
	File string
	// Env is the environment as "NAME=value" lines, usually os.Environ().
	// Variables that are set to nothing count as unset.
	Env []string
	// Flags are the flags that were given, by flag name or by key.
	Flags map[string]string
	// Typed is how those of Flags were typed that a command calls otherwise; messages
	// name them so.
	Typed map[string]string
	// Dir is what relative paths start from; empty means the working directory.
	Dir string
}

// fileVariable names the configuration file in the environment.
const fileVariable = "NIGHTCRIER_CONFIG"

// Load reads all layers and returns the effective configuration together with
// what people should know about it. The error holds every problem ([Problems])
// under the code Invalid, or Refused when policy forbids a value.
func Load(o Options) (*Config, []Warning, error) {
	l := newLoader(o)
	name := o.File
	if name == "" {
		name = l.environ[fileVariable]
	}
	if name != "" {
		l.loadFile(name)
	}
	l.readEnv()
	l.readFlags(o)
	l.readServerVariables()
	return l.finishLoad()
}

// loader collects settings layer by layer.
type loader struct {
	keys     []key
	environ  map[string]string
	dir      string
	settings []setting
	// places are where the clusters of the file stand, one for each; hookPlaces
	// and toolPlaces the same for webhooks and tool servers.
	places, hookPlaces, toolPlaces []Origin
	// given are the paths of the mappings that the file has, also of empty ones.
	given map[string]bool

	problems Problems
	warnings []Warning
}

// onlyCluster is the index of a setting that means the only cluster there is.
const onlyCluster = -1

// place is where a setting was found.
type place struct {
	origin Origin
	// path is how the key is spelled there.
	path    string
	cluster int
}

// setting is one key with one value from one place.
type setting struct {
	place
	key   *key
	value any
	// provider is whose name the setting was given by, if that is one provider's;
	// err is what is wrong with it, which matters only while that one is in use.
	provider nightcrier.Provider
	err      error
}

func newLoader(o Options) *loader {
	l := &loader{keys: allKeys(), environ: map[string]string{}, given: map[string]bool{}, dir: o.Dir}
	for _, line := range o.Env {
		if name, value, ok := strings.Cut(line, "="); ok && value != "" {
			l.environ[name] = value
		}
	}
	if l.dir == "" {
		l.dir, _ = os.Getwd()
	}
	return l
}

func (l *loader) addProblem(where Origin, key string, err error) {
	l.problems = append(l.problems, Problem{Code: codeOf(err), Origin: where, Key: key, Text: err.Error()})
}

func (l *loader) addWarning(where Origin, key, text string) {
	l.warnings = append(l.warnings, Warning{Origin: where, Key: key, Text: text})
}

func (l *loader) loadFile(name string) {
	data, err := readFile(name)
	if err != nil {
		l.addProblem(Origin{Layer: LayerFile, Name: name}, "", err)
		return
	}
	l.parseFile(name, data)
	l.checkFileMode(name)
}

// parseSetting parses one value. An empty one states nothing.
func (l *loader) parseSetting(k *key, as spelling, words []string, at place) {
	words = slices.Clone(words)
	for i := range words {
		words[i] = as.canonicalValue(words[i])
	}
	if len(words) == 1 && words[0] == "" {
		return
	}
	value, err := k.typ.parse(words)
	if err != nil && as.provider == "" {
		l.addProblem(at.origin, at.path, err)
		return
	}
	l.settings = append(l.settings, setting{place: at, key: k, value: value, provider: as.provider, err: err})
}

// finishLoad merges the layers, checks the whole, and returns the result of Load.
func (l *loader) finishLoad() (*Config, []Warning, error) {
	cfg := &Config{origins: map[string]Origin{}}
	l.placeSingles(cfg)
	l.mergeKeys(cfg, func(k *key) bool { return !k.ofProvider() })
	l.chooseExecutor(cfg)
	l.chooseProvider(cfg)
	l.mergeKeys(cfg, (*key).ofProvider)
	l.platformVariables(cfg)
	l.checkAll(cfg)
	slices.SortStableFunc(l.warnings, func(a, b Warning) int { return cmp.Compare(a.Origin.sortRank(), b.Origin.sortRank()) })
	if err := problemsError(l.problems); err != nil {
		return nil, l.warnings, err
	}
	return cfg, l.warnings, nil
}

// placeSingles decides which cluster is meant by the settings that name none:
// the one that is configured, or, when an endpoint is among them, a new one
// called default. Among several, none is guessed.
func (l *loader) placeSingles(cfg *Config) {
	cfg.Clusters = make([]Cluster, len(l.places))
	if len(l.hookPlaces) > 0 {
		cfg.Webhooks = make([]Webhook, len(l.hookPlaces))
	}
	if len(l.toolPlaces) > 0 {
		cfg.ToolServers = make([]ToolServer, len(l.toolPlaces))
	}
	if len(l.places) == 0 && slices.ContainsFunc(l.settings, statesEndpoint) {
		cfg.Clusters = []Cluster{{Name: "default"}}
		l.places = []Origin{{}}
	}
	for i := range l.settings {
		s := &l.settings[i]
		if !s.key.ofCluster() || s.cluster != onlyCluster {
			continue
		}
		switch len(cfg.Clusters) {
		case 0:
			l.addWarning(s.origin, s.path, "has no effect: no cluster is configured")
		case 1:
			s.cluster = 0
		default:
			l.addProblem(s.origin, s.path, fmt.Errorf("does not say which of the %d clusters it means: set %s in the file",
				len(cfg.Clusters), s.key.path))
		}
	}
}

func statesEndpoint(s setting) bool {
	return s.cluster == onlyCluster && s.key.path == "clusters[].mcp.endpoint"
}

// mergeKeys merges the keys that pick chooses.
func (l *loader) mergeKeys(cfg *Config, pick func(*key) bool) {
	for i := range l.keys {
		if pick(&l.keys[i]) {
			l.mergeKey(cfg, &l.keys[i])
		}
	}
}

// mergeKey gives a key its value: everywhere it belongs, the strongest setting,
// else the default.
func (l *loader) mergeKey(cfg *Config, k *key) {
	entries := 0
	switch {
	case k.ofCluster():
		entries = len(cfg.Clusters)
	case k.ofHook():
		entries = len(cfg.Webhooks)
	case k.ofTool():
		entries = len(cfg.ToolServers)
	default:
		l.mergeOne(cfg, k, k.path, onlyCluster)
	}
	for i := range entries {
		l.mergeOne(cfg, k, k.pathAt(i), i)
	}
}

func (l *loader) mergeOne(cfg *Config, k *key, path string, entry int) {
	chosen, found := l.chooseSetting(k, path, entry)
	field := k.targetIn(cfg, entry)
	if field == nil {
		return
	}
	switch {
	case found:
		l.storeValue(field, k, chosen.value)
		cfg.origins[path] = chosen.origin
	case k.def != "":
		value, err := k.typ.parse(k.typ.splitWords(k.def))
		if err != nil {
			l.addProblem(Origin{}, path, err)
			return
		}
		l.storeValue(field, k, value)
	}
}

// chooseSetting returns the setting of the strongest layer. Two of one layer that
// disagree are a problem.
func (l *loader) chooseSetting(k *key, path string, cluster int) (best setting, found bool) {
	first := map[Layer]setting{}
	for _, s := range l.settings {
		if s.key != k || s.cluster != cluster {
			continue
		}
		earlier, again := first[s.origin.Layer]
		if !again {
			first[s.origin.Layer] = s
		} else if !reflect.DeepEqual(earlier.value, s.value) && !k.foreign {
			l.addProblem(s.origin, s.path, fmt.Errorf("disagrees with %s about %s: keep one of them", describeSetting(earlier), path))
		}
		if !found || s.origin.Layer > best.origin.Layer {
			best, found = s, true
		}
	}
	return best, found
}

// describeSetting names a setting by its spelling and, in a file, its line.
func describeSetting(s setting) string {
	if s.origin.Layer == LayerFile {
		return fmt.Sprintf("%s (%s)", s.path, s.origin)
	}
	return s.origin.String()
}

// storeValue puts a parsed value into its field.
func (l *loader) storeValue(field any, k *key, value any) {
	if text, ok := value.(string); ok && k.typ.path && (!k.typ.lookup || strings.Contains(text, "/")) {
		value = l.absolutePath(text)
	}
	reflect.ValueOf(field).Elem().Set(reflect.ValueOf(value))
}

// absolutePath resolves ~/ and relative paths.
func (l *loader) absolutePath(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && l.environ["HOME"] != "" {
		path = filepath.Join(l.environ["HOME"], rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(l.dir, path)
}
