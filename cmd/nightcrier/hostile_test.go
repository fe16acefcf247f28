package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// A terminal obeys U+009B like ESC [, and shows text in another order after
// U+202E; encoding/json escapes neither.
func TestJSONDoesNotSteerATerminal(t *testing.T) {
	const evil = "\u009b2J\u202egnp\u2069\x7f\x1b[2J\U000e0041 <é日本>"
	var b bytes.Buffer
	p := &program{stdout: &b}
	if err := p.printJSON(map[string]any{evil: []string{evil}}); err != nil {
		t.Fatal(err)
	}
	if err := p.printJSON(json.RawMessage(`{"x":"` + "\u009b" + `"}`)); err != nil {
		t.Fatal(err)
	}
	if err := printLines(&b, []string{evil}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\u009b\u202e\u2069\x7f\x1b\U000e0041") || !strings.Contains(b.String(), "<é日本>") {
		t.Errorf("%q", b.String())
	}
	var back map[string][]string
	if err := json.NewDecoder(&b).Decode(&back); err != nil || back[evil][0] != evil {
		t.Errorf("it reads back as %q, %v", back, err)
	}
}
