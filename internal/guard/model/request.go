package model

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// A model's provider can act for whoever asks: search and fetch the web, call
// MCP servers, run code, read uploaded files. Each of these is a way out of the
// sandbox, or into what other runs left, so a request may hold nothing of it.

// It can also make one question cost what many do: by more than one answer to it, or by
// a place before others that is sold apart. No CLI asks for either.

// admittedCall is a request that may be forwarded, and the most that its answer may have.
type admittedCall struct {
	*apiCall
	document *document
	weight
	outline
	turn   bool  // one of the run's turns is taken for it, and it can still be given back
	output int64 // 0 for one that is not billed
	body   []byte
	grant  Grant // nil without a budget
	priced bool
	price  price.Price
}

// inspectBody returns what may be forwarded of a request, or why it may not. settings are what
// of the call, beside its path and body, may decide how it is counted.
func (g *Guard) inspectBody(c *apiCall, path, settings string, body []byte) (*admittedCall, error) {
	g.inspecting.Lock() // one at a time: what is read takes a multiple of its size
	defer g.inspecting.Unlock()
	d, err := g.readRequest(body)
	if err != nil {
		return nil, err
	}
	if err := checkModelOfPath(path, d.root); err != nil {
		return nil, err
	}
	if err := g.dialect.inspectRequest(path, d.root); err != nil {
		return nil, err
	}
	a := &admittedCall{apiCall: c, document: d, weight: g.weighRequest(d.root)}
	a.outline = g.bounds.outlineOf(alike{path: path, model: modelOf(path, d.root), settings: settings}, c, d)
	if m := c.whenStreamed; m.name != "" && d.root.findMember("stream").kind == isTrue && d.root.findMember(m.name).kind == isAbsent {
		d.addMember(m.name, m.json)
	}
	return a, g.limitAnswer(a)
}

// readRequest reads a body, which has to be an object, and masks it. What is masked is read
// again, so that all that is decided about it is decided about what is sent.
func (g *Guard) readRequest(body []byte) (*document, error) {
	if !utf8.Valid(body) { // what readers make of one such byte may be several
		return nil, errors.New("the request is not UTF-8")
	}
	root, err := readJSON(body)
	if g.cfg.Mask != nil && err == nil {
		m := masker{facts: &g.facts, mask: g.cfg.Mask}
		if m.maskValue(root, false); len(m.edits) > 0 {
			body = applyEdits(body, m.edits)
			root, err = readJSON(body)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the request is not readable JSON: %w", err)
	}
	if root.kind != isObject {
		return nil, errors.New("the request is not a JSON object")
	}
	return &document{body: body, root: root}, nil
}

// checkModelOfPath refuses a body that names another model than its path, wherever: that would
// be priced, and allowed, in its place.
func checkModelOfPath(path string, request value) error {
	named := modelIn(path)
	if named == "" {
		return nil
	}
	for _, m := range request.inner {
		switch plainName(m.name) {
		case "model":
			if !m.saysOneOf(named, "models/"+named) {
				return fmt.Errorf("the model %.64q is not the one that the path asks", m.String())
			}
		case "generatecontentrequest":
			if err := checkModelOfPath(path, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// modelOf is the model that a request asks. An API that has it in the path does not look
// for it in the body, so the path goes first.
func modelOf(path string, request value) string {
	name := modelIn(path)
	if m := request.findMember("model"); name == "" && m.kind == isText {
		name = m.text
	}
	return name[:min(len(name), maxName)]
}

// modelIn is the model that a path names, "" for none.
func modelIn(path string) string {
	_, rest, _ := strings.Cut(path, "/models/")
	name, _, _ := strings.Cut(rest, ":")
	return name
}

// maxName bounds the name of a model in a record, in bytes.
const maxName = 200

// document is a request's body. What has to be changed is changed in its place, and every
// other byte stays what it is: providers keep what they have read by its beginning.
type document struct {
	body  []byte
	root  value
	edits []edit
}

// edit is what shall stand in the place of some bytes.
type edit struct {
	span
	text string
}

// replaceSpan has a text stand in the place of some bytes.
func (d *document) replaceSpan(s span, text string) { d.edits = append(d.edits, edit{s, text}) }

// addMember adds a member, at a path of two names at most, that the document does not have.
// What it is a member of is an object, null, or not there.
func (d *document) addMember(path, json string) {
	within := d.root
	parent, name, deep := strings.Cut(path, ".")
	if !deep {
		name = parent
	} else if there := d.root.membersAt(parent); len(there) == 0 {
		name, json = parent, "{"+quoteJSON(name)+":"+json+"}"
	} else if within = there[0]; within.kind != isObject { // null: another one beside it would leave open which is believed
		d.replaceSpan(within.span, "{"+quoteJSON(name)+":"+json+"}")
		return
	}
	member := quoteJSON(name) + ":" + json
	if len(within.inner) > 0 {
		member += ","
	}
	d.replaceSpan(span{within.from + 1, within.from + 1}, member)
}

// membersAt are the members at a path with dots. In a loose form one may be spelled twice.
func (v value) membersAt(path string) (all []value) {
	name, rest, deeper := strings.Cut(path, ".")
	for _, m := range v.inner {
		switch {
		case path == "" || v.kind != isObject || plainName(m.name) != plainName(name):
		case deeper:
			all = append(all, m.membersAt(rest)...)
		default:
			all = append(all, m)
		}
	}
	return all
}

// applyEdits is a body with changes, none of which is within another.
func applyEdits(body []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return body
	}
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	out.Grow(len(body) + 64*len(edits))
	at := 0
	for _, e := range edits {
		out.Write(body[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(body[at:])
	return out.Bytes()
}

// limitAnswer finds how long the answer to a request may be: as long as it asks for, and no
// longer than the guard allows.
func (g *Guard) limitAnswer(a *admittedCall) error {
	if !a.billed {
		a.body = applyEdits(a.document.body, a.document.edits)
		return nil
	}
	a.output = g.cfg.MaxTokens
	for _, path := range a.lengthFields {
		for _, said := range a.document.root.membersAt(path) {
			if !said.isSaid() {
				continue
			}
			n, ok := said.wholeNumber()
			if !ok || n < 1 {
				return fmt.Errorf("%s is no number of tokens", path)
			}
			a.output = min(a.output, n)
		}
	}
	return nil
}

// writeAnswerLength writes into the body how long the answer may be.
func (a *admittedCall) writeAnswerLength(output int64) {
	a.output = output
	d := a.document
	kept := len(d.edits)
	said := false
	for _, path := range a.lengthFields {
		for _, at := range d.root.membersAt(path) {
			said = true
			if n, ok := at.wholeNumber(); !ok || n != output {
				d.replaceSpan(at.span, strconv.FormatInt(output, 10))
			}
		}
	}
	if !said {
		d.addMember(a.lengthFields[0], strconv.FormatInt(output, 10))
	}
	for _, at := range d.root.membersAt(a.thinkingField) {
		if n, ok := at.wholeNumber(); ok && n >= output {
			d.replaceSpan(at.span, strconv.FormatInt(output-1, 10))
		}
	}
	a.body = applyEdits(d.body, d.edits)
	d.edits = d.edits[:kept]
}
