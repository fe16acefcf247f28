package journal

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadGates(t *testing.T) {
	for said, want := range map[string]string{
		"Gate 1: It is red. I paint it. Next I look.": "[{1 It is red. I paint it. Next I look.}]",
		"Done.\n\n**Gate 2:** one.\ntwo.\n\nand more": "[{2 one. two.}]",
		"Gate 1: a.\nGate 2: b.":                      "[{1 a.} {2 b.}]",
		"## Gate 3: c":                                "[{3 c}]",
		"the word Gate 1: stands within":              "[]",
		"Gate 0: none":                                "[]", "Gate 1:": "[]", "Gate one: x": "[]", "": "[]",
		strings.Repeat("Gate 7: x\n", maxGates+5): fmt.Sprint(strings.Repeat("{7 x} ", maxGates)),
	} {
		got := fmt.Sprint(ReadGates(Message{Role: "assistant", Text: said}))
		if strings.Trim(got, "[] ") != strings.Trim(want, "[] ") {
			t.Errorf("%q: %s", said, got)
		}
	}
	if long := ReadGates(Message{Text: "Gate 1: " + strings.Repeat("ä", maxGate)}); len(long) != 1 || len(long[0].Gate) > maxGate {
		t.Errorf("a long gate: %d", len(long))
	}
}
