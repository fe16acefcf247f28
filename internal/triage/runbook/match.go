package runbook

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier"
)

// words is one text or a list of them.
type words []string

// UnmarshalYAML reads either.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]string)(w))
	}
	var one string
	if err := n.Decode(&one); err != nil {
		return err
	}
	*w = words{one}
	return nil
}

// match says which cases a runbook is for: those that fit in every field that is
// set, each by one of its words. Alerts, labels and namespaces may hold asterisks.
type match struct {
	Class     words            `yaml:"class"`
	Cause     words            `yaml:"cause"`
	Labels    map[string]words `yaml:"labels"`
	Alert     words            `yaml:"alert"`
	Kind      words            `yaml:"kind"`
	Namespace words            `yaml:"namespace"`
}

// wordLists are the fields that are lists of words, by name.
func (m match) wordLists() map[string]words {
	all := map[string]words{"class": m.Class, "cause": m.Cause, "alert": m.Alert, "kind": m.Kind, "namespace": m.Namespace}
	for name, w := range m.Labels {
		all["labels."+name] = w
	}
	return all
}

// countFields counts how many fields are set.
func (m match) countFields() int {
	n := 0
	for _, w := range m.wordLists() {
		if len(w) > 0 {
			n++
		}
	}
	return n
}

var classes = []nightcrier.Class{nightcrier.ClassWorkload, nightcrier.ClassScheduling, nightcrier.ClassStorage, nightcrier.ClassJob, nightcrier.ClassNode, nightcrier.ClassService}

var causeID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// checkFields refuses what can never fit, and what fits everything.
func (m match) checkFields() error {
	if m.countFields() == 0 {
		return errors.New("match: is empty: name a class, cause, alert, kind, namespace or labels")
	}
	lists := m.wordLists()
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if slices.Contains(lists[name], "") {
			return fmt.Errorf("match.%s: holds an empty word", name)
		}
	}
	for _, c := range m.Class {
		if !slices.Contains(classes, nightcrier.Class(c)) {
			return fmt.Errorf("match.class: %q is none of %v", c, classes)
		}
	}
	for _, c := range m.Cause {
		if !causeID.MatchString(c) {
			return fmt.Errorf("match.cause: %q is not the id of a cause, such as oom-killed", c)
		}
	}
	return nil
}

func (m match) fitsCase(c Case) bool {
	for name, w := range m.Labels {
		if value, ok := c.Labels[name]; !ok || !w.fitsValue(value) {
			return false
		}
	}
	return (len(m.Class) == 0 || slices.Contains(m.Class, string(c.Class))) &&
		(len(m.Cause) == 0 || slices.Contains(m.Cause, c.Cause)) &&
		(len(m.Alert) == 0 || c.Alert != "" && m.Alert.fitsValue(c.Alert)) &&
		(len(m.Namespace) == 0 || c.Namespace != "" && m.Namespace.fitsValue(c.Namespace)) &&
		(len(m.Kind) == 0 || slices.ContainsFunc(c.Kinds, func(kind string) bool {
			return slices.ContainsFunc(m.Kind, func(w string) bool { return strings.EqualFold(w, kind) })
		}))
}

// fitsValue reports whether one of the patterns fits.
func (w words) fitsValue(value string) bool {
	return slices.ContainsFunc(w, func(pattern string) bool { return matchGlob(pattern, value) })
}

// matchGlob matches a pattern whose asterisks stand for anything.
func matchGlob(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, found := strings.Cut(s, part); found {
			s = rest
		} else {
			ok = false
		}
	}
	return ok && strings.HasSuffix(s, parts[len(parts)-1])
}
