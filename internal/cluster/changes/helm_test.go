package changes

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"testing"

	"nightcrier.dev/nightcrier"
)

func packed(t testing.TB, body []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"data": map[string]any{"release": []byte(base64.StdEncoding.EncodeToString(z.Bytes()))}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestReleaseThatBlowsUp(t *testing.T) {
	if _, err := UnpackRelease(packed(t, bytes.Repeat([]byte(" "), maxRelease+10))); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("%v", err)
	}
	for _, raw := range []string{"", "{}", `{"data":{"release":"!!"}}`, `{"data":{"release":"IQ=="}}`, `{"data":{"release":"SDRzSQ=="}}`} {
		if _, err := UnpackRelease([]byte(raw)); err == nil {
			t.Errorf("%q is a release", raw)
		}
	}
}

func FuzzUnpackRelease(f *testing.F) {
	f.Add(packed(f, []byte(`{"name":"x","version":2}`)))
	f.Add([]byte(`{"data":{"release":"SDRzSUFBQUFBQUFB"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := UnpackRelease(raw); err != nil && nightcrier.CodeOf(err) != nightcrier.Invalid && nightcrier.CodeOf(err) != nightcrier.Exhausted {
			t.Errorf("%v", err)
		}
	})
}
