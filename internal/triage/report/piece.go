package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
)

// piece is a part of some evidence that is about one thing: an object, an item of
// a list, or all of it when it is no JSON.
type piece struct {
	// text is in normal form, with a blank at either end.
	text string
	// names are those of the object: its own, its owners', the one that an event is
	// about. It is empty for what is no object.
	names []name
	// own are the words that any evidence of this object holds: its names, its
	// namespace, its kind. fields are the names of fields that are no values too.
	own, fields map[string]bool
	// object is set for JSON, whose fields describe orders otherwise.
	object bool
	// asked are the words of the request, of an answer that is a failure; nil of all
	// others.
	asked map[string]bool
}

// maxPieces bounds into how many items a list is taken apart; the rest of a longer
// one shows nothing.
const maxPieces = 5000

// takeApart makes pieces of what was recorded.
func takeApart(kept Recorded) []piece {
	raw := kept.Body
	if kept.Asked != "" {
		return []piece{failurePiece(kept)}
	}
	if !json.Valid(raw) {
		// A log stands behind the line that names its Pod, an answer in text alone.
		return []piece{{text: normalBody(raw)}}
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(raw, &list) != nil || len(list.Items) == 0 {
		return []piece{onePiece(raw)}
	}
	var out []piece
	for _, item := range list.Items[:min(len(list.Items), maxPieces)] {
		out = append(out, onePiece(item))
	}
	return out
}

// failurePiece is the piece of an answer that is a failure: its message.
func failurePiece(kept Recorded) piece {
	p := piece{text: normalBody(kept.Body), asked: map[string]bool{}}
	var status struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	if json.Unmarshal(kept.Body, &status) == nil {
		p.text = " " + normalText(status.Message+" "+status.Reason) + " "
	}
	for _, w := range strings.Fields(normalText(kept.Asked)) {
		p.asked[w] = true
	}
	return p
}

// hasOwnWords reports whether words, in normal form, hold one of the cluster's own: what the
// request said shows nothing.
func (p *piece) hasOwnWords(words string) bool {
	for _, w := range strings.Fields(words) {
		if !p.asked[w] && !stopWords[w] {
			return true
		}
	}
	return false
}

func onePiece(raw []byte) piece {
	p := piece{text: normalBody(raw), object: true, own: map[string]bool{}, fields: map[string]bool{}}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return p
	}
	values := map[string]bool{}
	p.readValue(v, values)
	maps.DeleteFunc(p.fields, func(w string, _ bool) bool { return values[w] })
	o, _ := v.(map[string]any)
	meta, _ := o["metadata"].(map[string]any)
	p.addName(meta)
	for _, field := range []string{"involvedObject", "regarding"} {
		about, _ := o[field].(map[string]any)
		p.addName(about)
	}
	owners, _ := meta["ownerReferences"].([]any)
	for _, owner := range owners {
		m, _ := owner.(map[string]any)
		p.addName(m)
	}
	for _, field := range []any{o["kind"], o["apiVersion"], meta["namespace"], meta["uid"]} {
		if s, ok := field.(string); ok {
			p.ofItself(s)
		}
	}
	return p
}

func (p *piece) addName(m map[string]any) {
	if n, _ := m["name"].(string); n != "" {
		p.names = append(p.names, name{n, normalText(n)})
		p.ofItself(n)
	}
}

func (p *piece) ofItself(s string) {
	for _, w := range strings.Fields(normalText(s)) {
		p.own[w] = true
	}
}

// readValue notes the names of fields, and what stands alone as a value: Running is
// both.
func (p *piece) readValue(v any, values map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			for _, w := range strings.Fields(normalText(k)) {
				p.fields[w] = true
			}
			p.readValue(e, values)
		}
	case []any:
		for _, e := range v {
			p.readValue(e, values)
		}
	case string:
		if len(v) <= maxValueName && !strings.Contains(v, " ") {
			values[normalText(v)] = true
		}
	}
}

// maxValueName bounds what counts as the name of a value, in bytes.
const maxValueName = 64

// isTelling reports whether a value says something in this piece: more than the names of
// the object and of its fields, which stand in any evidence of it.
func (p *piece) isTelling(v string) bool {
	field, value, pair := cutPair(v)
	if pair = pair && field != "" && value != ""; !pair {
		value = normalText(v)
	}
	if !pair && isTrivial(v) {
		return false
	}
	rest := 0
	for _, w := range strings.Fields(value) {
		if !p.own[w] && !stopWords[w] && (pair || !p.fields[w]) {
			rest += len(w)
		}
	}
	return rest >= minValue || pair && rest > 0
}
