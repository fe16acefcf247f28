package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// Problem is one thing that is wrong. Text says what, and what to do.
type Problem struct {
	File string `json:"file"`
	// Line counts from 1; 0 when the whole file is meant.
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

// String returns "file:line: text".
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// maxShown bounds what of a value is said in a message, in bytes; maxProblems what is said
// of one file.
const (
	maxShown    = 64
	maxProblems = 50
)

// reader reads one file into a definition and collects what is wrong with it.
type reader struct {
	file     string
	def      *Definition
	lines    map[string]int // of each key, by its path
	problems []Problem
}

// readValue reads the value of a key.
type readValue func(n *yaml.Node, path string)

// keys are what a mapping may hold.
type keys map[string]readValue

// readDefinition returns what a file defines, nil when something is wrong with it.
func readDefinition(file string, data []byte) (*Definition, []Problem) {
	_, d, problems := readNamed(file, data)
	return d, problems
}

// readNamed is readDefinition, and the name in the file also where something is wrong with it.
func readNamed(file string, data []byte) (string, *Definition, []Problem) {
	r := &reader{file: file, def: &Definition{File: file, Lines: map[string]int{}}, lines: map[string]int{}}
	switch doc, fault := strictyaml.ReadNode(data); {
	case fault != nil:
		r.addProblem(fault.Line, "", errors.New(fault.Text))
	case doc == nil:
		r.addProblem(0, "", errors.New("is empty: write name, and skills or actions below steps"))
	default:
		if r.readKeys(doc, "", r.pipelineKeys(r.def)); doc.Kind == yaml.MappingNode {
			r.lintDefinition()
		}
	}
	if len(r.problems) > 0 {
		return r.def.Name, nil, r.sortedProblems()
	}
	return r.def.Name, r.def, nil
}

// addProblem says what is wrong with a key, "" for the whole file.
func (r *reader) addProblem(line int, path string, err error) {
	said := err.Error()
	if path != "" {
		said = path + ": " + said
	}
	r.problems = append(r.problems, Problem{r.file, line, said})
}

func (r *reader) sortedProblems() []Problem {
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Line - b.Line })
	if more := len(r.problems) - maxProblems; more > 0 {
		r.problems = append(r.problems[:maxProblems], Problem{r.file, 0, fmt.Sprintf("and %d more", more)})
	}
	return r.problems
}

// readKeys reads a mapping.
func (r *reader) readKeys(n *yaml.Node, path string, known keys) {
	switch {
	case strictyaml.IsUnsupported(n):
		r.addProblem(n.Line, path, strictyaml.ErrUnsupported)
		return
	case n.Kind != yaml.MappingNode:
		r.addProblem(n.Line, path, fmt.Errorf("is %s: write keys below it: %s", strictyaml.DescribeNode(n), joinKeys(known)))
		return
	}
	seen := map[string]bool{}
	for k, v := range strictyaml.Pairs(n) {
		at := joinPath(path, text.CutLine(k.Value, maxShown))
		read := known[k.Value]
		switch {
		case strictyaml.IsUnsupported(k), strictyaml.IsUnsupported(v):
			r.addProblem(k.Line, at, strictyaml.ErrUnsupported)
		case read == nil:
			r.addProblem(k.Line, at, fmt.Errorf("is not a key: %s", suggestOr(k.Value, slices.Sorted(maps.Keys(known)), "known here are ")))
		case seen[k.Value]:
			r.addProblem(k.Line, at, errors.New("is given a second time: keep one"))
		default:
			seen[k.Value], r.lines[at] = true, k.Line
			read(v, at)
		}
	}
}

// suggestOr says which of some words was meant; where none is near, all of them.
func suggestOr(word string, words []string, otherwise string) string {
	if near := text.FindNearest(word, words); near != "" {
		return "did you mean " + near + "?"
	}
	if len(words) == 0 {
		return "there is none"
	}
	return otherwise + strings.Join(words, ", ")
}

