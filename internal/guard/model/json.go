package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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
	if !json.Valid(document) {
		return value{}, json.Unmarshal(document, new(json.RawMessage)) // it says why
	}
	r := reader{document: document, left: maxValues}
	return r.readValue(0)
}

// reader walks through a document that is valid: the first byte of a value says what it is.
type reader struct {
	document []byte
	at       int
	left     int // values that may still come
}

// skipTo goes on to the next byte that is none of these and no space, and returns it.
func (r *reader) skipTo(behind string) byte {
	for {
		c := r.document[r.at]
		if strings.IndexByte(" \t\r\n", c) < 0 && strings.IndexByte(behind, c) < 0 {
			return c
		}
		r.at++
	}
}

func (r *reader) readValue(depth int) (v value, err error) {
	if r.left--; r.left < 0 {
		return v, fmt.Errorf("it holds more than %d values", maxValues)
	}
	if depth > maxDepth {
		return v, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	c := r.skipTo("")
	v.from = r.at
	switch c {
	case 'n':
		v.kind, r.at = isNull, r.at+len("null")
	case 't':
		v.kind, r.at = isTrue, r.at+len("true")
	case 'f':
		v.kind, r.at = isFalse, r.at+len("false")
	case '"':
		v.kind, v.text = isText, r.readText()
	case '[', '{':
		v.kind = map[byte]kind{'[': isList, '{': isObject}[c]
		err = r.readInner(&v, depth)
	default:
		v.kind = isNumber
		for r.at < len(r.document) && strings.IndexByte("+-.eE0123456789", r.document[r.at]) >= 0 {
			r.at++
		}
		v.text = string(r.document[v.from:r.at])
	}
	v.to = r.at
	return v, err
}

// readText reads a string from its first sign on.
func (r *reader) readText() string {
	from, plain := r.at, true
	for r.at++; r.document[r.at] != '"'; r.at++ {
		switch c := r.document[r.at]; {
		case c == '\\':
			plain = false
			r.at++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	r.at++
	if plain {
		return string(r.document[from+1 : r.at-1])
	}
	var said string
	_ = json.Unmarshal(r.document[from:r.at], &said) // it is valid
	return said
}

// readInner reads a list, or an object, from its first sign on.
func (r *reader) readInner(v *value, depth int) error {
	var names map[string]bool
	if v.kind == isObject {
		names = map[string]bool{}
	}
	r.at++
	for {
		if c := r.skipTo(","); c == ']' || c == '}' {
			r.at++
			return nil
		}
		var name string
		var named span
		if v.kind == isObject {
			named.from = r.at
			name = r.readText()
			named.to = r.at
			if names[name] {
				return fmt.Errorf("it has the name %.64q twice in one object", name)
			}
			names[name] = true
			r.skipTo(":")
		}
		inner, err := r.readValue(depth + 1)
		if err != nil {
			return err
		}
		inner.name, inner.named = name, named
		v.inner = append(v.inner, inner)
	}
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
