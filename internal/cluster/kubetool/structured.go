package kubetool

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// What tools tell programs, beside their text. Some agents show their model this in the
// place of the text, so it lacks nothing that the text says. Each ends with what it rests
// on, and with whether a part of it was left out, because it was too long.

// Rows is what kubernetes_list tells.
type Rows struct {
	Kind      string     `json:"kind"`
	Namespace string     `json:"namespace,omitempty"`
	Columns   []string   `json:"columns"`
	Rows      [][]string `json:"rows"`
	// Continue is the argument that goes on behind the rows, "" at their end.
	Continue string `json:"continue,omitempty"`
	Basis
}

// Object is what kubernetes_get tells: an object, or the part of it that was asked for.
// One that is too long is left out.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	Value     any    `json:"value,omitempty"`
	Basis
}

// Log is what kubernetes_logs tells.
type Log struct {
	Pod       string   `json:"pod"`
	Namespace string   `json:"namespace"`
	Container string   `json:"container"`
	Previous  bool     `json:"previous"`
	Lines     []string `json:"lines"`
	Basis
}

// Seen is what kubernetes_events tells.
type Seen struct {
	Events []SeenEvent `json:"events"`
	// More is how many were seen longer ago.
	More int `json:"more"`
	Basis
}

// SeenEvent is an Event, as it was last seen.
type SeenEvent struct {
	LastSeen string              `json:"lastSeen,omitempty"`
	Times    int                 `json:"times"`
	Type     string              `json:"type"`
	Reason   string              `json:"reason"`
	Object   nightcrier.Resource `json:"object"`
	Message  string              `json:"message"`
}

// Usage is what kubernetes_top tells.
type Usage struct {
	Usage []UsageRow `json:"usage"`
	Basis
}

// UsageRow is what a container, or a node, uses.
type UsageRow struct {
	Node      string `json:"node,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	CPU       string `json:"cpu"`
	Memory    string `json:"memory"`
}

// Basis is what an answer rests on.
type Basis struct {
	// Evidence are the ids of what was read.
	Evidence  []string `json:"evidence,omitempty"`
	Truncated bool     `json:"truncated,omitempty"`
	// Rest is how to get what was left out.
	Rest string `json:"rest,omitempty"`
}

func (b *Basis) basis() *Basis { return b }

// structured is an answer for programs.
type structured interface{ basis() *Basis }

// SchemaOf is the JSON Schema of a type, as tools tell it to their clients. Known has
// those of types that write themselves.
func SchemaOf[T any](known map[reflect.Type]*jsonschema.Schema) map[string]any {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		panic("kubetool: no schema of " + reflect.TypeFor[T]().Name() + ": " + err.Error()) // of ours, which tests ask for
	}
	raw, err := json.Marshal(s)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic("kubetool: the schema of " + reflect.TypeFor[T]().Name() + ": " + err.Error())
	}
	properties, _ := out["properties"].(map[string]any)
	for name, p := range properties {
		if p == true { // anything; clients in the field know schemas that are objects alone
			properties[name] = map[string]any{}
		}
	}
	return out
}

// Plain is a value as JSON has it, with the characters taken out of its texts that steer
// a terminal or reorder what is read.
func Plain(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "write the answer: %w", err)
	}
	doc, err := decodeJSON(raw)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "write the answer: %w", err)
	}
	return markAllHidden(doc), nil
}

func markAllHidden(doc any) any {
	switch v := doc.(type) {
	case string:
		return text.MarkHidden(v)
	case []any:
		for i := range v {
			v[i] = markAllHidden(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[text.MarkHidden(key)] = markAllHidden(value)
		}
		return out
	}
	return doc
}

// fittingLast are the last of them.
func fittingLast[T any](list []T, limit int) (kept []T, cut bool) {
	list = slices.Clone(list)
	slices.Reverse(list)
	kept, cut = firstFitting(list, limit)
	slices.Reverse(kept)
	return kept, cut
}

// firstFitting are the first of a list that have no more than limit bytes together, as JSON.
func firstFitting[T any](list []T, limit int) (kept []T, cut bool) {
	size := 0
	list = append([]T{}, list...) // no null
	for i, one := range list {
		raw, err := json.Marshal(one)
		if size += len(raw) + 1; err != nil || size > limit {
			return list[:i], true
		}
	}
	return list, false
}
