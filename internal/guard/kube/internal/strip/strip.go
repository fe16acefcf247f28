// Package strip cleans what a cluster answers: it takes out what masking cannot know to be
// secret, such as the data of Secrets and what is packed, and has the rest masked.
package strip

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

const (
	maxEmbedded = 3 // of JSON written inside strings of JSON
	// withheld stands where a value was, in text and in base64.
	withheld       = "withheld"
	withheldBase64 = "d2l0aGhlbGQ="
	lastApplied    = "kubectl.kubernetes.io/last-applied-configuration"
	// keysNote and dataNote are annotations that the guard gives a Secret.
	dataNote = "guard.nightcrier.dev/data"
	keysNote = "guard.nightcrier.dev/keys"
)

// TagOpen begins what masking puts in a secret's place.
const TagOpen = "‹secret:"

// Options say what an answer is of, and how it is masked.
type Options struct {
	Mask    func([]byte) []byte
	MaskLog func([]byte) ([]byte, int) // nil where the answer was masked as a log before

	Metadata bool // only metadata is expected
	Secrets  bool // the objects are called secrets of some sort, such as internalsecrets
	Restore  bool // metadata is to look like the Secret it is of

	// Columns are a table's, as an earlier part of the answer told them; "" stands for
	// those that hold no secrets.
	Columns []string
}

// Cleaned is an answer that may be passed on.
type Cleaned struct {
	Body    []byte
	Columns []string // for the parts that follow
}

// What is wrong with an answer that is JSON.
var (
	ErrMoreThanMetadata = errors.New("more than the metadata that was asked for")
	ErrNotFreed         = errors.New("a document that cannot be freed of secrets")
)

// CleanJSON checks a JSON document, takes out what masking cannot know to be secret, masks
// the rest, and says how many values went, also of a document that is not passed on.
func CleanJSON(body []byte, o Options) (out Cleaned, masked int, err error) {
	// Where a number stands for a secret, the tag of masking is no JSON: then once
	// more without such numbers.
	for _, numbers := range []bool{false, true} {
		s := &stripper{Options: o, in: body, embedded: bytes.Contains(body, []byte("Secret")), numbers: numbers}
		if err := s.walkText(); err != nil {
			return Cleaned{}, masked, err
		}
		if s.Metadata && !slices.Contains(metadataKinds, s.kind) {
			return Cleaned{}, masked, ErrMoreThanMetadata
		}
		stripped := s.applyEdits()
		out, tags := MaskText(o.Mask, stripped)
		masked = s.taken + tags
		if bytes.Equal(out, stripped) || isJSON(out) {
			return Cleaned{out, s.Columns}, masked, nil
		}
	}
	return Cleaned{}, masked, ErrNotFreed
}

// MaskText masks text and counts what it masked.
func MaskText(mask func([]byte) []byte, body []byte) (out []byte, masked int) {
	if out = mask(body); bytes.Equal(out, body) {
		return out, 0
	}
	return out, max(0, bytes.Count(out, []byte(TagOpen))-bytes.Count(body, []byte(TagOpen)))
}

func isJSON(text []byte) bool {
	s := stripper{in: text, bare: true}
	return s.walkText() == nil
}

// metadataKinds are what an answer about Secrets may consist of.
var metadataKinds = []string{"PartialObjectMetadata", "PartialObjectMetadataList", "Table", "Status"}

type span struct{ from, to int }

// edit replaces a span, which may be empty.
type edit struct {
	span
	with string
}

// stripper walks over JSON and notes what has to be replaced.
type stripper struct {
	Options
	in   []byte
	at   int
	bare bool // only look whether it is JSON
	// numbers that stand under the name of a secret are taken out.
	numbers  bool
	embedded bool // strings may hold whole Secrets
	level    int  // of strings within strings

	kind  string // of the outermost object, or of a watch event's
	edits []edit
	taken int
}

