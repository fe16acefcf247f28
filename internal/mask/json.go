package mask

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Strings masks every string of a JSON document by itself, names of members excepted: they
// are the document's own.
func (m *Masker) Strings(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "mask: %w", err)
	}
	return json.Marshal(m.strings(doc))
}

func (m *Masker) strings(v any) any {
	switch v := v.(type) {
	case string:
		return m.String(v)
	case []any:
		for i := range v {
			v[i] = m.strings(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = m.strings(v[k])
		}
	}
	return v
}

// keepJSON returns masked, what masking made of s, unless s was JSON and masked is
// not: a rule that reads text may take a quote for one that it is not. Then the
// values are masked one by one, so that nothing is read across their ends.
func (m *Masker) keepJSON(s, masked string) string {
	if masked == s || !startsJSON(s) || json.Valid([]byte(masked)) {
		return masked
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil || dec.More() {
		return masked
	}
	out, err := json.Marshal(m.value("", doc))
	if err != nil {
		return masked
	}
	// The lines are kept in number: blank ones may stand behind JSON.
	return string(out) + strings.Repeat("\n", max(0, strings.Count(s, "\n")))
}

// value masks a value that stands under a key.
func (m *Masker) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		called, _ := v["name"].(string)
		for k, e := range v {
			under := k
			if k == "value" {
				under = cmp.Or(called, key) // an environment variable, or a field of its own
			}
			name, _ := m.maskRules(m.maskKnown(k), newPatience())
			out[name] = m.value(under, e)
		}
		return out
	case []any:
		for i := range v {
			v[i] = m.value(key, v[i])
		}
		return v
	case nil, bool:
		return v
	}
	return m.scalar(strings.TrimRight(key, ":=> \t\r\n"), v)
}

// scalar masks a string or number, whose key may give it away.
func (m *Masker) scalar(key string, v any) any {
	plain, err := json.Marshal(map[string]any{key: v})
	if err != nil {
		return v
	}
	masked, _ := m.maskRules(m.maskKnown(string(plain)), newPatience())
	if masked == string(plain) {
		return v
	}
	var one map[string]any
	if json.Unmarshal([]byte(masked), &one) == nil && len(one) == 1 {
		for _, e := range one {
			return e
		}
	}
	text, _ := v.(string)
	return m.tagFor(text)
}

// barely returns the quotes that a tag needs in the place of s[from:]: those of
// its key, when it has some and the value has none, as numbers in JSON.
func barely(s string, from int) string {
	at := from
	for at > 0 && (s[at-1] == ' ' || s[at-1] == '\t') {
		at--
	}
	if at == 0 || s[at-1] != ':' {
		return ""
	}
	for at--; at > 0 && (s[at-1] == ' ' || s[at-1] == '\t'); {
		at--
	}
	if at < 2 || s[at-1] != '"' {
		return ""
	}
	open := at - 1
	for open > 0 && s[open-1] == '\\' {
		open--
	}
	return s[open:at]
}
