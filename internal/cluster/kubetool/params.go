package kubetool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// The types that an argument can have.
const (
	String  = "string"
	Integer = "integer"
	Boolean = "boolean"
	Strings = "array" // of strings
)

// maxArguments bounds the arguments of one call, in bytes.
const maxArguments = 64 << 10

// Param is one argument of a tool.
type Param struct {
	Name, Type, About string
	Required          bool
	// Enum lists what is offered, Also what is taken besides; with Open the tool
	// itself says what it takes.
	Enum, Also []string
	Open       bool
	Default    any
	// Min and Max bound an Integer when Max is set.
	Min, Max int
}

// Params are a tool's arguments, in the order in which they are shown.
type Params []Param

// Schema is the JSON Schema of the arguments.
func (ps Params) Schema() map[string]any {
	props, required := map[string]any{}, []string{}
	for _, p := range ps {
		props[p.Name] = p.newSchema()
		if p.Required {
			required = append(required, p.Name)
		}
	}
	s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func (p Param) newSchema() map[string]any {
	s := map[string]any{"type": p.Type, "description": p.About}
	if p.Type == Strings {
		s["items"] = map[string]any{"type": String}
	}
	if len(p.Enum) > 0 {
		s["enum"] = p.Enum
	}
	if p.Default != nil {
		s["default"] = p.Default
	}
	if p.Max > 0 {
		s["minimum"], s["maximum"] = p.Min, p.Max
	}
	return s
}

// Args are checked arguments: every value has its Param's type, and what was
// not given its default.
type Args map[string]any

// String returns a string argument, "" when it was not given.
func (a Args) String(name string) string { s, _ := a[name].(string); return s }

// Int returns an integer argument, 0 when it was not given.
func (a Args) Int(name string) int { n, _ := a[name].(int); return n }

// Bool returns a boolean argument, false when it was not given.
func (a Args) Bool(name string) bool { b, _ := a[name].(bool); return b }

// Strings returns a list argument.
func (a Args) Strings(name string) []string { l, _ := a[name].([]string); return l }

// Read checks raw, a JSON object or nothing, against the arguments. The error
// is Invalid and says what would be right; null stands for what is not given.
func (ps Params) Read(raw json.RawMessage) (Args, error) {
	if len(raw) > maxArguments {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the arguments are larger than %d bytes", maxArguments)
	}
	given := map[string]json.RawMessage{}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "the arguments are not a JSON object")
		}
	}
	if err := ps.checkKnown(given); err != nil {
		return nil, err
	}
	args := Args{}
	for _, p := range ps {
		v, err := p.readArgument(given[p.Name])
		switch {
		case err != nil:
			return nil, err
		case v == nil && p.Required:
			return nil, nightcrier.Errorf(nightcrier.Invalid, "argument %s is missing: %s", p.Name, p.About)
		case v != nil:
			args[p.Name] = v
		}
	}
	return args, nil
}

// checkKnown refuses arguments that the tool does not have.
func (ps Params) checkKnown(given map[string]json.RawMessage) error {
	var names []string
	for _, p := range ps {
		names = append(names, p.Name)
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return nightcrier.Errorf(nightcrier.Invalid, "argument %q is not known%s; it takes %s", shortLine(name, 64), text.SuggestName(" (did you mean %s?)", name, names), joinOrElse(names, "nothing"))
		}
	}
	return nil
}

func (p Param) readArgument(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return p.Default, nil
	}
	wrong := nightcrier.Errorf(nightcrier.Invalid, "argument %s is %s; it must be %s", p.Name, shortLine(string(raw), 64), p.describeWanted())
	switch p.Type {
	case String:
		return p.readString(raw, wrong)
	case Integer:
		var n float64
		if json.Unmarshal(raw, &n) != nil || n != math.Trunc(n) || p.Max > 0 && (n < float64(p.Min) || n > float64(p.Max)) {
			return nil, wrong
		}
		return int(n), nil
	case Boolean:
		var b bool
		if json.Unmarshal(raw, &b) != nil {
			return nil, wrong
		}
		return b, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return nil, wrong
	}
	return list, nil
}

// readString takes "" for what is not given, as models write it.
func (p Param) readString(raw json.RawMessage, wrong error) (any, error) {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, wrong
	}
	if s == "" {
		return p.Default, nil
	}
	if len(p.Enum) > 0 && !p.Open && !slices.Contains(p.Enum, s) && !slices.Contains(p.Also, s) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "argument %s is %q%s; it must be %s", p.Name, shortLine(s, 64), text.SuggestName(" (did you mean %s?)", s, p.Enum), p.describeWanted())
	}
	return s, nil
}

func (p Param) describeWanted() string {
	switch {
	case len(p.Enum) > 0:
		return "one of " + strings.Join(p.Enum, ", ")
	case p.Type == Integer && p.Max > 0:
		return fmt.Sprintf("a whole number from %d to %d", p.Min, p.Max)
	case p.Type == Integer:
		return "a whole number"
	case p.Type == Boolean:
		return "true or false"
	case p.Type == Strings:
		return "a list of strings"
	}
	return "a string"
}

func joinOrElse(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return strings.Join(words, ", ")
}
