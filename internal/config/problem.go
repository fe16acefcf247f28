package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Layer is one of the places a value can come from. A later one wins.
type Layer int

// The layers, weakest first.
const (
	LayerDefault Layer = iota
	// LayerDerived is a value that follows from other keys.
	LayerDerived
	LayerFile
	LayerEnv
	LayerFlag
)

// Origin says where a value was written.
type Origin struct {
	Layer Layer
	// Name is the file, variable or flag; of a derived value, the reason.
	Name string
	// Line counts from 1; 0 when there is none.
	Line int
}

// String returns "default", "nightcrier.yaml:12", "env AGENT_TIMEOUT" or
// "flag --agent-timeout".
func (o Origin) String() string {
	switch o.Layer {
	case LayerDerived:
		return "derived: " + o.Name
	case LayerFile:
		if o.Line > 0 {
			return fmt.Sprintf("%s:%d", o.Name, o.Line)
		}
		return o.Name
	case LayerEnv:
		return "env " + o.Name
	case LayerFlag:
		return "flag --" + o.Name
	}
	return "default"
}

// Problem is one thing that is wrong. Text says what, and what to do.
type Problem struct {
	Code   nightcrier.Code
	Origin Origin
	// Key is the key's path, "" when the whole file is meant.
	Key  string
	Text string
}

// Error returns "file:line: key: text".
func (p Problem) Error() string { return withOrigin(p.Origin, p.Key, p.Text) }

// sortRank orders what is said of a file by its lines, before what is said of
// variables and flags; what has no place comes last.
func (o Origin) sortRank() int {
	if o == (Origin{}) {
		return math.MaxInt
	}
	return int(o.Layer)<<32 + o.Line
}

// Problems is everything that is wrong, in the order in which it is written.
type Problems []Problem

// Error returns one problem a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Warning is something that does not stop a start but that people should know.
type Warning struct {
	Origin Origin
	Key    string
	Text   string
	// FailsCheck is set where [Check] calls it a problem: a missing key or
	// credential of one cluster must not stop a server that watches others.
	FailsCheck bool
}

// String returns "file:line: key: text".
func (w Warning) String() string { return withOrigin(w.Origin, w.Key, w.Text) }

// IsOfAgent reports whether it says what is lacking to start an agent: a command that starts none
// has no use for it.
func (w Warning) IsOfAgent() bool {
	return w.Key == "agent.script_path" || w.FailsCheck && (w.Key == "agent.command" || w.Key == "agent.api_key")
}

func withOrigin(o Origin, key, text string) string {
	var b strings.Builder
	if o.Layer > LayerDerived {
		b.WriteString(o.String() + ": ")
	}
	if key != "" && key != o.Name {
		b.WriteString(key + ": ")
	}
	return b.String() + text
}

// problemsError makes the error of a load: Refused when policy forbids something,
// else Invalid; nil when nothing is wrong.
func problemsError(found Problems) error {
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b Problem) int { return cmp.Compare(a.Origin.sortRank(), b.Origin.sortRank()) })
	code := nightcrier.Invalid
	for _, p := range found {
		if p.Code == nightcrier.Refused {
			code = nightcrier.Refused
		}
	}
	if more := len(found) - maxProblems; more > 0 {
		rest := Problem{Code: code, Text: fmt.Sprintf("and %d more", more)}
		found = append(found[:maxProblems:maxProblems], rest)
	}
	return &nightcrier.Error{Code: code, Err: found}
}

// maxProblems bounds what is reported of a file that is no configuration.
const maxProblems = 50

// codeOf is Refused for what policy forbids, else Invalid.
func codeOf(err error) nightcrier.Code {
	var e *nightcrier.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return nightcrier.Invalid
}
