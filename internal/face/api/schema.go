package api

import (
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const schemaPrefix = "#/components/schemas/"

// aliases are the properties that a type's MarshalJSON adds.
var aliases = map[string][]string{"Incident": {"id", "triggeringEventId", "namespace"}, "Run": {"incidentId"}}

// completeDescription says of each operation what its route does not, and of the JSON what
// reflection cannot know.
func completeDescription(doc *huma.OpenAPI) {
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post} {
			if op != nil {
				describeOperation(op)
			}
		}
	}
	repairSchemas(doc)
}

// repairSchemas makes the description say what the JSON really holds, where reflection
// alone cannot know: fields that omitzero leaves out are not required, lists are never
// null, and an incident and a run have their older spellings beside the present ones.
func repairSchemas(doc *huma.OpenAPI) {
	registry := doc.Components.Schemas
	registry.Schema(reflect.TypeFor[Problem](), true, "Problem")
	for name, schema := range registry.Map() {
		if t := registry.TypeFromRef(schemaPrefix + name); t != nil && t.Kind() == reflect.Struct {
			schema.Required = slices.DeleteFunc(schema.Required, func(f string) bool { return mayLack(t, f) })
		}
		for _, property := range schema.Properties {
			property.Nullable = property.Nullable && property.Type != huma.TypeArray
		}
		for _, alias := range aliases[name] {
			schema.Properties[alias] = &huma.Schema{Type: huma.TypeString, Description: "An older spelling; see its twin."}
		}
	}
}

// mayLack reports whether the struct type t leaves the JSON field out when zero.
func mayLack(t reflect.Type, name string) bool {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return slices.Contains(strings.Split(options, ","), "omitzero")
		}
	}
	return false
}
