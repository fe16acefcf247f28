package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// A model's provider can act for whoever asks: search and fetch the web, call
// MCP servers, run code, read uploaded files. Each of these is a way out of the
// sandbox, or into what other runs left, so a request may hold nothing of it.

// It can also make one question cost what many do: by more than one answer to it, or by
// a place before others that is sold apart. No CLI asks for either.

// maxDepth bounds the nesting of a request.
const maxDepth = 200

// inspectBody returns what may be forwarded of a request, or why it may not.
func (g *Guard) inspectBody(path string, body []byte) (*admittedCall, error) {
	g.inspecting.Lock() // one at a time: what is decoded takes a multiple of its size
	defer g.inspecting.Unlock()
	if !utf8.Valid(body) { // what readers make of one such byte may be several
		return nil, errors.New("the request is not UTF-8")
	}
	request, err := parseRequestBody(body)
	if err != nil {
		return nil, err
	}
	fields, ok := request.(map[string]any)
	if !ok {
		return nil, errors.New("the request is not a JSON object")
	}
	if err := g.protocol.inspectRequest(path, fields); err != nil {
		return nil, err
	}
	k := kind{path: path, model: modelOf(path, fields), rest: restOf(fields)}
	var w weight
	w, k.alone, k.references = weighRequest(fields)
	a := &admittedCall{kind: k, weight: w, billed: g.protocol.isBilled(path), document: newDocument(body, fields, g.cfg.Mask)}
	g.protocol.amendRequest(path, a.document)
	return a, g.limitAnswer(a)
}

// parseRequestBody decodes a document in which no object has a name twice: readers differ
// in which of the two they believe.
func parseRequestBody(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the request")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the request is not readable JSON: %w", err)
	}
	return v, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		return parseList(dec, depth)
	case json.Delim('{'):
		return parseObject(dec, depth)
	}
	return t, nil
}

func parseList(dec *json.Decoder, depth int) (any, error) {
	all := []any{}
	for dec.More() {
		v, err := parseValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	_, err := dec.Token()
	return all, err
}

func parseObject(dec *json.Decoder, depth int) (any, error) {
	all := map[string]any{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the decoder lets nothing else pass
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("it has the name %.64q twice in one object", name)
		}
		if all[name], err = parseValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return all, err
}

// isSingleAnswer reports whether a number of answers is one, or is not said.
func isSingleAnswer(n any) bool {
	number, ok := n.(json.Number)
	return n == nil || ok && number.String() == "1"
}

// oneOf reports whether a word is one of some, or is not said.
func oneOf(v any, words ...string) bool {
	word, ok := v.(string)
	return v == nil || ok && slices.Contains(words, word)
}

// eachOf checks the elements of a list.
func eachOf(name string, v any, check func(any) error) error {
	if v == nil {
		return nil
	}
	all, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s is not a list", name)
	}
	for _, e := range all {
		if err := check(e); err != nil {
			return err
		}
	}
	return nil
}
