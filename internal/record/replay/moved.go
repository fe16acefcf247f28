package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
)

// movePath puts another path in the place of one in a model's answer: the workspace is
// elsewhere now. An answer may be a stream, in which the path is spread over several
// events.
func movePath(answer []byte, from, to string) []byte {
	if from == "" || from == to {
		return answer
	}
	anywhere := func(string) bool { return true }
	move := func(s string) string { return strings.ReplaceAll(s, from, to) }
	return rewriteTexts(answer, anywhere, move, func(line []byte) []byte { return bytes.ReplaceAll(line, []byte(from), []byte(to)) })
}

// event is one line of a stream with a document in it, or any other line as it is.
type event struct {
	line []byte
	doc  any
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

func (e *event) writeEvent(out *bytes.Buffer) {
	if e.doc == nil {
		out.Write(e.line)
		return
	}
	raw, _ := encodeJSON(e.doc) // it was decoded
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
