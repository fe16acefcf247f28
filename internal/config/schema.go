package config

import (
	"encoding/json"
	"maps"
	"strings"
)

// Schema returns a JSON Schema (draft 2020-12) of the file, for editors. It
// checks less than Load: what concerns several keys it cannot say.
func Schema() []byte {
	root := objectSchema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "nightcrier configuration"
	all := allKeys()
	for i := range all {
		for _, s := range all[i].allSpellings() {
			if s.layer == LayerFile {
				place := schemaAt(root, s.name)
				maps.Copy(place, fileSchema(&all[i], s))
			}
		}
	}
	for list, required := range map[string][]string{"clusters": {"name"}, "webhooks": {"name", "cluster"}, "tool_servers": {"name", "tools"}} {
		root["properties"].(map[string]any)[list].(map[string]any)["items"].(map[string]any)["required"] = required
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil // maps of plain values always encode
	}
	return append(out, '\n')
}

func objectSchema() map[string]any {
	return map[string]any{"type": []string{"object", "null"}, "additionalProperties": false, "properties": map[string]any{}}
}

// schemaAt returns the schema of a path, making the objects and lists on the way.
func schemaAt(at map[string]any, path string) map[string]any {
	segments := strings.Split(path, ".")
	for i, segment := range segments {
		name, list := strings.CutSuffix(segment, "[]")
		properties := at["properties"].(map[string]any)
		next, ok := properties[name].(map[string]any)
		switch {
		case ok:
		case i == len(segments)-1:
			next = map[string]any{}
		case list:
			next = map[string]any{"type": []string{"array", "null"}, "items": objectSchema()}
		default:
			next = objectSchema()
		}
		properties[name] = next
		at = next
		if list {
			at = next["items"].(map[string]any)
		}
	}
	return at
}

// fileSchema is what one spelling accepts: another one than the canonical is
// deprecated, and looser where its values are translated.
func fileSchema(k *key, s spelling) map[string]any {
	schema := map[string]any{}
	canonical := s.name == k.path
	if canonical || (s.unit == "" && s.translate == nil) {
		schema["anyOf"] = []any{k.typ.schema, map[string]any{"enum": []any{"", nil}}}
	}
	schema["description"] = k.doc
	if !canonical {
		schema["deprecated"] = true
		schema["description"] = "the same as " + k.path
	} else if k.def != "" {
		schema["default"] = schemaDefault(k)
	}
	return schema
}

func schemaDefault(k *key) any {
	value, err := k.typ.parse(k.typ.splitWords(k.def))
	if err != nil {
		return k.def
	}
	switch v := value.(type) {
	case int, bool, []string, []int:
		return v
	}
	if k.typ.schema["type"] == "number" {
		return json.Number(k.def)
	}
	return k.def
}
