package falsify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Bounds of what is shown of an answer.
const (
	shownLines = 12
	shownLine  = 200
	maxNodes   = 50_000
)

// excerptOf is the telling part of an answer, in its own order: the lines that hold
// one of the values, then those that usually tell something.
func excerptOf(a answer, values []string) string {
	var lines []string
	if a.text {
		lines = textLines(string(a.body))
	} else {
		lines = objectLines(a.body)
	}
	rank := func(i int) int {
		switch l := lines[i]; {
		case slices.ContainsFunc(values, func(v string) bool { return report.Stands([]byte(l), v) }):
			return i - 2*len(lines)
		case a.text:
			return -i // in a log the end matters
		case isTelling(l):
			return i
		}
		return i + len(lines)
	}
	order := make([]int, len(lines))
	ranks := make([]int, len(lines))
	for i := range lines {
		order[i], ranks[i] = i, rank(i)
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(ranks[x], ranks[y]) })
	order = order[:min(len(order), shownLines)]
	slices.Sort(order)
	var out []string
	for _, i := range order {
		if a.text || ranks[i] < len(lines) {
			out = append(out, text.CutBytes(text.DropHidden(lines[i]), shownLine))
		}
	}
	return strings.Join(out, "\n")
}

func textLines(s string) []string {
	var out []string
	for l := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(l) != "" {
			out = append(out, l)
		}
	}
	return out
}

// objectLines are the values of an object, or of several, a line each, with the
// way to them.
func objectLines(body []byte) []string {
	w := walker{left: maxNodes}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil {
		return nil
	}
	parts, several := doc.([]any)
	if !several {
		parts = []any{doc}
	}
	for _, part := range parts {
		w.walk("", part)
	}
	return w.lines
}

type walker struct {
	lines []string
	left  int
}

func (w *walker) walk(path string, v any) {
	if w.left--; w.left < 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "metadata" {
				w.walk(strings.TrimPrefix(path+"."+k, "."), v[k])
			}
		}
	case []any:
		for i, e := range v {
			w.walk(fmt.Sprintf("%s[%s]", path, elementName(e, i)), e)
		}
	default:
		w.lines = append(w.lines, fmt.Sprintf("%s: %v", path, v))
	}
}

// elementName is what a reader knows an element of a list by.
func elementName(e any, i int) string {
	m, _ := e.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	for _, name := range []any{m["name"], meta["name"], m["type"]} {
		if s, _ := name.(string); s != "" {
			return text.CutBytes(s, 80)
		}
	}
	return fmt.Sprint(i)
}

// tellingKeys are the ends of the ways to what usually tells something.
var tellingKeys = []string{"phase", "reason", "message", "exitCode", "restartCount", "ready", "status", "replicas", "readyReplicas", "unavailableReplicas", "currentReplicas",
	"desiredReplicas", "failed", "succeeded", "unschedulable", "cpu", "memory"}

func isTelling(line string) bool {
	path, value, _ := strings.Cut(line, ": ")
	key := path[strings.LastIndexByte(path, '.')+1:]
	return value != "" && slices.Contains(tellingKeys, key) && (strings.Contains(path, "status") || strings.HasPrefix(path, "items[") || key != "status")
}
