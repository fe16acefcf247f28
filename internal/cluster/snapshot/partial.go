package snapshot

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Listed is a list that was read: all objects of a kind in a namespace ("" is all of
// them) that the selectors choose, as a request writes them.
type Listed struct {
	APIVersion, Kind  string
	Namespace         string
	Labels, Selection string
}

// Log is what was read of a container's log, the end of it.
type Log struct {
	Namespace, Pod, Container string
	Previous                  bool
	Text                      []byte
}

// Parts are what was read of a cluster: some of its objects, as the API writes them, alone or in
// lists; which lists were read in full; and logs.
type Parts struct {
	Info
	Objects [][]byte
	Lists   []Listed
	Logs    []Log
}

// Of makes a snapshot of what somebody happened to read of a cluster. What was not
// read is not known: an object is missing only where a list of its kind would have it,
// and a list is served only where one was read that has all of it.
func Of(p Parts) *Snapshot {
	r := &reader{snap: newSnapshot(p.Info)}
	for k := range knownKinds {
		r.snap.addKind(k)
	}
	for _, doc := range p.Objects {
		if err := r.addDocument("an object", doc); err != nil {
			break // a bound: what came before is served
		}
	}
	r.finishSnapshot()
	r.snap.lists = map[*collection][]Listed{}
	for _, l := range p.Lists {
		if gv, err := schema.ParseGroupVersion(l.APIVersion); err == nil {
			if c := r.snap.ofKind(gv.Group, l.Kind); c != nil {
				r.snap.lists[c] = append(r.snap.lists[c], l)
			}
		}
	}
	for _, l := range p.Logs {
		r.snap.logs[logKey{l.Namespace, l.Pod, l.Container, l.Previous}] = l.Text
	}
	return r.snap
}

// whyUnread says why what a request chooses in ns is not known, "" when it is: a list was
// read that has it.
func (s *Snapshot) whyUnread(c *collection, ns string, query url.Values) string {
	for _, l := range s.lists[c] {
		if (l.Namespace == "" || l.Namespace == ns) && isNarrower(query.Get("labelSelector"), l.Labels) && isNarrower(query.Get("fieldSelector"), l.Selection) {
			return ""
		}
	}
	return "nobody listed these"
}

// isNarrower says whether a selector demands all that another does: then it chooses no
// object that the other does not.
func isNarrower(selector, other string) bool {
	have := strings.Split(selector, ",")
	return other == "" || !strings.ContainsAny(other, "()") && !slices.ContainsFunc(strings.Split(other, ","), func(term string) bool { return !slices.Contains(have, term) })
}