func joinKeys(known keys) string { return strings.Join(slices.Sorted(maps.Keys(known)), ", ") }

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// readScalar reads a single value into dst.
func readScalar[T any](r *reader, dst *T, parse func(string) (T, error)) readValue {
	return func(n *yaml.Node, path string) {
		word, ok := strictyaml.ScalarText(n)
		if !ok {
			r.addProblem(n.Line, path, fmt.Errorf("is %s: write a single value", strictyaml.DescribeNode(n)))
			return
		}
		value, err := parse(word)
		if err != nil {
			r.addProblem(n.Line, path, err)
			return
		}
		*dst = value
	}
}

// readList reads the entries of a list.
func (r *reader) readList(most int, read func(i int, n *yaml.Node, path string)) readValue {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind != yaml.SequenceNode:
			r.addProblem(n.Line, path, fmt.Errorf("is %s: write a list, each entry with a leading '-'", strictyaml.DescribeNode(n)))
			return
		case len(n.Content) == 0:
			r.addProblem(n.Line, path, errors.New("is empty: write an entry, or take it out"))
		case len(n.Content) > most:
			r.addProblem(n.Line, path, fmt.Errorf("has %d entries: at most %d are taken", len(n.Content), most))
			return
		}
		for i, entry := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if strictyaml.IsUnsupported(entry) {
				r.addProblem(entry.Line, at, strictyaml.ErrUnsupported)
				continue
			}
			read(i, entry, at)
		}
	}
}

// readWords reads a list of single values.
func (r *reader) readWords(dst *[]string, most int, check func(string) error) readValue {
	return r.readList(most, func(_ int, n *yaml.Node, path string) {
		var word string
		readScalar(r, &word, checked(check))(n, path)
		*dst = append(*dst, word)
	})
}

// readTexts reads a mapping of names to single values.
func (r *reader) readTexts(dst *map[string]string, checkName, checkValue func(string) error) readValue {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.MappingNode {
			r.addProblem(n.Line, path, fmt.Errorf("is %s: write names and values below it", strictyaml.DescribeNode(n)))
			return
		}
		known := keys{}
		*dst = map[string]string{}
		for k := range strictyaml.Pairs(n) {
			if err := checkName(k.Value); err != nil {
				r.addProblem(k.Line, path, err)
			}
			known[k.Value] = func(n *yaml.Node, path string) {
				var value string
				readScalar(r, &value, checked(checkValue))(n, path)
				(*dst)[k.Value] = value
			}
		}
		r.readKeys(n, path, known)
	}
}

// checked is a text that a check lets pass.
func checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("is %s: write true or false", quoteValue(s))
	}
	return s == "true", nil
}

// parseChoice takes one of some words.
func parseChoice[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		var known []string
		for _, w := range words {
			known = append(known, string(w))
		}
		return "", fmt.Errorf("is %s, which is not known: %s", quoteValue(s), suggestOr(s, known, "write one of "))
	}
}

// parseDuration takes durations between two.
func parseDuration(least, most time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf("is %s, which is no duration: write one with a unit, such as 90s, 30m or 2h", quoteValue(s))
		case d < least || d > most:
			return 0, fmt.Errorf("is %s: write a duration between %s and %s", quoteValue(s), least, most)
		}
		return d, nil
	}
}

// maxBudget bounds a budget, so that nobody writes cents.
const maxBudget = 1000

func parseBudget(s string) (float64, error) {
	usd, err := strconv.ParseFloat(strings.TrimPrefix(s, "$"), 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("is %s, which is no amount: write US dollars, such as 2.50", quoteValue(s))
	case !(usd > 0 && usd <= maxBudget): // NaN too
		return 0, fmt.Errorf("is %s: write US dollars, more than 0 and at most %d", quoteValue(s), maxBudget)
	}
	return usd, nil
}

func parseCount(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("is %s: write a number between %d and %d", quoteValue(s), least, most)
		}
		return n, nil
	}
}

func quoteValue(s string) string { return strconv.Quote(text.CutLine(s, maxShown)) }
