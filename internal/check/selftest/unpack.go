package selftest

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Unpack is what a file says to whoever unpacks it: of a gzip file its bytes, and behind
// them what is packed in it, as far as it is whole.
func Unpack(name string, data []byte) ([]byte, error) {
	if !strings.HasSuffix(name, ".gz") && !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data, nil // it is none
	}
	text, _ := io.ReadAll(io.LimitReader(packed, maxUnpacked+1)) // a cut one says what it has
	if len(text) > maxUnpacked {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "selftest: %s is too large to be searched", name)
	}
	return append(bytes.Clone(data), text...), nil
}

// maxUnpacked bounds what is packed in one file that is searched, in bytes: a tape may
// hold 128 MiB.
const maxUnpacked = 160 << 20
