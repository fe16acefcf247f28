package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// What the guard reads of a document is what others read of it, and where it stands there.
func FuzzReadJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,"x\u00e9\ud83d\ude00\n",true,false,null,{}],"b":{"":[[]]}}`, ` [ 1 , 2 ] `, `{"a":1,"\u0061":2}`, `{"a":{"b":1},"b":{"b":1}}`, `[1,]`, `{"a" 1}`, `{,}`, `1 2`, `"\ud800"`,
		`{"\ud800":1,"\udfff":2}`, "\"\x01\"", `{"a":1}}`, `[}`, ``, `01`, `9223372036854775808`, `1e400`, `nul`, strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), "{\"a\xff\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		v, err := readJSON(document)
		if valid := json.Valid(document); !valid && err == nil {
			t.Fatalf("%q is read", document)
		} else if valid && err != nil && !refusedOnPurpose(document) {
			t.Fatalf("%q is not read: %v", document, err)
		}
		if err == nil {
			checkAgainstDecoder(t, document, v)
		}
	})
}

// refusedOnPurpose reports whether a valid document is nested too deep, too large, or has a name
// twice in one object.
func refusedOnPurpose(document []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(document))
	values := 0
	type level struct {
		names  map[string]bool // nil in a list
		isName bool            // the next token may be one
	}
	levels := []level{{}}
	for {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		here := &levels[len(levels)-1]
		if name, ok := t.(string); ok && here.names != nil && here.isName {
			if here.names[name] {
				return true
			}
			here.names[name], here.isName = true, false
			continue
		}
		here.isName = true
		switch t {
		case json.Delim('{'):
			levels = append(levels, level{map[string]bool{}, true})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
			continue
		}
		if values++; values > maxValues || len(levels) > maxDepth+1 {
			return true
		}
	}
}

// checkAgainstDecoder holds each value against what a decoder reads where it stands.
func checkAgainstDecoder(t *testing.T, document []byte, v value) {
	t.Helper()
	part := document[v.from:v.to]
	switch v.kind {
	case isList:
		var all []json.RawMessage
		if err := json.Unmarshal(part, &all); err != nil || len(all) != len(v.inner) {
			t.Fatalf("%q: a list of %d: %v", part, len(v.inner), err)
		}
	case isObject:
		var all map[string]json.RawMessage
		if err := json.Unmarshal(part, &all); err != nil || len(all) != len(v.inner) {
			t.Fatalf("%q: an object of %d: %v", part, len(v.inner), err)
		}
		for _, m := range v.inner {
			var name string
			if err := json.Unmarshal(document[m.named.from:m.named.to], &name); err != nil || name != m.name || v.findMember(name).span != m.span {
				t.Fatalf("%q: the name %q: %v", part, m.name, err)
			}
		}
	case isText:
		var text string
		if err := json.Unmarshal(part, &text); err != nil || text != v.text {
			t.Fatalf("%q: the text %q: %v", part, v.text, err)
		}
	case isNumber:
		var exact int64
		err := json.Unmarshal(part, &exact)
		if n, whole := v.wholeNumber(); v.text != string(part) || err == nil && (n != exact || !whole) {
			t.Fatalf("%q: the number %q: %d, %t", part, v.text, n, whole)
		}
	default:
		if v.String() != string(part) {
			t.Fatalf("%q: %s", part, v)
		}
	}
	for _, e := range v.inner {
		checkAgainstDecoder(t, document, e)
	}
}

func TestReadJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for document, want := range map[string]string{
		`{"a":1,"b":{"a":1}}`:                    "",
		`{"a":1,"b":2,"a":3}`:                    `"a" twice`,
		`{"a":1,"\u0061":2}`:                     `"a" twice`,
		deep(maxDepth + 1):                       "",
		deep(maxDepth + 2):                       "nested deeper",
		`[` + strings.Repeat("0,", 1<<20) + `0]`: "more than",
		`{} {}`:                                  "after top-level",
		`{"a":}`:                                 "invalid",
	} {
		_, err := readJSON([]byte(document))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", document, err)
		}
	}
	for text, want := range map[string]int64{"1": 1, "-3": -3, "1e3": 1000, "1.5": -1, `"1"`: -1, "1e400": -1, "1e30": 1 << 52, "9007199254740993": 9007199254740993, "null": -1, "10.0": 10} {
		v, err := readJSON([]byte(text))
		if n, whole := v.wholeNumber(); err != nil || whole != (want != -1) || whole && n != want {
			t.Errorf("%s is %d, %t, %v", text, n, whole, err)
		}
	}
}
