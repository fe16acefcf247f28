package model

import (
	"errors"
	"fmt"
	"strings"
)

// check says why a value may not be forwarded, nil when it may. It is asked for values that
// are said: what is null says nothing.
type check func(v value) error

// form is what an object may hold, by the exact names of its members. A list of what is
// known, because what providers do for their callers grows, and because readers differ
// in which other spelling of a name they take for it.
type form map[string]check

// checkObjectIn checks an object that stands in a place.
func (f form) checkObjectIn(place string) check {
	return func(v value) error { return f.checkMembers(v, "", place) }
}

// checkMembers checks an object, which is of a type where it has one.
func (f form) checkMembers(v value, kind, place string) error {
	if v.kind != isObject {
		return fmt.Errorf("%s is not an object", place)
	}
	for _, m := range v.inner {
		look, known := f[m.name]
		if !known && (m.isSaid() || f.hasSpelling(m.name)) {
			return unknownNameError(m.name, kind, place)
		}
		if !m.isSaid() {
			continue
		}
		if err := look(m); err != nil {
			return err
		}
	}
	return nil
}

// hasSpelling reports whether a name is another spelling of a known one: as null it says nothing,
// but whoever looks for the known one might find it.
func (f form) hasSpelling(name string) bool {
	for known := range f {
		if plainName(known) == plainName(name) {
			return true
		}
	}
	return false
}

func unknownNameError(name, kind, place string) error {
	if kind != "" {
		place = fmt.Sprintf("%q in %s", kind, place)
	}
	return fmt.Errorf("%s with %.64q is not forwarded: the guard knows no such name there, and it may act at the provider, be kept there or cost more", place, name)
}

// forms are those of objects that say by their "type" which they are.
type forms map[string]form

// checkObjectIn checks an object that stands in a place.
func (f forms) checkObjectIn(place string) check {
	return func(v value) error {
		if v.kind != isObject {
			return fmt.Errorf("%s holds what is not an object", place)
		}
		kind := v.findMember("type")
		if _, known := f[kind.text]; !known || kind.kind != isText {
			return fmt.Errorf("%.64q in %s is not forwarded: it is of no type that the guard knows to be read there and no more", kind.String(), place)
		}
		return f[kind.text].checkMembers(v, kind.text, place)
	}
}

// looseForm is a form of an API that reads names without underscores and in any case. Of a
// name only one spelling may be there, and none that is not known, not even as null.
type looseForm map[string]check

// checkObjectIn checks an object that stands in a place.
func (f looseForm) checkObjectIn(place string) check {
	return func(v value) error {
		if v.kind != isObject {
			return fmt.Errorf("%s is not an object", place)
		}
		seen := map[string]bool{}
		for _, m := range v.inner {
			name := plainName(m.name)
			look, known := f[name]
			if !known {
				return unknownNameError(m.name, "", place)
			}
			if seen[name] {
				return fmt.Errorf("%s with two spellings of %.64q is not forwarded: which one is believed is open", place, m.name)
			}
			seen[name] = true
			if !m.isSaid() {
				continue
			}
			if err := look(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func plainName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// listOf checks each element of a list.
func listOf(name string, each check) check {
	return func(v value) error {
		if v.kind != isList {
			return fmt.Errorf("%s is not a list", name)
		}
		for _, e := range v.inner {
			if err := each(e); err != nil {
				return err
			}
		}
		return nil
	}
}

// textOr lets a text pass, and checks what is none.
func textOr(other check) check {
	return func(v value) error {
		if v.kind == isText {
			return nil
		}
		return other(v)
	}
}

// checkPlainValue lets a text, a number, true and false pass.
func checkPlainValue(v value) error {
	if v.kind == isList || v.kind == isObject {
		return errors.New("a list or an object where a plain value belongs is not forwarded")
	}
	return nil
}

// allowAnything is for what is the agent's own, as arguments of its tools and their schemas,
// and for settings that only change how the model answers.
func allowAnything(value) error { return nil }

// allowWords lets some words pass alone.
func allowWords(name string, words ...string) check {
	return func(v value) error {
		if !v.saysOneOf(words...) {
			return fmt.Errorf("the %s %.64q is not forwarded", name, v.String())
		}
		return nil
	}
}

// allowTiers lets some words pass alone, of which all others are sold apart.
func allowTiers(name string, words ...string) check {
	return func(v value) error {
		if !v.saysOneOf(words...) {
			return fmt.Errorf("the %s %.64q is not forwarded: it is sold apart", name, v.String())
		}
		return nil
	}
}

// checkSingleAnswer refuses to be answered more than once.
func checkSingleAnswer(v value) error {
	if v.kind != isNumber || v.text != "1" {
		return fmt.Errorf("%q is not 1: each answer is paid", v.name)
	}
	return nil
}
