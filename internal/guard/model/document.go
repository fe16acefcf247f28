package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// document is a request's body and where in it the values stand that are looked at,
// so that what has to be changed is changed in its place and every other byte stays
// what it is: providers keep what they have read by its beginning.
type document struct {
	body   []byte
	fields map[string]any
	// places are where objects and their members stand that are no deeper than
	// maxPlace, by their path with dots, in plain names; one may be spelled twice.
	places map[string][]span
	edits  []edit
}

type span struct{ from, to int }

// edit is what shall stand in the place of some bytes.
type edit struct {
	span
	text string
}

// maxPlace is how deep the fields lie that are ever changed.
const maxPlace = 3

// newDocument finds the places in a body that holds these fields. mask is asked for
// every text that is not sealed, and says what shall stand there; nil changes none.
func newDocument(body []byte, fields map[string]any, mask func(string) string) *document {
	d := &document{body: body, fields: fields, places: map[string][]span{}}
	w := walker{document: d, mask: mask}
	w.walkValue(fields, "", 0)
	return d
}

// replaceSpan has a text stand in the place of some bytes.
func (d *document) replaceSpan(s span, text string) {
	d.edits = append(d.edits, edit{s, text})
}

// numberAt reads the number in a place, and whether it is one.
func (d *document) numberAt(s span) (int64, bool) {
	f, err := strconv.ParseFloat(string(d.body[s.from:s.to]), 64)
	return int64(min(max(f, -1), 1<<40)), err == nil
}

// addNumberField puts a number into a field that the document does not have. What it is a member of
// is an object, null, or not there.
func (d *document) addNumberField(path string, n int64) {
	parent, name, nested := strings.Cut(path, ".")
	member := strconv.Quote(name) + ":" + strconv.FormatInt(n, 10)
	within := d.places[""]
	switch at := d.places[plainName(parent)]; {
	case !nested:
		member = strconv.Quote(parent) + ":" + strconv.FormatInt(n, 10)
	case len(at) > 0 && d.body[at[0].from] == '{':
		within = at
	case len(at) > 0: // null: another one beside it would leave open which is believed
		d.replaceSpan(at[0], "{"+member+"}")
		return
	default:
		member = strconv.Quote(parent) + ":{" + member + "}"
	}
	open := within[0].from + 1
	if rest := bytes.TrimLeft(d.body[open:], " \t\r\n"); rest[0] != '}' {
		member += ","
	}
	d.replaceSpan(span{open, open}, member)
}

// applyEdits is the body with its changes and some more.
func (d *document) applyEdits(more ...edit) []byte {
	edits := slices.Concat(d.edits, more)
	if len(edits) == 0 {
		return d.body
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	out.Grow(len(d.body) + 64*len(edits))
	at := 0
	for _, e := range edits {
		out.Write(d.body[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(d.body[at:])
	return out.Bytes()
}

// walker goes through a body that is known to be JSON, along the values that were
// read from it.
type walker struct {
	*document
	at   int
	mask func(string) string
	free bool // what is walked through is a tool's: nothing in it is sealed
}

func (w *walker) skipSeparators() {
	for strings.IndexByte(" \t\r\n,:", w.body[w.at]) >= 0 {
		w.at++
	}
}

// walkValue steps over one value, which stands at a path of that depth.
func (w *walker) walkValue(v any, path string, depth int) {
	w.skipSeparators()
	from := w.at
	switch v := v.(type) {
	case map[string]any:
		w.walkObject(v, path, depth)
	case []any:
		w.at++
		for _, e := range v {
			w.walkValue(e, "", maxPlace+1) // what lies in lists is never changed by its place
		}
		w.skipSeparators()
		w.at++
	case string:
		w.walkString(v)
	default:
		for w.at < len(w.body) && strings.IndexByte(" \t\r\n,]}", w.body[w.at]) < 0 {
			w.at++
		}
	}
	if depth == 0 || depth <= maxPlace && path != "" { // a member may have no name
		w.places[path] = append(w.places[path], span{from, w.at})
	}
}

func (w *walker) walkObject(v map[string]any, path string, depth int) {
	mask, within := w.mask, w.free
	var names map[string]bool // that stand in the place of masked ones
	w.at++
	for range v {
		w.skipSeparators()
		from := w.at
		name := w.walkName()
		under := ""
		switch {
		case depth == 0:
			under = plainName(name)
		case depth < maxPlace:
			under = path + "." + plainName(name)
		}
		if within && mask != nil && len(name) >= minMasked {
			if masked := mask(name); masked != name {
				if names == nil {
					names = map[string]bool{}
				}
				w.replaceSpan(span{from, w.at}, quoteJSON(uniqueName(masked, v, names)))
			}
		}
		w.mask, w.free = mask, within || isFreeMember(v, name)
		if mask != nil && !w.free && isSealedMember(v, name) {
			w.mask = nil
		}
		w.walkValue(v[name], under, depth+1)
	}
	w.mask, w.free = mask, within
	w.skipSeparators()
	w.at++
}

// uniqueName is a name that an object does not have, made of a masked one, and is added to
// names.
func uniqueName(masked string, object map[string]any, names map[string]bool) string {
	name := masked
	for n := 2; ; n++ {
		if _, there := object[name]; !there && !names[name] {
			names[name] = true
			return name
		}
		name = masked + " " + strconv.Itoa(n)
	}
}

// walkName steps over a member's name.
func (w *walker) walkName() string {
	from := w.at
	w.skipString()
	raw := w.body[from:w.at]
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var name string
	_ = json.Unmarshal(raw, &name) // it was read before
	return name
}

// walkString steps over a string, which holds v, and masks it.
func (w *walker) walkString(v string) {
	from := w.at
	w.skipString()
	if w.mask == nil || len(v) < minMasked {
		return
	}
	if masked := w.mask(v); masked != v {
		w.replaceSpan(span{from, w.at}, quoteJSON(masked))
	}
}

// minMasked is less than any secret's length, in bytes.
const minMasked = 6

func (w *walker) skipString() {
	for w.at++; w.body[w.at] != '"'; w.at++ {
		if w.body[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// quoteJSON writes a string as JSON, with as few escapes as there can be.
func quoteJSON(s string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded
	return strings.TrimSuffix(out.String(), "\n")
}
