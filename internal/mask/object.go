package mask

import (
	"encoding/json"
	"strings"
)

// maxEmbedded is how deep texts are looked into that are written inside strings.
const maxEmbedded = 4

// maskSecretObjects masks the data of Kubernetes Secrets in JSON and YAML: no
// single value there looks like a secret by itself.
func (m *Masker) maskSecretObjects(s string) string { return m.secretText(s, 0) }

// secretText is maskSecretObjects for a text inside so many others.
func (m *Masker) secretText(s string, level int) string {
	switch {
	case !strings.Contains(s, "Secret") || !strings.Contains(s, "kind"):
		return s
	case level > maxEmbedded:
		return m.Tag(s)
	case startsJSON(s) && json.Valid([]byte(s)):
		return m.secretStrings(m.maskSecretJSON(s), level)
	}
	return m.maskSecretYAML(s, level)
}

// startsJSON reports whether s can be a JSON object, list or string.
func startsJSON(s string) bool {
	at := skipSpace(s, 0)
	return at < len(s) && (s[at] == '{' || s[at] == '[' || s[at] == '"')
}

// secretStrings looks into the strings of a JSON text, each of which may be a manifest.
func (m *Masker) secretStrings(s string, level int) string {
	var out strings.Builder
	done := 0
	for at := 0; at < len(s); at++ {
		if s[at] != '"' {
			continue
		}
		from := at
		for at++; at < len(s) && s[at] != '"'; at++ {
			if s[at] == '\\' {
				at++
			}
		}
		raw := s[from:min(at+1, len(s))]
		if !strings.Contains(raw, "Secret") || !strings.Contains(raw, "kind") {
			continue
		}
		var text string
		if json.Unmarshal([]byte(raw), &text) != nil {
			continue
		}
		if masked := m.secretText(text, level+1); masked != text {
			out.WriteString(s[done:from] + quoted(masked))
			done = from + len(raw)
		}
	}
	return out.String() + s[done:]
}

// quoted writes a string as JSON, with as few escapes as there can be.
func quoted(s string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded
	return strings.TrimSuffix(out.String(), "\n")
}

// maskSecretJSON replaces the values in place, so that the rest of the text
// keeps its bytes.
func (m *Masker) maskSecretJSON(s string) string {
	var doc any
	if json.Unmarshal([]byte(s), &doc) != nil {
		return s
	}
	var pairs, found []string
	for v := range secretValues(doc, map[string]bool{}) {
		if v == "" || isTag(v) && len(v) == tagLen {
			continue
		}
		quoted, err := json.Marshal(v)
		if err != nil {
			continue
		}
		tag := m.tagFor(v)
		found = append(found, v)
		pairs = append(pairs, string(quoted), `"`+tag+`"`)
		// The same value inside the last-applied-configuration annotation.
		escaped := strings.Trim(string(quoted), `"`)
		pairs = append(pairs, `\"`+escaped+`\"`, `\"`+tag+`\"`)
		m.count.Add(1)
	}
	if pairs == nil {
		return s
	}
	m.learn(found)
	return strings.NewReplacer(pairs...).Replace(s)
}

// secretValues collects the data values of every Secret inside doc. Those of a list of
// Secrets need not say what they are.
func secretValues(doc any, found map[string]bool) map[string]bool {
	switch v := doc.(type) {
	case []any:
		for _, e := range v {
			secretValues(e, found)
		}
	case map[string]any:
		addData(v["kind"] == "Secret", v, found)
		items, _ := v["items"].([]any)
		for _, e := range items {
			item, _ := e.(map[string]any)
			addData(v["kind"] == "SecretList", item, found)
		}
		for _, e := range v {
			secretValues(e, found)
		}
	}
	return found
}

func addData(secret bool, object map[string]any, found map[string]bool) {
	if secret {
		addStrings(object["data"], found)
		addStrings(object["stringData"], found)
	}
}

// addStrings collects the texts below data.
func addStrings(data any, found map[string]bool) {
	switch v := data.(type) {
	case string:
		found[v] = true
	case []any:
		for _, e := range v {
			addStrings(e, found)
		}
	case map[string]any:
		for _, e := range v {
			addStrings(e, found)
		}
	}
}
