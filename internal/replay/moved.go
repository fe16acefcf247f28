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

// moved puts another path in the place of one in a model's answer: the workspace is
// elsewhere now. An answer may be a stream, in which the path is spread over several
// events.
func moved(answer []byte, from, to string) []byte {
	if from == "" || from == to {
		return answer
	}
	events := eventsOf(answer)
	lanes := map[string][]*string{}
	for _, e := range events {
		if e.doc != nil {
			e.doc = strung(e.doc, e.lane(), lanes)
		}
	}
	for _, lane := range lanes {
		moveIn(lane, from, to)
	}
	var out bytes.Buffer
	for _, e := range events {
		e.write(&out, from, to)
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
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && decode(bytes.TrimSpace(data), &e.doc) != nil {
			e.doc = nil
		}
		out = append(out, e)
	}
	return out
}

// lane names the text that an event adds to: pieces of one text have the same.
func (e *event) lane() string {
	fields, _ := e.doc.(map[string]any)
	return below("", fmt.Sprint(fields["type"], fields["index"], fields["item_id"], fields["output_index"], fields["content_index"]))
}

// maxPlace bounds the name of a place in a document, in bytes.
const maxPlace = 200

// below names a place below another. A long name is told from others by its digest: a few
// kilobytes of nested names would else be kept once for each of what is in there.
func below(at, name string) string {
	place := at + "." + name
	if len(place) <= maxPlace {
		return place
	}
	sum := sha256.Sum256([]byte(place))
	return string(sum[:])
}

func (e *event) write(out *bytes.Buffer, from, to string) {
	if e.doc == nil {
		if from != to {
			e.line = bytes.ReplaceAll(e.line, []byte(from), []byte(to))
		}
		out.Write(e.line)
		return
	}
	raw, err := encode(e.doc)
	if err != nil {
		out.Write(e.line)
		return
	}
	out.WriteString("data: ")
	out.Write(raw)
	out.Write(e.line[len(bytes.TrimRight(e.line, "\r\n")):])
}

func encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return bytes.TrimSpace(b.Bytes()), err
}

// strung replaces the strings of a document by pointers to them, and files each in
// the lane of its place.
func strung(v any, at string, lanes map[string][]*string) any {
	switch v := v.(type) {
	case string:
		s := new(string)
		*s = v
		lanes[at] = append(lanes[at], s)
		return s
	case []any:
		for i := range v {
			v[i] = strung(v[i], below(at, strconv.Itoa(i)), lanes)
		}
	case map[string]any:
		for k := range v {
			v[k] = strung(v[k], below(at, k), lanes)
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
			i := piece(starts, begin)
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
		out[piece(starts, at+i)].WriteString(to)
		at += i + len(from)
	}
	put(at, len(text))
	for i, p := range pieces {
		*p = out[i].String()
	}
}

// piece is the piece that holds the byte at a place: the last that starts there or
// before.
func piece(starts []int, at int) int {
	i, found := slices.BinarySearch(starts, at)
	for found && i+1 < len(starts) && starts[i+1] == at {
		i++
	}
	if !found {
		i--
	}
	return i
}
