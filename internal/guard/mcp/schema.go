package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of a schema. It is written out without references, so that checking a
// value costs no more than the two sizes multiplied.
const (
	maxSchema      = 64 << 10 // bytes, as it came
	maxSchemaNodes = 2000
	maxSchemaDepth = 24
	maxAbout       = 1024 // bytes of a description
)

// Bounds of the arguments of a call.
const (
	maxArguments     = 64 << 10 // bytes
	maxArgumentNodes = 2000
	maxArgumentDepth = 16
)

// schema is what a tool takes.
type schema struct {
	// shown is what a model is told: without what some model APIs refuse at the top.
	shown map[string]any
	check *jsonschema.Resolved
}

// readSchema makes a schema that nothing hostile is left of: no references, no
// names or texts that are more than that, no more of it than is bounded. One that
// cannot be had like this is an error, and the tool is not offered.
func readSchema(raw any) (*schema, error) {
	if raw == nil {
		raw = map[string]any{"type": "object"}
	}
	b, err := json.Marshal(raw)
	if err != nil || len(b) > maxSchema {
		return nil, fmt.Errorf("its schema is larger than %d bytes", maxSchema)
	}
	root, ok := raw.(map[string]any)
	if !ok {
		return nil, errors.New("its schema is no object")
	}
	w := &writer{root: root}
	written, err := w.writeSchema(root, 0)
	if err != nil {
		return nil, err
	}
	whole, ok := written.(map[string]any)
	if !ok || whole["type"] != nil && whole["type"] != "object" {
		return nil, errors.New("its arguments are no object")
	}
	whole["type"] = "object"
	check, err := resolveSchema(whole)
	if err != nil {
		return nil, fmt.Errorf("its schema cannot be used: %s", text.CutLine(err.Error(), 200))
	}
	return &schema{shown: plainTop(whole), check: check}, nil
}

func resolveSchema(written map[string]any) (_ *jsonschema.Resolved, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	b, err := json.Marshal(written)
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil) // without a loader nothing is fetched
}

// plainTop leaves out what model APIs refuse at the top of a schema; it is checked
// all the same.
func plainTop(whole map[string]any) map[string]any {
	shown := map[string]any{}
	for key, v := range whole {
		if !slices.Contains([]string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const"}, key) {
			shown[key] = v
		}
	}
	if shown["properties"] == nil {
		shown["properties"] = map[string]any{}
	}
	return shown
}

// The keywords that are kept, by what they hold. Others check nothing.
var (
	plainKeywords = []string{"type", "enum", "const", "default", "format", "pattern", "required", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "dependentRequired"}
	schemaKeywords = []string{"items", "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames",
		"unevaluatedProperties", "unevaluatedItems"}
	listKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapKeywords  = []string{"properties", "patternProperties", "dependentSchemas"}
)

// writer writes a schema out.
type writer struct {
	root  map[string]any
	nodes int
	open  []string // the references that are being followed
}

func (w *writer) writeSchema(v any, depth int) (any, error) {
	if w.nodes++; w.nodes > maxSchemaNodes || depth > maxSchemaDepth {
		return nil, fmt.Errorf("its schema has more than %d parts, or more than %d within each other", maxSchemaNodes, maxSchemaDepth)
	}
	switch v := v.(type) {
	case bool:
		return v, nil
	case map[string]any:
		return w.writeObject(v, depth)
	}
	return nil, errors.New("its schema holds something that is no schema")
}

func (w *writer) writeObject(in map[string]any, depth int) (any, error) {
	out := map[string]any{}
	for key, v := range in {
		kept, err := w.writeKeyword(key, v, depth)
		if err != nil {
			return nil, err
		}
		if kept != nil {
			out[key] = kept
		}
	}
	if list, ok := in["items"].([]any); ok { // what an older draft calls it
		delete(out, "items")
		var err error
		if out["prefixItems"], err = w.writeList(list, depth); err != nil {
			return nil, err
		}
	}
	ref, ok := in["$ref"].(string)
	if !ok {
		return out, nil
	}
	target, err := w.followReference(ref, depth)
	if err != nil || len(out) == 0 {
		return target, err
	}
	return joinSchemas(target, out), nil
}

// joinSchemas joins a schema that stands beside a reference, and what that leads to.
func joinSchemas(target any, beside map[string]any) any {
	merged := map[string]any{"allOf": []any{target, beside}}
	for _, text := range []string{"title", "description"} {
		if beside[text] != nil {
			merged[text] = beside[text]
			delete(beside, text)
		}
	}
	t, ok := target.(map[string]any)
	if len(beside) > 0 || !ok {
		return merged
	}
	delete(merged, "allOf")
	for key, v := range t {
		if merged[key] == nil {
			merged[key] = v
		}
	}
	return merged
}