// applyEdits makes the edits. One inside another is void.
func (s *stripper) applyEdits() []byte {
	if len(s.edits) == 0 {
		return s.in
	}
	slices.SortStableFunc(s.edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	out := make([]byte, 0, len(s.in)+256)
	done := 0
	for _, e := range s.edits {
		if e.from < done {
			continue
		}
		out = append(append(out, s.in[done:e.from]...), e.with...)
		done = e.to
	}
	return append(out, s.in[done:]...)
}

func (s *stripper) replaceValue(at span, with string) {
	s.edits = append(s.edits, edit{at, with})
	s.taken++
}

// members are the spans of those fields of an object that matter.
type members map[string]span

func (s *stripper) unquoteString(at span) string {
	raw := s.in[at.from:at.to]
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}

// inspectObject looks at an object that was walked over.
func (s *stripper) inspectObject(key string, depth int, at span, m members) {
	kind := s.unquoteString(m["kind"])
	if depth == 0 && kind != "" || depth == 1 && key == "object" {
		s.kind = kind
	}
	for _, name := range []string{"data", "stringData"} {
		if v := m[name]; v.to > 0 && (kind == "Secret" || (s.Metadata || s.Secrets) && s.in[v.from] == '{') {
			s.replaceValue(v, "{}")
		}
	}
	if v := m["items"]; v.to > 0 && kind == "SecretList" && !s.Metadata {
		if with, ok := withoutData(s.in[v.from:v.to]); ok {
			s.replaceValue(v, with)
		}
	}
	if v := m["binaryData"]; v.to > 0 && s.in[v.from] == '{' {
		s.replaceValue(v, s.withoutBase64(v))
	}
	if !s.Metadata {
		return
	}
	if v := m[lastApplied]; v.to > 0 {
		s.replaceValue(v, `"`+withheld+`"`)
	}
	if key == "metadata" && m["name"].to > 0 { // a list's has none
		s.annotateSecret(at, m)
	}
	if s.Restore && strings.HasPrefix(kind, "PartialObjectMetadata") && m["apiVersion"].to > 0 {
		s.edits = append(s.edits,
			edit{m["kind"], `"` + strings.Replace(kind, "PartialObjectMetadata", "Secret", 1) + `"`},
			edit{m["apiVersion"], `"v1"`})
	}
}

// withoutData is a list of Secrets, which need not say what they are, without their data.
// It reports whether any has some.
func withoutData(items []byte) (string, bool) {
	var all []json.RawMessage
	if json.Unmarshal(items, &all) != nil {
		return "[]", items[0] != 'n' // no list is no Secrets
	}
	some := false
	for i, item := range all {
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil {
			continue
		}
		for _, name := range []string{"data", "stringData"} {
			if v, ok := fields[name]; ok && string(v) != "null" && string(v) != "{}" {
				fields[name], some = json.RawMessage("{}"), true
			}
		}
		if out, err := json.Marshal(fields); err == nil {
			all[i] = out
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		return "[]", true
	}
	return string(out), some
}

// withoutBase64 is an object of base64 values without them: what is in there cannot be
// masked.
func (s *stripper) withoutBase64(at span) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(s.in[at.from:at.to], &fields) != nil {
		return "{}"
	}
	for name := range fields {
		fields[name] = json.RawMessage(`"` + withheldBase64 + `"`)
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return "{}"
	}
	return string(out)
}

// annotateSecret says in a Secret's metadata that its data is withheld, and which keys
// it has as far as its managers told.
func (s *stripper) annotateSecret(at span, m members) {
	notes := `"` + dataNote + `":"` + withheld + `"`
	if v := m["managedFields"]; v.to > 0 {
		if keys, err := json.Marshal(strings.Join(dataKeys(s.in[v.from:v.to]), ",")); err == nil && len(keys) > 2 {
			notes += `,"` + keysNote + `":` + string(keys)
		}
		s.edits = append(s.edits, edit{v, writersOf(s.in[v.from:v.to])})
	}
	where, end := at.from+1, ","
	if v := m["annotations"]; v.to > 0 && s.in[v.from] == '{' {
		where = v.from + 1
		if len(bytes.TrimSpace(s.in[v.from+1:v.to-1])) == 0 {
			end = ""
		}
	} else {
		notes = `"annotations":{` + notes + `}`
		if len(bytes.TrimSpace(s.in[at.from+1:at.to-1])) == 0 {
			end = ""
		}
	}
	s.edits = append(s.edits, edit{span{where, where}, notes + end})
}

// writersOf is who wrote a Secret, and when: its managed fields without the fields.
func writersOf(managed []byte) string {
	type entry struct {
		Manager     string `json:"manager,omitempty"`
		Operation   string `json:"operation,omitempty"`
		Time        string `json:"time,omitempty"`
		Subresource string `json:"subresource,omitempty"`
	}
	var all []entry
	if json.Unmarshal(managed, &all) != nil {
		return "[]"
	}
	all = slices.DeleteFunc(all, func(e entry) bool { return e.Manager == "" || e.Time == "" })
	out, err := json.Marshal(all)
	if err != nil || len(all) == 0 {
		return "[]"
	}
	return string(out)
}

// dataKeys returns the names under data that managedFields tell of.
func dataKeys(managed []byte) []string {
	var entries []struct {
		FieldsV1 struct {
			Data map[string]json.RawMessage `json:"f:data"`
		} `json:"fieldsV1"`
	}
	if json.Unmarshal(managed, &entries) != nil {
		return nil
	}
	var keys []string
	for _, e := range entries {
		for name := range e.FieldsV1.Data {
			if name, ok := strings.CutPrefix(name, "f:"); ok && !slices.Contains(keys, name) {
				keys = append(keys, name)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// packed begin what is compressed and written in base64, once or twice: gzip, as
// Helm's releases are, and zip. What is in there cannot be masked.
var packed = []string{"H4sI", "SDRzSU", "UEsDB", "VUVzREJ"}

// inspectText looks at a string.
func (s *stripper) inspectText(at span) {
	raw := s.in[at.from+1 : at.to-1]
	if len(raw) >= 64 && slices.ContainsFunc(packed, func(p string) bool { return string(raw[:len(p)]) == p }) {
		s.replaceValue(at, `"`+withheldBase64+`"`)
		return
	}
	if !s.embedded || !bytes.Contains(raw, []byte("Secret")) || !bytes.Contains(raw, []byte("kind")) {
		return
	}
	old := s.unquoteString(at)
	if text := s.embeddedText(old); text != old {
		s.replaceValue(at, quoteJSON(text))
	}
}

// excerpt masks a message of several lines as a stretch of a log. Many are one: a container
// that wrote no message of its end gets the end of its log for one, and events quote logs.
func (s *stripper) excerpt(at span) {
	if s.MaskLog == nil || s.in[at.from] != '"' || bytes.IndexByte(s.in[at.from:at.to], '\\') < 0 {
		return
	}
	text := s.unquoteString(at)
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		return
	}
	if masked, _ := s.MaskLog([]byte(text)); string(masked) != text {
		s.replaceValue(at, quoteJSON(string(masked)))
	}
}

// quoteJSON writes a string as the API server does.
func quoteJSON(text string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always marshals
	return strings.TrimSuffix(out.String(), "\n")
}

// embeddedText cleans a document that is written inside a string.
func (s *stripper) embeddedText(text string) string {
	body := []byte(text)
	if s.level == maxEmbedded {
		return withheld
	}
	inner := &stripper{Options: Options{Mask: s.Mask}, in: body, embedded: true, level: s.level + 1}
	if inner.walkText() == nil {
		body = inner.applyEdits()
	}
	return string(s.Mask(body))
}

// secretColumns finds the columns of a table whose names give their cells away.
func (s *stripper) secretColumns(at span) {
	var columns []struct{ Name string }
	if json.Unmarshal(s.in[at.from:at.to], &columns) != nil {
		return
	}
	s.Columns = make([]string, len(columns))
	for i, c := range columns {
		if s.secretName(c.Name) {
			s.Columns[i] = c.Name
		}
	}
}

// secretName reports whether masking takes what stands under such a name.
func (s *stripper) secretName(name string) bool {
	probe := []byte(name + "=v9x8k2m4q7w1z3")
	return !bytes.Equal(s.Mask(probe), probe)
}

// secretFlag returns the argument of a command that stands in at when the argument
// behind it is a secret: --password.
func (s *stripper) secretFlag(at span) string {
	if s.bare || at.to-at.from < 4 || s.in[at.from] != '"' || s.in[at.from+1] != '-' || bytes.IndexByte(s.in[at.from:at.to], '=') >= 0 {
		return ""
	}
	if name := s.unquoteString(at); s.secretName(name) {
		return name
	}
	return ""
}

// maskCell masks a value as if the column's or flag's name stood before it.
func (s *stripper) maskCell(column string, at span) {
	value := s.unquoteString(at)
	if value == "" {
		return
	}
	masked, ok := strings.CutPrefix(string(s.Mask([]byte(column+"="+value))), column+"=")
	if ok && masked != value {
		s.replaceValue(at, quoteJSON(masked))
	}
}
