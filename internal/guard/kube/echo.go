package kube

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/mask"
)

// An error repeats what it is about. Masked, the caller's own words would confirm a
// guess. So names that were asked for are given back as they are, and other words of the
// question, such as selectors, are replaced.

// everyday are resources that errors may name: every cluster has them, so they are
// nobody's guess.
var everyday = func() (list []string) {
	for k := range kinds.All() {
		if k.Use != kinds.Optional {
			list = append(list, k.Plural)
		}
	}
	return list
}()

// nameWords are the words of the path, and of options that are names.
func (p *parts) nameWords() []string {
	words := []string{p.namespace, p.name, p.optionValue("container"), p.group, p.qualifiedResource()}
	if !slices.Contains(everyday, p.resource) {
		words = append(words, p.resource)
	}
	return words
}

// optionWords are those of the other options.
func (p *parts) optionWords() []string {
	var words []string
	for _, o := range p.query {
		if o.key != "container" {
			words = append(words, o.value)
		}
	}
	return words
}

// maxError bounds an error, in bytes.
const maxError = 256 << 10

// cleanEvent cleans an event of a watch, which may be an error.
func (c *call) cleanEvent(record []byte) ([]byte, error) {
	if bytes.HasPrefix(record, []byte(`{"type":"ERROR"`)) {
		return c.cleanError(record)
	}
	return c.cleanJSON(record)
}

// cleanError cleans an error in JSON.
func (c *call) cleanError(body []byte) (out []byte, err error) {
	if len(body) > maxError {
		return nil, newFailuref(http.StatusBadGateway, "format", "the cluster's error is longer than %d bytes and is not passed on", maxError)
	}
	body = withoutEchoes(body, c.parts.optionWords())
	out = mask.Apart(body, func(body []byte) []byte {
		var clean []byte
		clean, err = c.cleanJSON(body)
		return clean
	}, c.parts.nameWords()...)
	return out, err
}

// cleanText cleans an error that is no JSON.
func (c *call) cleanText(body []byte) []byte {
	text := mask.WithoutEchoes(string(body), c.parts.optionWords()...)
	return mask.Apart([]byte(text), c.maskText, c.parts.nameWords()...)
}

// withoutEchoes replaces what the strings of a document repeat. What is no document stays
// as it is.
func withoutEchoes(body []byte, asked []string) []byte {
	if len(asked) == 0 {
		return body
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil || dec.More() {
		return body
	}
	out, err := json.Marshal(eachString(doc, func(s string) string { return mask.WithoutEchoes(s, asked...) }))
	if err != nil {
		return body
	}
	return out
}

// eachString changes the strings of a document.
func eachString(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		for i := range v {
			v[i] = eachString(v[i], change)
		}
	case map[string]any:
		for k := range v {
			v[k] = eachString(v[k], change)
		}
	}
	return v
}

// isErrorStatus reports whether an answer is an error.
func isErrorStatus(status int) bool { return status >= http.StatusBadRequest }
