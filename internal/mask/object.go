package mask

import (
	"encoding/json"
	"strings"
)

// maskSecretObjects masks the data of Kubernetes Secrets in JSON and YAML: no
// single value there looks like a secret by itself.
func (m *Masker) maskSecretObjects(s string) string {
	switch {
	case strings.Contains(s, `"Secret"`) && startsJSON(s):
		return m.maskSecretJSON(s)
	case ofSecret(s):
		return m.maskSecretYAML(s)
	}
	return s
}

// startsJSON reports whether s can be a JSON object or list.
func startsJSON(s string) bool {
	at := skipSpace(s, 0)
	return at < len(s) && (s[at] == '{' || s[at] == '[')
}

// ofSecret reports whether a YAML text says that it is of a Secret, in any of the
// ways to write that.
func ofSecret(s string) bool {
	for at := strings.Index(s, "kind"); at >= 0; {
		next := skipBlank(s, skipQuote(s, at+len("kind")))
		if next < len(s) && s[next] == ':' && strings.HasPrefix(s[skipQuote(s, skipBlank(s, next+1)):], "Secret") {
			return true
		}
		more := strings.Index(s[at+1:], "kind")
		if more < 0 {
			break
		}
		at += 1 + more
	}
	return false
}

// maskSecretJSON replaces the values in place, so that the rest of the text
// keeps its bytes.
func (m *Masker) maskSecretJSON(s string) string {
	var doc any
	if json.Unmarshal([]byte(s), &doc) != nil {
		return s
	}
	var pairs []string
	for v := range secretValues(doc, map[string]bool{}) {
		if v == "" || isTag(v) && len(v) == tagLen {
			continue
		}
		quoted, err := json.Marshal(v)
		if err != nil {
			continue
		}
		tag := m.Tag(v)
		pairs = append(pairs, string(quoted), `"`+tag+`"`)
		// The same value inside the last-applied-configuration annotation.
		escaped := strings.Trim(string(quoted), `"`)
		pairs = append(pairs, `\"`+escaped+`\"`, `\"`+tag+`\"`)
		m.count.Add(1)
	}
	if pairs == nil {
		return s
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// secretValues collects the data values of every Secret inside doc.
func secretValues(doc any, found map[string]bool) map[string]bool {
	switch v := doc.(type) {
	case []any:
		for _, e := range v {
			secretValues(e, found)
		}
	case map[string]any:
		if v["kind"] == "Secret" {
			addStrings(v["data"], found)
			addStrings(v["stringData"], found)
		}
		for _, e := range v {
			secretValues(e, found)
		}
	}
	return found
}

func addStrings(data any, found map[string]bool) {
	fields, _ := data.(map[string]any)
	for _, e := range fields {
		if text, ok := e.(string); ok {
			found[text] = true
		}
	}
}

// maskSecretYAML masks the scalars below data and stringData in each YAML
// document that holds a Secret.
func (m *Masker) maskSecretYAML(s string) string {
	docs := strings.SplitAfter(s, "\n---")
	for i, doc := range docs {
		if ofSecret(doc) {
			docs[i] = m.maskYAMLData(doc)
		}
	}
	return strings.Join(docs, "")
}

func (m *Masker) maskYAMLData(doc string) string {
	lines := strings.SplitAfter(doc, "\n")
	block := -1
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		body := strings.TrimSpace(text)
		switch {
		case body == "data:" || body == "stringData:":
			block = indent
		case body == "" || block < 0:
		case indent <= block:
			block = -1
		default:
			lines[i] = m.maskYAMLLine(line, indent)
		}
	}
	return strings.Join(lines, "")
}

// maskYAMLLine masks the value of `key: value`, or a whole line of a block
// scalar.
func (m *Masker) maskYAMLLine(line string, indent int) string {
	from := indent
	if n := strings.Index(line, ": "); n >= 0 {
		from = n + 2
	} else if strings.HasSuffix(strings.TrimSpace(line), ":") {
		return line
	}
	end := len(strings.TrimRight(line, " \r\n"))
	if from >= end || isTag(line[from:end]) && end-from == tagLen || strings.IndexByte("|>", line[from]) >= 0 && end-from <= 3 {
		return line
	}
	m.count.Add(1)
	return line[:from] + m.Tag(line[from:end]) + line[end:]
}
