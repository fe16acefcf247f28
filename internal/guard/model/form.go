package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// check says why a value may not be forwarded, nil when it may.
type check func(v any) error

// form is what an object may hold, by the exact names of its members. A list of what is
// known, because what providers do for their callers grows, and because readers differ
// in which other spelling of a name they take for it. What is null says nothing.
type form map[string]check

// checkObjectIn checks an object that stands in a place.
func (f form) checkObjectIn(place string) check {
	return func(v any) error {
		object, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is not an object", place)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if object[name] == nil {
				continue
			}
			look, known := f[name]
			if !known {
				return fmt.Errorf("%s with %.64q is not forwarded: the guard knows no such name there", place, name)
			}
			if err := look(object[name]); err != nil {
				return err
			}
		}
		return nil
	}
}

// forms are those of objects that say by their "type" which they are.
type forms map[string]form

// checkObjectIn checks an object that stands in a place.
func (f forms) checkObjectIn(place string) check {
	return func(v any) error {
		object, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s holds what is not an object", place)
		}
		kind, _ := object["type"].(string)
		if _, known := f[kind]; !known {
			return fmt.Errorf("%.64q in %s is not forwarded: it is of no type that the guard knows to be read there and no more", fmt.Sprint(object["type"]), place)
		}
		return f[kind].checkObjectIn(fmt.Sprintf("%q in %s", kind, place))(v)
	}
}

// listOf checks each element of a list.
func listOf(name string, each check) check {
	return func(v any) error { return eachOf(name, v, each) }
}

// textOr lets a text pass, and checks what is none.
func textOr(other check) check {
	return func(v any) error {
		if _, text := v.(string); text {
			return nil
		}
		return other(v)
	}
}

// checkPlainValue lets a text, a number, true and false pass.
func checkPlainValue(v any) error {
	switch v.(type) {
	case map[string]any, []any:
		return errors.New("a list or an object where a plain value belongs is not forwarded")
	}
	return nil
}

// allowAnything is for what is the agent's own: arguments of its tools, and their schemas.
func allowAnything(any) error { return nil }

// allowWords lets some words pass alone.
func allowWords(name string, words ...string) check {
	return func(v any) error {
		if !oneOf(v, words...) {
			return fmt.Errorf("the %s %.64q is not forwarded", name, fmt.Sprint(v))
		}
		return nil
	}
}
