package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// shape is what a value looks like in a file.
type shape int

const (
	scalar shape = iota
	sequence
	mapping
)

// valueType says how the words of a setting become a Go value.
type valueType struct {
	// word names the type in messages and in the documentation.
	word  string
	shape shape
	// secret values are never quoted in a message and never taken from a flag.
	secret bool
	// toggle values are true or false.
	toggle bool
	// path values are made absolute; with lookup set, a bare name is left to
	// be found in PATH.
	path, lookup bool
	// like is a value to write instead of one of the wrong shape; may be empty.
	like string
	// schema is the type's part of the JSON Schema.
	schema map[string]any
	// entry makes one word of a mapping in a sequence; nil takes none.
	entry func(pairs map[string]string) (string, error)
	// parse reads one word, or all of a sequence's or mapping's ("key=value").
	parse func(words []string) (any, error)
}

// describeExpected names what is to be written where something of another shape was.
func (t valueType) describeExpected(what string) string {
	if t.like != "" {
		what += " such as " + t.like
	}
	return what
}

func parseOne(parse func(string) (any, error)) func([]string) (any, error) {
	return func(words []string) (any, error) { return parse(words[0]) }
}

// maxText bounds every single value.
const maxText = 4096

func checkText(s string) error {
	if len(s) > maxText {
		return fmt.Errorf("is longer than %d bytes", maxText)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("contains a line break or another control character")
	}
	return nil
}

func textType(checks ...func(string) error) valueType {
	return valueType{word: "text", schema: ofType("string"), parse: parseOne(func(s string) (any, error) {
		for _, check := range append([]func(string) error{checkText}, checks...) {
			if err := check(s); err != nil {
				return nil, err
			}
		}
		return s, nil
	})}
}

// filePath is a path that is made absolute against the working directory.
func filePath() valueType {
	t := textType()
	t.word, t.path = "path", true
	return t
}

// closed is the word for an address where nothing shall listen.
const closed = "none"

// addressType is host:port, or closed, which becomes "".
func addressType(check func(string) error) valueType {
	t := textType()
	t.word = "host:port, " + closed
	t.parse = parseOne(func(s string) (any, error) {
		if s == closed {
			return "", nil
		}
		return s, check(s)
	})
	return t
}

func secretType(check func(string) error) valueType {
	t := textType(check)
	inner := t.parse
	t.word, t.secret = "secret", true
	t.parse = func(words []string) (any, error) {
		if _, err := inner(words); err != nil {
			return nil, err
		}
		return NewSecret(words[0]), nil
	}
	return t
}

// choiceType is one of the words that are built. A word of later is known, but
// this version cannot do it.
func choiceType(built []string, later ...string) valueType {
	schema := ofType("string")
	schema["enum"] = built
	return valueType{word: strings.Join(built, ", "), schema: schema, parse: parseOne(func(s string) (any, error) {
		word := strings.ToLower(s)
		switch {
		case slices.Contains(built, word):
			return word, nil
		case slices.Contains(later, word):
			return nil, fmt.Errorf("%s is not available in this version: use %s", word, texts.JoinWords(built, "or"))
		}
		return nil, fmt.Errorf("%s is not one of %s%s", quoteValue(s), texts.JoinWords(built, "or"), texts.SuggestName(": did you mean %s?", s, built))
	})}
}

// providerType is one of those whose API is spoken.
func providerType() valueType {
	t := choiceType(providerWords(nightcrier.Providers()))
	word := t.parse
	t.parse = func(words []string) (any, error) {
		v, err := word(words)
		if err != nil {
			return nil, err
		}
		return nightcrier.Provider(v.(string)), nil
	}
	return t
}

func booleanType() valueType {
	return valueType{word: "true, false", toggle: true, schema: ofType("boolean"), parse: parseOne(parseBool)}
}

func parseBool(s string) (any, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return nil, fmt.Errorf("%s is neither true nor false", quoteValue(s))
}

// fixedType accepts one value only; otherwise says why another one is wrong.
func fixedType(want string, code nightcrier.Code, otherwise string) valueType {
	return valueType{word: want, schema: map[string]any{"const": constantValue(want)}, parse: parseOne(func(s string) (any, error) {
		got := strings.ToLower(s)
		if b, err := parseBool(s); err == nil {
			got = fmt.Sprint(b)
		}
		if got != want {
			return nil, nightcrier.Errorf(code, "%s", otherwise)
		}
		return want, nil
	})}
}

func constantValue(want string) any {
	if b, err := parseBool(want); err == nil {
		return b
	}
	return want
}

func countType(lowest, highest int) valueType {
	schema := ofType("integer")
	schema["minimum"], schema["maximum"] = lowest, highest
	return valueType{word: fmt.Sprintf("%d–%d", lowest, highest), schema: schema, parse: parseOne(func(s string) (any, error) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return nil, fmt.Errorf("%s is not a whole number", quoteValue(s))
		case err != nil || n < lowest || n > highest:
			return nil, fmt.Errorf("%s is not between %d and %d", texts.CutBytes(s, maxShown), lowest, highest)
		}
		return n, nil
	})}
}

func dollarsType() valueType {
	schema := ofType("number")
	schema["minimum"] = 0
	return valueType{word: "US dollars", schema: schema, parse: parseOne(func(s string) (any, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= 0 && f <= 1e9) {
			return nil, fmt.Errorf("%s is not an amount of dollars such as 2 or 0.50", quoteValue(s))
		}
		return f, nil
	})}
}

const durationPattern = `^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$`

