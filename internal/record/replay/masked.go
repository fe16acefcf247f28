package replay

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Masked masks the texts in a model's stream, as they are when they are read: a line hides
// what it escapes. The pieces of one text are put together for that; where something is
// spread over several, the text stands in the first of its events then. What stands
// elsewhere, or in no stream, is left to the caller.
func Masked(answer []byte, mask func(string) string) []byte {
	texts := map[string]*spread{}
	eachPiece(answer, func(at, piece string) string {
		if texts[at] == nil {
			texts[at] = &spread{}
		}
		texts[at].whole.WriteString(piece)
		texts[at].apart.WriteString(mask(piece))
		return piece
	})
	found := false
	for _, t := range texts {
		t.masked = mask(t.whole.String())
		t.secret = t.masked != t.apart.String()
		found = found || t.masked != t.whole.String()
	}
	if !found {
		return answer
	}
	return eachPiece(answer, func(at, piece string) string {
		t := texts[at]
		if !t.secret {
			return mask(piece)
		}
		piece, t.masked = t.masked, ""
		return piece
	})
}

// spread is a text that comes in pieces: as they make it, and masked piece by piece and
// whole.
type spread struct {
	whole, apart strings.Builder
	masked       string
	secret       bool
}

// spoken are the fields in which models' APIs stream texts and arguments of tools.
var spoken = []string{"arguments", "content", "delta", "partial_json", "reasoning_content", "refusal", "text", "thinking"}

// eachPiece calls fn for each piece of a text in a stream, with the name of the text, and
// returns the stream with what fn returns in its place. Lines in which nothing changes
// stay as they are.
func eachPiece(answer []byte, fn func(at, piece string) string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(answer) {
		e := &event{line: line}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		changed := false
		if ok && decodeJSON(bytes.TrimSpace(data), &e.doc) == nil {
			e.doc = eachSpoken(e.doc, e.laneName(), false, func(at, piece string) string {
				now := fn(at, piece)
				changed = changed || now != piece
				return now
			})
		}
		if !changed {
			e.doc = nil
		}
		e.writeEvent(&out, "", "")
	}
	return out.Bytes()
}

// eachSpoken calls fn for the spoken strings of a document and replaces them.
func eachSpoken(v any, at string, is bool, fn func(at, piece string) string) any {
	switch v := v.(type) {
	case string:
		if is {
			return fn(at, v)
		}
	case []any:
		for i := range v {
			v[i] = eachSpoken(v[i], placeBelow(at, strconv.Itoa(i)), false, fn)
		}
	case map[string]any:
		for k := range v {
			v[k] = eachSpoken(v[k], placeBelow(at, k), slices.Contains(spoken, k), fn)
		}
	}
	return v
}
