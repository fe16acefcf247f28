package replay

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Masked masks the texts in a model's stream, as they are when they are read: a line hides
// what it escapes. What stands elsewhere, or in no stream, is left to the caller.
func Masked(answer []byte, mask func(string) string) []byte {
	isSpoken := func(field string) bool { return slices.Contains(spoken, field) }
	return rewriteTexts(answer, isSpoken, mask, func(line []byte) []byte { return line })
}

// rewriteTexts changes the texts in a stream, and the lines that are no event. The pieces of
// one text are put together for that; where something is spread over several, the text
// stands in the first of its events then.
func rewriteTexts(answer []byte, isText func(field string) bool, change func(string) string, other func(line []byte) []byte) []byte {
	texts := map[string]*spread{}
	eachPiece(answer, isText, other, func(at, piece string) string {
		if texts[at] == nil {
			texts[at] = &spread{}
		}
		texts[at].whole.WriteString(piece)
		texts[at].apart.WriteString(change(piece))
		return piece
	})
	for _, t := range texts {
		t.changed = change(t.whole.String())
		t.joined = t.changed != t.apart.String()
	}
	return eachPiece(answer, isText, other, func(at, piece string) string {
		t := texts[at]
		if !t.joined {
			return change(piece)
		}
		piece, t.changed = t.changed, ""
		return piece
	})
}

// spread is a text that comes in pieces: as they make it, and changed piece by piece and
// whole.
type spread struct {
	whole, apart strings.Builder
	changed      string
	joined       bool // the pieces alone do not say it
}

// spoken are the fields in which models' APIs stream texts and arguments of tools.
var spoken = []string{"arguments", "content", "delta", "partial_json", "reasoning_content", "refusal", "text", "thinking"}

// eachPiece calls fn for each piece of a text in a stream, with the name of the text, and
// returns the stream with what fn returns in its place. Events in which nothing changes
// stay as they are; other is given the lines that are none.
func eachPiece(answer []byte, isText func(field string) bool, other func(line []byte) []byte, fn func(at, piece string) string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(answer) {
		e := &event{line: line}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok || decodeJSON(bytes.TrimSpace(data), &e.doc) != nil {
			out.Write(other(line))
			continue
		}
		changed := false
		e.doc = eachText(e.doc, e.laneName(), "", isText, func(at, piece string) string {
			now := fn(at, piece)
			changed = changed || now != piece
			return now
		})
		if !changed {
			e.doc = nil
		}
		e.writeEvent(&out)
	}
	return out.Bytes()
}

// eachText calls fn for the texts of a document and replaces them.
func eachText(v any, at, field string, isText func(string) bool, fn func(at, piece string) string) any {
	switch v := v.(type) {
	case string:
		if isText(field) {
			return fn(at, v)
		}
	case []any:
		for i := range v {
			v[i] = eachText(v[i], placeBelow(at, strconv.Itoa(i)), "", isText, fn)
		}
	case map[string]any:
		for k := range v {
			v[k] = eachText(v[k], placeBelow(at, k), k, isText, fn)
		}
	}
	return v
}
