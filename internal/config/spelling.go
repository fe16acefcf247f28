package config

import (
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
)

// spelling is another name of a key in one layer, with the same meaning.
type spelling struct {
	layer Layer
	name  string
	// unit is what a plain number counts: "s", "m" or "h"; "" when it needs one.
	unit string
	// translate maps the spelling's own words, in lower case; a word that maps
	// to "" states nothing.
	translate map[string]string
	// provider is whose name this is: it counts only while that one is in use.
	provider nightcrier.Provider
}

func fileSpelling(path string) spelling { return spelling{layer: LayerFile, name: path} }
func envSpelling(name string) spelling  { return spelling{layer: LayerEnv, name: name} }
func flagSpelling(name string) spelling { return spelling{layer: LayerFlag, name: name} }

// withUnit says what a plain number counts.
func (s spelling) withUnit(unit string) spelling {
	s.unit = unit
	return s
}

// withProvider says which provider's name this is.
func (s spelling) withProvider(p nightcrier.Provider) spelling {
	s.provider = p
	return s
}

// withWords adds translations of the form "theirs=ours".
func (s spelling) withWords(pairs ...string) spelling {
	s.translate = map[string]string{}
	for _, pair := range pairs {
		theirs, ours, _ := strings.Cut(pair, "=")
		s.translate[theirs] = ours
	}
	return s
}

// canonicalValue turns a value in this spelling into the key's own words.
func (s spelling) canonicalValue(value string) string {
	if ours, ok := s.translate[strings.ToLower(value)]; ok {
		return ours
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil && s.unit != "" {
		return value + s.unit
	}
	return value
}

// allSpellings returns all names of a key: the canonical ones and the others. A
// name that is both keeps the meaning that the table gives it.
func (k *key) allSpellings() []spelling {
	all := []spelling{fileSpelling(k.path)}
	if !k.foreign && !k.ofHook() && !k.ofTool() {
		all = append(all, envSpelling(k.envName()))
		if !k.hasSpelling(LayerFlag, k.flagName()) {
			all = append(all, flagSpelling(k.flagName()))
		}
	}
	return append(all, k.also...)
}

func (k *key) hasSpelling(layer Layer, name string) bool {
	for _, s := range k.also {
		if s.layer == layer && s.name == name {
			return true
		}
	}
	return false
}
