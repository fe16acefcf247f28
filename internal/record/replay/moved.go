package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// movePath puts another path in the place of one in a model's answer: the workspace is
// elsewhere now. An answer may be a stream, in which the path is spread over several
// events.
func movePath(answer []byte, from, to string) []byte {
	if from == "" || from == to {
		return answer
	}
	events := eventsOf(answer)
	lanes := map[string][]*string{}
	for _, e := range events {
		if e.doc != nil {
			e.doc = stringsToPointers(e.doc, e.laneName(), lanes)
		}
	}
	for _, lane := range lanes {
		moveIn(lane, from, to)
	}
	var out bytes.Buffer
	for _, e := range events {
		e.writeEvent(&out, from, to)
	}
	return out.Bytes()
}

// event is one line of a stream with a document in it, or any other line as it is.
type event struct {
	line []byte
	doc  any
}

// eventsOf takes a stream apart at its lines. An answer that is none is one line, or
// some without documents.
func eventsOf(answer []byte) []*event {
	var out []*event
	for line := range bytes.Lines(answer) {
		e := &event{line: line}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && decodeJSON(bytes.TrimSpace(data), &e.doc) != nil {
			e.doc = nil
		}
		out = append(out, e)
	}
	return out
}

// laneName names the text that an event adds to: pieces of one text have the same.
func (e *event) laneName() string {
	fields, _ := e.doc.(map[string]any)
	return placeBelow("", fmt.Sprint(fields["type"], fields["index"], fields["item_id"], fields["output_index"], fields["content_index"]))
}

// maxPlace bounds the name of a place in a document, in bytes.
const maxPlace = 200

// placeBelow names a place below another. A long name is told from others by its digest: a few
// kilobytes of nested names would else be kept once for each of what is in there.
func placeBelow(at, name string) string {
	place := at + "." + name
	if len(place) <= maxPlace {
		return place
	}
	sum := sha256.Sum256([]byte(place))
	return string(sum[:])
}

func (e *event) writeEvent(out *bytes.Buffer, from, to string) {
	if e.doc == nil {
		if from != to {
			e.line = bytes.ReplaceAll(e.line, []byte(from), []byte(to))
		}
		out.Write(e.line)
		return
	}
	raw, err := encodeJSON(e.doc)
	if err != nil {
		out.Write(e.line)
		return
	}
	out.WriteString("data: ")
	out.Write(raw)
	out.Write(e.line[len(bytes.TrimRight(e.line, "\r\n")):])
}

func encodeJSON(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return bytes.TrimSpace(b.Bytes()), err
}

// stringsToPointers replaces the strings of a document by pointers to them, and files each in
// the lane of its place.
func stringsToPointers(v any, at string, lanes map[string][]*string) any {
	switch v := v.(type) {
	case string:
		s := new(string)
		*s = v
		lanes[at] = append(lanes[at], s)
		return s
	case []any:
		for i := range v {
			v[i] = stringsToPointers(v[i], placeBelow(at, strconv.Itoa(i)), lanes)
		}
	case map[string]any:
		for k := range v {
			v[k] = stringsToPointers(v[k], placeBelow(at, k), lanes)
		}
	}
	return v
}

// moveIn replaces from by to in the text that the pieces make together. What was
// spread over pieces stands in the first of them then.
func moveIn(pieces []*string, from, to string) {
	var whole strings.Builder
	starts := make([]int, len(pieces))
	for i, p := range pieces {
		starts[i] = whole.Len()
		whole.WriteString(*p)
	}
	text := whole.String()
	if !strings.Contains(text, from) {
		return
	}
	out := make([]strings.Builder, len(pieces))
	put := func(begin, end int) {
		for begin < end {
			i := pieceAt(starts, begin)
			stop := end
			if i+1 < len(starts) {
				stop = min(stop, starts[i+1])
			}
			out[i].WriteString(text[begin:stop])
			begin = stop
		}
	}
	at := 0
	for {
		i := strings.Index(text[at:], from)
		if i < 0 {
			break
		}
		put(at, at+i)
		out[pieceAt(starts, at+i)].WriteString(to)
		at += i + len(from)
	}
	put(at, len(text))
	for i, p := range pieces {
		*p = out[i].String()
	}
}

// pieceAt is the piece that holds the byte at a place: the last that starts there or
// before.
func pieceAt(starts []int, at int) int {
	i, found := slices.BinarySearch(starts, at)
	for found && i+1 < len(starts) && starts[i+1] == at {
		i++
	}
	if !found {
		i--
	}
	return i
}
