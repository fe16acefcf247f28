package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Find reads one item of a directory that may still be written to, by a function that reads
// its files. NotFound when there is no such id; an Internal error when the body is gone or is
// not what was recorded.
func Find(read func(name string) ([]byte, error), id string) (Item, []byte, error) {
	index, err := read(indexName)
	if err != nil {
		return Item{}, nil, err
	}
	in := bufio.NewReader(bytes.NewReader(index[:min(len(index), maxIndex)]))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return Item{}, nil, nightcrier.Errorf(nightcrier.NotFound, "evidence %q was not recorded", text.CutBytes(id, 16))
		}
		var it Item
		if json.Unmarshal(line, &it) != nil || it.ID != id {
			continue
		}
		body, err := read(it.SHA256 + blobSuffix)
		if err != nil {
			return it, nil, nightcrier.Errorf(nightcrier.Internal, "evidence %s: %w", id, err)
		}
		if text.DigestOf(body) != it.SHA256 {
			return it, nil, nightcrier.Errorf(nightcrier.Internal, "evidence %s was changed after it was recorded", id)
		}
		return it, body, nil
	}
}
