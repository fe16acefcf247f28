package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// Difference is one thing that is not as it was.
type Difference struct {
	// Where names it, such as "verdict" or "fact: the container exits with 137".
	Where string `json:"where"`
	// Then and Now are the values, shortened; "" where there was none.
	Then string `json:"then"`
	Now  string `json:"now"`
}

// maxDifferences is how many of one document are told; maxShown is how much of a value.
const (
	maxDifferences = 40
	maxShown       = 160
)

// Documents compares two JSON documents field by field. Equal documents that are
// written differently have none.
func Documents(where string, then, now []byte) []Difference {
	var a, b any
	if decodeJSON(then, &a) != nil || decodeJSON(now, &b) != nil {
		if bytes.Equal(then, now) {
			return nil
		}
		return []Difference{newDifference(where, string(then), string(now))}
	}
	var out []Difference
	walkValues("", a, b, func(path, then, now string) {
		out = append(out, newDifference(where+" "+strings.TrimPrefix(path, "."), then, now))
	})
	return out[:min(len(out), maxDifferences)]
}

func decodeJSON(raw []byte, into *any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(into)
}

// absent stands for a field or element that one of two has not.
type absent struct{}

func walkValues(path string, a, b any, found func(path, then, now string)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			walkFields(path, x, y, found)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				walkValues(fmt.Sprintf("%s[%d]", path, i), itemAt(x, i), itemAt(y, i), found)
			}
			return
		}
	}
	if x, y := shownWhole(a), shownWhole(b); x != y {
		found(path, x, y)
	}
}

func walkFields(path string, x, y map[string]any, found func(path, then, now string)) {
	all := maps.Clone(x)
	maps.Copy(all, y)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		a, inX := x[k]
		b, inY := y[k]
		if !inX {
			a = absent{}
		}
		if !inY {
			b = absent{}
		}
		walkValues(path+"."+k, a, b, found)
	}
}

func itemAt(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

func shownWhole(v any) string {
	if _, none := v.(absent); none {
		return ""
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// newDifference shows two long texts from shortly before they part.
func newDifference(where, then, now string) Difference {
	same := 0
	for same < min(len(then), len(now)) && then[same] == now[same] {
		same++
	}
	if from := same - maxShown/4; len(then) > maxShown && len(now) > maxShown && from > 0 {
		return Difference{where, "…" + text.CutBytes(then[from:], maxShown), "…" + text.CutBytes(now[from:], maxShown)}
	}
	return Difference{where, text.CutBytes(then, maxShown), text.CutBytes(now, maxShown)}
}
