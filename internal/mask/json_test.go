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

// Each string is masked by itself; numbers and names of members stay what they are.
func TestStringsOfADocument(t *testing.T) {
	m := New([]byte("key"), "value-that-we-hold")
	got, err := m.Strings([]byte(`{"n":12345678901234567890,"token":"abcdef123456","k":["value-that-we-hold",{"s":"x"}]}`))
	if want := `{"k":["` + m.Tag("value-that-we-hold") + `",{"s":"x"}],"n":12345678901234567890,"token":"abcdef123456"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if _, err := m.Strings([]byte(`{`)); err == nil {
		t.Error("broken JSON was accepted")
	}
}
