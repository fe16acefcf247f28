package skill

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"nightcrier.dev/nightcrier/internal/text"
)

// maxSchema bounds a JSON Schema, in bytes.
const maxSchema = 64 << 10

// CheckSchema says why a text is no JSON Schema that an agent can be held to.
func CheckSchema(data []byte) error {
	if len(data) > maxSchema {
		return fmt.Errorf("is larger than %d KiB", maxSchema>>10)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		return fmt.Errorf("is no JSON Schema: %s", text.CutLine(err.Error(), 256))
	}
	if _, err := schema.Resolve(nil); err != nil {
		return fmt.Errorf("is no JSON Schema that is complete in itself: %s", text.CutLine(err.Error(), 256))
	}
	if name, found := findUnknownType(&schema); found {
		return fmt.Errorf("is no JSON Schema: its type %.64q is none of %s", name, strings.Join(schemaTypes, ", "))
	}
	return nil
}

// schemaTypes are those that JSON has.
var schemaTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// findUnknownType returns the type of a schema, or of one within it, that nothing can be of: no
// result would ever fit.
func findUnknownType(s *jsonschema.Schema) (name string, found bool) {
	for _, name := range append([]string{s.Type}, s.Types...) {
		if name != "" && !slices.Contains(schemaTypes, name) {
			return name, true
		}
	}
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		var within []*jsonschema.Schema
		switch below := fields.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			within = append(within, below)
		case []*jsonschema.Schema:
			within = below
		case map[string]*jsonschema.Schema:
			for _, name := range slices.Sorted(maps.Keys(below)) {
				within = append(within, below[name])
			}
		}
		for _, one := range within {
			if one == nil {
				continue
			}
			if name, found := findUnknownType(one); found {
				return name, true
			}
		}
	}
	return "", false
}