func durationType(lowest, highest time.Duration) valueType {
	schema := ofType("string")
	schema["pattern"] = durationPattern
	word := fmt.Sprintf("%s–%s", formatDuration(lowest), formatDuration(highest))
	return valueType{word: word, schema: schema, parse: parseOne(func(s string) (any, error) {
		d, err := parseDuration(s)
		if err != nil {
			return nil, err
		}
		if d < lowest || d > highest {
			return nil, fmt.Errorf("%s is not between %s and %s", texts.CutBytes(s, maxShown), formatDuration(lowest), formatDuration(highest))
		}
		return d, nil
	})}
}

func parseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return 0, fmt.Errorf("%s has no unit: write %ss, %sm or %sh", quoteValue(s), texts.CutBytes(s, maxShown), texts.CutBytes(s, maxShown), texts.CutBytes(s, maxShown))
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%s is not a duration such as 30s, 5m or 72h", quoteValue(s))
	}
	return d, nil
}

// formatDuration writes 5m for what Duration.String calls 5m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if s == "0s" {
		return "0"
	}
	return s
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func sizeType(lowest, highest int64) valueType {
	schema := map[string]any{"type": []string{"string", "integer"}, "pattern": `^[0-9]+(KiB|MiB|GiB|TiB)?$`, "minimum": lowest}
	word := formatSize(lowest) + "–" + formatSize(highest)
	return valueType{word: word, schema: schema, parse: parseOne(func(s string) (any, error) {
		digits, unit := s, int64(1)
		for _, u := range sizeUnits {
			if rest, ok := strings.CutSuffix(s, u.suffix); ok {
				digits, unit = rest, u.bytes
			}
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a size such as 256MiB or 1GiB", quoteValue(s))
		}
		if n > highest/unit || n*unit < lowest {
			return nil, fmt.Errorf("%s is not between %s and %s", texts.CutBytes(s, maxShown), formatSize(lowest), formatSize(highest))
		}
		return n * unit, nil
	})}
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func severityType() valueType {
	schema := ofType("string")
	schema["enum"] = []string{"info", "warning", "error", "critical"}
	return valueType{word: "info, warning, error, critical", schema: schema, parse: parseOne(func(s string) (any, error) {
		var level nightcrier.Severity
		if err := level.UnmarshalText([]byte(s)); err != nil {
			return nil, fmt.Errorf("%s is not one of info, warning, error, critical", quoteValue(s))
		}
		return level, nil
	})}
}

// listType is a sequence of texts; in one line, separated by commas.
func listType() valueType {
	schema := map[string]any{"type": "array", "items": ofType("string")}
	return valueType{word: "list", shape: sequence, schema: schema, parse: func(words []string) (any, error) {
		for _, w := range words {
			if err := checkText(w); err != nil {
				return nil, err
			}
		}
		return append([]string(nil), words...), nil
	}}
}

// priceList is a list of what models cost.
func priceList() valueType {
	t := listType()
	t.like = `["gpt-5=1.25/10/0.125"]: model=input/output/cache read/cache write, in dollars for a million tokens`
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		for _, w := range words {
			if _, err := price.ParseEntry(w); err != nil {
				return nil, err
			}
		}
		return inner(words)
	}
	return t
}

// maxNamespaces bounds a list of them: each costs a cluster a watch for every kind.
const maxNamespaces = 50

// namespacesType is a list of names of namespaces, each once.
func namespacesType() valueType {
	t := listType()
	t.schema = map[string]any{"type": "array", "uniqueItems": true, "maxItems": maxNamespaces,
		"items": map[string]any{"type": "string", "pattern": namespacePattern.String()}}
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		if len(words) > maxNamespaces {
			return nil, fmt.Errorf("names more than %d namespaces: use a credential for all of them, and leave it out", maxNamespaces)
		}
		seen := map[string]bool{}
		for _, w := range words {
			if err := checkNamespace(w); err != nil {
				return nil, err
			}
			if seen[w] {
				return nil, fmt.Errorf("names %s twice", w)
			}
			seen[w] = true
		}
		return inner(words)
	}
	return t
}

// labelsType is a mapping of texts; in one line key=value, separated by commas.
func labelsType() valueType {
	schema := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
	return valueType{word: "mapping", shape: mapping, schema: schema, parse: func(words []string) (any, error) {
		if len(words) == 0 {
			return map[string]string(nil), nil
		}
		pairs := map[string]string{}
		for _, w := range words {
			name, value, ok := strings.Cut(w, "=")
			if !ok || name == "" {
				return nil, fmt.Errorf("%s is not of the form name=value", quoteValue(w))
			}
			if err := checkText(w); err != nil {
				return nil, fmt.Errorf("label %s %w", quoteValue(name), err)
			}
			pairs[name] = value
		}
		return pairs, nil
	}}
}

// splitWords splits the one-line form of a value: at commas outside parentheses for
// sequences and mappings, not at all for scalars.
func (t valueType) splitWords(line string) []string {
	if t.shape == scalar {
		return []string{line}
	}
	var words []string
	depth, start := 0, 0
	for i, r := range line {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth <= 0:
			words = append(words, strings.TrimSpace(line[start:i]))
			start = i + 1
		}
	}
	return append(words, strings.TrimSpace(line[start:]))
}

func ofType(name string) map[string]any { return map[string]any{"type": name} }

// maxShown bounds what of a value is said in a message, in bytes.
const maxShown = 64

func quoteValue(s string) string { return strconv.Quote(texts.CutBytes(s, maxShown)) }

// commandType is a path, made absolute, or a name to look up in PATH.
func commandType() valueType {
	t := textType(checkCommand)
	t.word, t.path, t.lookup = "path or name", true, true
	return t
}