// writeKeyword writes what is kept of one keyword, nil for nothing.
func (w *writer) writeKeyword(key string, v any, depth int) (any, error) {
	switch {
	case key == "title" || key == "description":
		text, _ := v.(string)
		return cleanDescription(text), nil
	case key == "$dynamicRef" || key == "$recursiveRef":
		return nil, errors.New("its schema holds a reference that is found only while checking")
	case slices.Contains(plainKeywords, key):
		return v, w.checkPlainValue(v, 0)
	case slices.Contains(schemaKeywords, key):
		if _, list := v.([]any); list && key == "items" {
			return nil, nil
		}
		return w.writeSchema(v, depth+1)
	case slices.Contains(listKeywords, key):
		list, _ := v.([]any)
		return w.writeList(list, depth)
	case slices.Contains(mapKeywords, key):
		return w.writeMembers(key, v, depth)
	}
	return nil, nil
}

func (w *writer) writeList(in []any, depth int) (any, error) {
	out := []any{}
	for _, v := range in {
		s, err := w.writeSchema(v, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// argumentName is what every model API takes.
var argumentName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func (w *writer) writeMembers(key string, v any, depth int) (any, error) {
	in, _ := v.(map[string]any)
	out := map[string]any{}
	for name, v := range in {
		if key != "patternProperties" && !argumentName.MatchString(name) {
			return nil, fmt.Errorf("an argument is called %.80q: letters, digits, _, - and . are taken, up to 64", name)
		}
		if err := w.checkPlainValue(name, 0); err != nil {
			return nil, err
		}
		s, err := w.writeSchema(v, depth+1)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

// checkPlainValue looks at values that stand in a schema as they are.
func (w *writer) checkPlainValue(v any, depth int) error {
	if w.nodes++; w.nodes > maxSchemaNodes || depth > maxSchemaDepth {
		return fmt.Errorf("its schema has more than %d parts, or more than %d within each other", maxSchemaNodes, maxSchemaDepth)
	}
	switch v := v.(type) {
	case string:
		if text.MarkHidden(v) != v {
			return errors.New("its schema holds control characters")
		}
	case []any:
		for _, e := range v {
			if err := w.checkPlainValue(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, e := range v {
			if err := errors.Join(w.checkPlainValue(name, depth+1), w.checkPlainValue(e, depth+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// followReference writes out what a reference leads to: a place in the same schema that does
// not lead back.
func (w *writer) followReference(ref string, depth int) (any, error) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, fmt.Errorf("its schema refers to %.80q: only places in it are followed, by #/…", ref)
	}
	if slices.Contains(w.open, ref) {
		return nil, errors.New("its schema refers to itself")
	}
	var at any = w.root
	for part := range strings.SplitSeq(pointer, "/") {
		m, _ := at.(map[string]any)
		if at, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]; !ok {
			return nil, fmt.Errorf("its schema refers to %.80q, which is not there", ref)
		}
	}
	w.open = append(w.open, ref)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	return w.writeSchema(at, depth+1)
}

// cleanDescription returns a text of a server as models are told it: bounded, and on lines that are
// no more than text.
func cleanDescription(said string) string { return text.CutBytes(text.MarkHidden(said), maxAbout) }

// readArguments reads what a model wrote and holds it against the schema. The error
// says what would be right.
func (s *schema) readArguments(raw json.RawMessage) (map[string]any, error) {
	if len(raw) > maxArguments {
		return nil, fmt.Errorf("the arguments are larger than %d bytes", maxArguments)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	if err := checkJSONParts(raw); err != nil {
		return nil, err
	}
	var args map[string]any
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, errors.New("the arguments are not a JSON object")
	}
	if err := s.checkArguments(args); err != nil {
		return nil, fmt.Errorf("the arguments do not fit the tool's schema: %s", text.CutLine(err.Error(), 500))
	}
	return args, nil
}

func (s *schema) checkArguments(args map[string]any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return s.check.Validate(args)
}

// checkJSONParts counts the parts of a JSON text before anything is built of it.
func checkJSONParts(raw []byte) error {
	d, depth, nodes := json.NewDecoder(bytes.NewReader(raw)), 0, 0
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New("the arguments are not JSON")
		}
		nodes++
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if nodes > maxArgumentNodes || depth > maxArgumentDepth {
			return fmt.Errorf("the arguments have more than %d parts, or more than %d within each other", maxArgumentNodes, maxArgumentDepth)
		}
	}
}
