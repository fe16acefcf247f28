package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// Questions compares what two investigations asked: of the cluster, ourselves and by the
// agent, of metrics and logs, and of the tools of others. Added are those that only the second
// asked, dropped those that only the first did; what the guard answered otherwise is a
// difference. In which order and how often something was asked is none.
func Questions(then, now *Record) (added, dropped []string, otherwise []Difference) {
	before, after := then.questions(), now.questions()
	for _, q := range slices.Sorted(maps.Keys(after)) {
		if _, asked := before[q]; !asked {
			added = append(added, text.CutBytes(q, maxNamed))
			delete(after, q)
		}
	}
	for _, q := range slices.Sorted(maps.Keys(before)) {
		if _, asked := after[q]; !asked {
			dropped = append(dropped, text.CutBytes(q, maxNamed))
			delete(before, q)
		}
	}
	return added, dropped, differing("answer to", before, after)
}

// questions are all that was asked, with what the guard of an agent decided.
func (r *Record) questions() map[string][]string {
	all := map[string][]string{}
	for _, step := range append([]string{Prepare, Test}, r.agents()...) {
		tape, err := r.Tape(step)
		if err != nil {
			continue // which whoever plays it tells
		}
		for name, list := range tape.entries {
			kept := slices.ContainsFunc(list, func(e entry) bool { return !e.Dropped })
			if q := questionOf(name); q != "" && kept {
				all[q] = nil
			}
		}
	}
	r.eachOfAgent(func(a audit.Record) {
		q := journal.Request{Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, Query: a.Query}
		asked := "the agent: " + q.String()
		all[asked] = append(all[asked], strings.TrimSpace(fmt.Sprint(a.Decision, " ", a.Status)))
	})
	return all
}

// questionOf puts what stands on a tape into words, "" for what is no question. A time
// range is left out: it follows from the time of the step.
func questionOf(name string) string {
	words := wordsOf(name)
	switch {
	case slices.Contains([]string{Now, Sources, Requests, Reader}, name):
		return ""
	case len(words) == 5 && (words[0] == "metrics" || words[0] == "lines"):
		words = words[:2]
	case words == nil:
		return name
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// eachOfAgent calls fn for each request to the cluster that was an agent's.
func (r *Record) eachOfAgent(fn func(audit.Record)) {
	ours := momentsOf(r.ourRequests())
	for _, a := range r.audit {
		if !ours[momentOf(a.Time, a.Verb, a.Resource, a.Query)] {
			fn(a)
		}
	}
}

// ourRequests are the requests to the cluster of the steps before and after the agent's.
func (r *Record) ourRequests() (all []journal.Request) {
	for _, step := range []string{Prepare, Test} {
		var list []journal.Request
		if tape, err := r.Tape(step); err == nil && tape.Peek(Requests, &list) == nil {
			all = append(all, list...)
		}
	}
	return all
}

func momentsOf(list []journal.Request) map[string]bool {
	at := map[string]bool{}
	for _, q := range list {
		at[momentOf(q.Time, q.Verb, q.Resource, q.Query)] = true
	}
	return at
}

// Unanswered are the questions to which a record had no answer: those of an investigation
// that was made again.
func (r *Record) Unanswered() (asked []string) {
	for _, step := range append([]string{Prepare, Test}, r.agents()...) {
		tape, err := r.Tape(step)
		if err != nil {
			continue
		}
		for name, list := range tape.entries {
			if slices.ContainsFunc(list, func(e entry) bool { return e.Error != nil && e.Error.Text == errNotRecorded.Error() }) {
				asked = append(asked, text.CutBytes(questionOf(name), maxNamed))
			}
		}
	}
	slices.Sort(asked)
	return asked
}
