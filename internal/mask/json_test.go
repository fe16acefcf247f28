package mask

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// A value that we hold is masked where JSON escapes a part of it.
func TestKnownValuesInJSON(t *testing.T) {
	const value = `tr"ee\<br>&anch`
	m := New([]byte("key"), value)
	for _, escape := range []bool{true, false} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(escape)
		if err := enc.Encode([]string{"it is " + value + " now"}); err != nil {
			t.Fatal(err)
		}
		got := m.String(b.String())
		if !json.Valid([]byte(got)) || strings.Contains(got, "anch") || !strings.Contains(got, m.Tag(value)) {
			t.Errorf("%q became %q", b.String(), got)
		}
	}
}
