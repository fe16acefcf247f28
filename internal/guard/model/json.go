package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds the nesting of a document, and maxValues how many values are in it: what
// is read takes a multiple of its size.
const (
	maxDepth  = 200
	maxValues = 1 << 20
)

// value is a JSON value: what it says, and where it stands in its document.
type value struct {
	span
	kind kind
	// text is what a text says, or how a number is written.
	text string
	// inner are the elements of a list or the members of an object, as they stand.
	inner []value
	// name is that of a member, and named is where it stands.
	name  string
	named span
}

// span is a part of a document: the bytes between two offsets.
type span struct{ from, to int }

func (s span) size() int { return s.to - s.from }

// kind says what a value is.
type kind byte

const (
	isAbsent kind = iota // the member that was looked for is not there
	isNull
	isTrue
	isFalse
	isNumber
	isText
	isList
	isObject
)

// readJSON reads a document, which is one value. No object in it has a name twice: readers
// differ in which of the two they believe.
func readJSON(document []byte) (value, error) {
	r := reader{document: document, dec: json.NewDecoder(bytes.NewReader(document)), left: maxValues}
	r.dec.UseNumber()
	v, err := r.readValue(0)
	if err == nil {
		if _, more := r.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind it")
		}
	}
	if err != nil {
		return value{}, err
	}
	return v, nil
}

// reader adds to the tokens of a decoder where they stand.
type reader struct {
	document []byte
	dec      *json.Decoder
	left     int // values that may still come
}

func (r *reader) readToken() (json.Token, span, error) {
	from := int(r.dec.InputOffset()) // where the last one ended
	t, err := r.dec.Token()
	for from < len(r.document) && strings.IndexByte(" \t\r\n,:", r.document[from]) >= 0 {
		from++
	}
	return t, span{from, int(r.dec.InputOffset())}, err
}

func (r *reader) readValue(depth int) (v value, err error) {
	if r.left--; r.left < 0 {
		return v, fmt.Errorf("it holds more than %d values", maxValues)
	}
	if depth > maxDepth {
		return v, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	var t json.Token
	if t, v.span, err = r.readToken(); err != nil {
		return v, err
	}
	switch t := t.(type) {
	case nil:
		v.kind = isNull
	case bool:
		v.kind = map[bool]kind{true: isTrue, false: isFalse}[t]
	case json.Number:
		v.kind, v.text = isNumber, t.String()
	case string:
		v.kind, v.text = isText, t
	case json.Delim:
		v.kind = map[json.Delim]kind{'[': isList, '{': isObject}[t] // the decoder lets no other begin a value
		err = r.readInner(&v, depth)
	}
	return v, err
}

// readInner reads a list, or an object, behind its first sign.
func (r *reader) readInner(v *value, depth int) error {
	names := map[string]bool{}
	for r.dec.More() {
		var name string
		var named span
		if v.kind == isObject {
			t, at, err := r.readToken()
			if err != nil {
				return err
			}
			name, named = t.(string), at // the decoder lets nothing else pass
			if names[name] {
				return fmt.Errorf("it has the name %.64q twice in one object", name)
			}
			names[name] = true
		}
		inner, err := r.readValue(depth + 1)
		if err != nil {
			return err
		}
		inner.name, inner.named = name, named
		v.inner = append(v.inner, inner)
	}
	_, end, err := r.readToken()
	v.to = end.to
	return err
}

// findMember is the member of an object that has exactly this name.
func (v value) findMember(name string) value {
	if v.kind == isObject {
		for _, m := range v.inner {
			if m.name == name {
				return m
			}
		}
	}
	return value{}
}

// isSaid reports whether a value is there, and is not null.
func (v value) isSaid() bool { return v.kind > isNull }

// saysOneOf reports whether a value is one of some texts, or is not said.
func (v value) saysOneOf(words ...string) bool {
	return !v.isSaid() || v.kind == isText && slices.Contains(words, v.text)
}

// wholeNumber is the number that a value is, and whether it is a whole one. What is far
// beyond any count is cut off.
func (v value) wholeNumber() (int64, bool) {
	if v.kind != isNumber {
		return 0, false
	}
	if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(v.text, 64)
	n := int64(min(max(f, -1<<52), 1<<52))
	return n, err == nil && (float64(n) == f || f > 1<<52 || f < -1<<52)
}

// String is a value as it is shown to people, at full length.
func (v value) String() string {
	switch v.kind {
	case isText, isNumber:
		return v.text
	}
	return [...]string{isAbsent: "nothing", isNull: "null", isTrue: "true", isFalse: "false", isNumber: "", isText: "", isList: "a list", isObject: "an object"}[v.kind]
}

// quoteJSON writes a string as JSON, with as few escapes as there can be.
func quoteJSON(s string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded
	return strings.TrimSuffix(out.String(), "\n")
}
