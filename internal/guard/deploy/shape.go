package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// A rule says whether a value may stand at a place.
type rule func(at string, v any) error

// A shape is the fields that an object may have, and the rule of each.
type shape map[string]rule

// checking is one object under examination.
type checking struct {
	policy Policy
	needs  []need
}

// objectOf is a mapping of that shape. What the shape does not name is refused.
func (c *checking) objectOf(build func(*checking) shape) rule {
	return func(at string, v any) error {
		m, ok := v.(map[string]any)
		if !ok {
			return wrongType(at, "a mapping")
		}
		fields := build(c)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			r := fields[name]
			if r == nil {
				return fmt.Errorf("%s may not be set here%s", within(at, name), text.SuggestName("; did you mean %s?", name, slices.Sorted(maps.Keys(fields))))
			}
			if err := r(within(at, name), m[name]); err != nil {
				return err
			}
		}
		return nil
	}
}

func within(at, name string) string {
	return strings.TrimPrefix(at+"."+text.CutLine(text.MarkHidden(name), 80), ".")
}

func wrongType(at, want string) error {
	return nightcrier.Errorf(nightcrier.Invalid, "%s must be %s", at, want)
}

// listOf is a list of values that fit the rule.
func listOf(r rule) rule {
	return func(at string, v any) error {
		l, ok := v.([]any)
		if !ok {
			return wrongType(at, "a list")
		}
		for i, one := range l {
			if err := r(fmt.Sprintf("%s[%d]", at, i), one); err != nil {
				return err
			}
		}
		return nil
	}
}

// plain is any value: the API server knows its type, and none of it is dangerous.
func plain(string, any) error { return nil }

// aMapping is any mapping.
func aMapping(at string, v any) error {
	if _, ok := v.(map[string]any); !ok {
		return wrongType(at, "a mapping")
	}
	return nil
}

// never refuses a field, and says why.
func never(why string) rule {
	return func(at string, _ any) error { return fmt.Errorf("%s may not be set: %s", at, why) }
}

// only takes these values.
func only(values ...any) rule {
	return func(at string, v any) error {
		if slices.Contains(values, v) {
			return nil
		}
		var words []string
		for _, one := range values {
			words = append(words, fmt.Sprint(one))
		}
		return fmt.Errorf("%s may only be %s", at, text.JoinWords(words, "or"))
	}
}

// upTo takes numbers from 0 to most.
func upTo(most int64) rule {
	return func(at string, v any) error {
		n, ok := v.(int64)
		if !ok {
			return wrongType(at, "a number")
		}
		if n < 0 || n > most {
			return fmt.Errorf("%s may be 0 to %d, not %d", at, most, n)
		}
		return nil
	}
}

// namedObject is the name of an object.
func namedObject(at string, v any) error {
	s, ok := v.(string)
	if !ok {
		return wrongType(at, "a text")
	}
	return checkName(at, s)
}

// secretName is the name of a Secret that the operator lets Pods use.
func (c *checking) secretName(at string, v any) error {
	s, _ := v.(string)
	if !slices.Contains(c.policy.Secrets, s) {
		return fmt.Errorf("%s: the Secret %.80q may not be used: whoever starts this server names those that may (--secret)", at, s)
	}
	return nil
}

// ownKeys are labels or annotations. Those with a domain steer controllers of others, which
// may give what nothing here would: they are refused unless the operator names them.
func (c *checking) ownKeys(at string, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return wrongType(at, "a mapping")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		domain, _, hasDomain := strings.Cut(key, "/")
		switch {
		case key == Mark:
			if m[key] != Manager {
				return fmt.Errorf("%s.%s is set by this server", at, key)
			}
		case domain == "nightcrier.dev":
			return fmt.Errorf("%s: keys of nightcrier.dev are not for manifests", at)
		case hasDomain && domain != "app.kubernetes.io" && !matches(c.policy.Keys, key):
			return fmt.Errorf("%s: %.100q may not be set: keys with a domain steer controllers, and whoever starts this server names those that may be set (--key)", at, key)
		}
		if _, ok := m[key].(string); !ok {
			return wrongType(within(at, key), "a text: put it in quotes")
		}
	}
	return nil
}

// ownHost is a host that the operator lets be claimed.
func (c *checking) ownHost(at string, v any) error {
	s, _ := v.(string)
	if strings.Contains(s, "*") {
		return fmt.Errorf("%s: %.100q claims the hosts of others as well: name one", at, s)
	}
	if s == "" || !matches(c.policy.Hosts, s) {
		return fmt.Errorf("%s: the host %.100q may not be claimed: whoever starts this server names those that may (--host)", at, s)
	}
	return nil
}

// points is the name of an object that must be one of ours.
func (c *checking) points(kind string) rule {
	return func(at string, v any) error {
		s, _ := v.(string)
		c.needs = append(c.needs, need{kind, s, at})
		return namedObject(at, v)
	}
}

// fieldsOf makes a shape of fields that need no rule.
func fieldsOf(names string) shape {
	s := shape{}
	for name := range strings.FieldsSeq(names) {
		s[name] = plain
	}
	return s
}

// with adds fields that have one.
func (s shape) with(more shape) shape {
	maps.Copy(s, more)
	return s
}

// rulesOf is a mapping whose fields all need no further examination than their rules.
func (c *checking) rulesOf(s shape) rule {
	return c.objectOf(func(*checking) shape { return s })
}
