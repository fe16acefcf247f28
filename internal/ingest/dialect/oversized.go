package dialect

import (
	"encoding/json"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// HeadSize is how much in bytes is kept of a payload that is not parsed.
const HeadSize = 4 << 10

// oversized stands in for a payload that was too large to keep.
type oversized struct {
	Bytes int64  `json:"bytes"`
	Head  string `json:"head"`
}

// Oversized returns the payload that stands in for one of size bytes that
// began with start, of which HeadSize bytes are kept. Parse answers it with
// the Exhausted error that the original would have got.
func Oversized(start []byte, size int64) []byte {
	type data struct {
		Oversized oversized `json:"nightcrierOversized"`
	}
	b, err := json.Marshal(struct {
		Data data `json:"data"`
	}{data{oversized{Bytes: size, Head: text.CutWords(text.MarkHidden(string(cutHead(start))), HeadSize)}}})
	if err != nil { // strings and integers always marshal
		return nil
	}
	return b
}

func oversizedEvent(start []byte, size int64) (nightcrier.Event, error) {
	return nightcrier.Event{Raw: Oversized(start, size)},
		nightcrier.Errorf(nightcrier.Exhausted, "the payload is %d bytes long; at most %d are read", size, Limit)
}

func cutHead(raw []byte) []byte { return raw[:min(len(raw), HeadSize)] }
