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

func file(path string) spelling { return spelling{layer: LayerFile, name: path} }
func env(name string) spelling  { return spelling{layer: LayerEnv, name: name} }
func flag(name string) spelling { return spelling{layer: LayerFlag, name: name} }

// in says what a plain number counts.
func (s spelling) in(unit string) spelling {
	s.unit = unit
	return s
}

// of says which provider's name this is.
func (s spelling) of(p nightcrier.Provider) spelling {
	s.provider = p
	return s
}

// words adds translations of the form "theirs=ours".
func (s spelling) words(pairs ...string) spelling {
	s.translate = map[string]string{}
	for _, pair := range pairs {
		theirs, ours, _ := strings.Cut(pair, "=")
		s.translate[theirs] = ours
	}
	return s
}

// canonical turns a value in this spelling into the key's own words.
func (s spelling) canonical(value string) string {
	if ours, ok := s.translate[strings.ToLower(value)]; ok {
		return ours
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil && s.unit != "" {
		return value + s.unit
	}
	return value
}

// spellings returns all names of a key: the canonical ones and the others. A
// name that is both keeps the meaning that the table gives it.
func (k *key) spellings() []spelling {
	all := []spelling{file(k.path)}
	if !k.foreign && !k.ofHook() && !k.ofTool() {
		all = append(all, env(k.env()))
		if !k.has(LayerFlag, k.flag()) {
			all = append(all, flag(k.flag()))
		}
	}
	return append(all, k.also...)
}

func (k *key) has(layer Layer, name string) bool {
	for _, s := range k.also {
		if s.layer == layer && s.name == name {
			return true
		}
	}
	return false
}
