package replay

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Findings tells what two reports differ in: whose they are and whether they are valid, the
// verdict, the cause and the object at the root of it, the explanations with what came of
// their tests, and the facts with how far each was checked. When something was written, under
// which id, in which order and in which other words is no difference.
func Findings(then, now *nightcrier.Report) []Difference {
	var out []Difference
	for _, of := range []struct {
		what string
		say  func(*nightcrier.Report) string
	}{
		{"report of", func(r *nightcrier.Report) string { return r.Source }},
		{"valid", func(r *nightcrier.Report) string { return fmt.Sprint(r.Valid) }},
		{"verdict", func(r *nightcrier.Report) string { return string(r.Verdict) }},
		{"root cause", ofRoot(func(c *nightcrier.RootCause) string { return c.Cause })},
		{"object", ofRoot(func(c *nightcrier.RootCause) string { return c.Object.String() })},
	} {
		if a, b := of.say(then), of.say(now); a != b {
			out = append(out, newDifference(of.what, a, b))
		}
	}
	out = append(out, differing("explanation", explanations(then), explanations(now))...)
	return append(out, differing("fact", claims(then), claims(now))...)
}

func ofRoot(say func(*nightcrier.RootCause) string) func(*nightcrier.Report) string {
	return func(r *nightcrier.Report) string {
		if r.RootCause == nil {
			return ""
		}
		return say(r.RootCause)
	}
}

// explanations are a report's hypotheses that name a cause, with what came of the test of
// each.
func explanations(r *nightcrier.Report) map[string][]string {
	all := map[string][]string{}
	for _, h := range r.Hypotheses {
		if h.Cause != "" {
			what := strings.TrimSpace(h.Cause + " " + h.Object.String())
			all[what] = append(all[what], h.Falsification.Outcome)
		}
	}
	return all
}

// claims are a report's facts, with how far each was checked.
func claims(r *nightcrier.Report) map[string][]string {
	all := map[string][]string{}
	for _, f := range r.Facts {
		said := withoutOccasion(f.Text)
		if f.Quote != "" {
			said += " (" + withoutOccasion(f.Quote) + ")"
		}
		all[said] = append(all[said], string(f.Check))
	}
	return all
}

// What is another each time that the same is said: when, and by which id.
var (
	anyMoment   = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9:]{5})?`)
	anyEvidence = regexp.MustCompile(`\bE[0-9]+\b`)
)

// withoutOccasion leaves of a text what it says, and leaves out when it was said.
func withoutOccasion(said string) string {
	said = anyMoment.ReplaceAllString(said, "(time)")
	said = anyEvidence.ReplaceAllString(anyID.ReplaceAllString(said, "(id)"), "(evidence)")
	return strings.Join(strings.Fields(said), " ")
}

// differing tells what stands in one of two and not in the other, or with other values. A
// value that stands there twice is one.
func differing(what string, then, now map[string][]string) (out []Difference) {
	all := maps.Clone(then)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if a, b := inOrder(then[name]), inOrder(now[name]); a != b {
			out = append(out, newDifference(what+": "+text.CutRunes(name, maxNamed), a, b))
		}
	}
	return out
}

func inOrder(values []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(values))), ", ")
}
