// Package snapshot holds what was recorded of a cluster: it records one, reads
// what others recorded, and serves it as a read-only Kubernetes API, so that a
// snapshot is looked at by whatever looks at a cluster.
//
// A snapshot is a directory of files of Kubernetes objects and of logs. Open takes
// the forms that tools leave behind, and takes nothing on trust: links out of the
// directory are not followed, sizes and counts are bounded, the values of Secrets
// are dropped, and a file that cannot be read is noted rather than the end.
package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// InfoFile is the file at the top of a snapshot that says what it is of.
const InfoFile = "snapshot.json"

// Info is what a snapshot says of itself.
type Info struct {
	Cluster    string    `json:"cluster,omitempty"`
	CapturedAt time.Time `json:"capturedAt,omitzero"`
	// Version is the API server's.
	Version string `json:"version,omitempty"`
	// Namespaces are the recorded ones; none means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// System are namespaces of which only what others depend on was recorded:
	// workloads, services, policies and events.
	System []string `json:"systemNamespaces,omitempty"`
	// NotCaptured is what could not be recorded or read. What names a resource,
	// such as "nodes" or "secrets in shop", is answered as forbidden: that it is not
	// here says nothing about the cluster.
	NotCaptured []nightcrier.NotChecked `json:"notCaptured,omitempty"`
}

// Snapshot is a cluster at one moment. It does not change and may be used
// concurrently.
type Snapshot struct {
	Info
	// declared says that the snapshot told what was not captured: what it lacks
	// besides was not there.
	declared    bool
	collections map[string]*collection // by group + "/" + plural
	kinds       map[string]*collection // the same, by group + "/" + name
	logs        map[logKey][]byte
	// lists are those that were read, where only parts of a cluster were; else nil.
	lists map[*collection][]Listed
}

// object is one object: its JSON, and what selects it.
type object struct {
	namespace, name string
	labels          map[string]string
	fields          map[string]any
	raw             []byte
}

// logKey names the log of a container.
type logKey struct {
	namespace, pod, container string
	previous                  bool
}

// Open reads the snapshot in a directory. Files that cannot be read are noted in
// NotCaptured. A directory that is missing, or holds nothing to look at, is an
// Invalid error; one over the bounds an Exhausted one.
func Open(dir string) (*Snapshot, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unopened(dir, err)
	}
	defer root.Close()
	s, err := Read(root.FS())
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", dir, err)
	}
	return s, nil
}

// unopened says what to do about a directory that cannot be opened.
func unopened(dir string, err error) error {
	const takes = "`nightcrier snapshot --out DIR` records a cluster into one, and any directory of files as `kubectl get -o json` prints them will do"
	why := "cannot be opened"
	if info, statErr := os.Stat(dir); errors.Is(statErr, fs.ErrNotExist) {
		return nightcrier.Errorf(nightcrier.Invalid, "snapshot %s does not exist: %s", dir, takes)
	} else if statErr == nil && !info.IsDir() {
		return nightcrier.Errorf(nightcrier.Invalid, "snapshot %s is no directory: %s", dir, takes)
	} else if errors.Is(err, fs.ErrPermission) {
		why = "may not be read: check who owns it"
	}
	return nightcrier.Errorf(nightcrier.Invalid, "snapshot %s %s: %w", dir, why, err)
}

// Read is Open for a file system.
func Read(fsys fs.FS) (*Snapshot, error) {
	r := &reader{fsys: fsys, snap: newSnapshot(Info{})}
	for k := range knownKinds {
		r.snap.addKind(k)
	}
	if err := r.readInfo(); err != nil {
		return nil, err
	}
	if err := fs.WalkDir(fsys, ".", r.visitFile); err != nil {
		return nil, err
	}
	if r.objects == 0 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "there are no Kubernetes objects in it: it takes files as `kubectl get -o json` prints them%s", r.firstNote())
	}
	r.finishSnapshot()
	return r.snap, nil
}

func newSnapshot(of Info) *Snapshot {
	return &Snapshot{Info: of, collections: map[string]*collection{}, kinds: map[string]*collection{}, logs: map[logKey][]byte{}}
}

// Namespace is where one looks who names none: the recorded one, when there is
// just one.
func (s *Snapshot) Namespace() string {
	if len(s.Namespaces) == 1 {
		return s.Namespaces[0]
	}
	return ""
}

func (s *Snapshot) addKind(k kind) *collection {
	c := &collection{kind: k, byName: map[string]*object{}}
	s.collections[k.Group+"/"+k.Plural], s.kinds[k.Group+"/"+k.Name] = c, c
	return c
}

// ofKind returns the collection that serves a kind, nil when none does.
func (s *Snapshot) ofKind(group, name string) *collection { return s.kinds[group+"/"+name] }

// servedCollections lists the collections that the API has, core first.
func (s *Snapshot) servedCollections() []*collection {
	var list []*collection
	for _, c := range s.collections {
		if !c.isOptional() || len(c.objects) > 0 || c.seen {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *collection) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Plural, b.Plural))
	})
	return list
}

// whyWithheld says why objects of c in ns ("" for all namespaces) that a query selects are
// not known, "" when they are: then an object that is not here was not there.
func (s *Snapshot) whyWithheld(c *collection, ns string, query url.Values) string {
	if s.lists != nil {
		return s.whyUnread(c, ns, query)
	}
	for _, n := range s.NotCaptured {
		if about, in := coversKind(n.What, c.kind); about && (in == "" || ns == "" || in == ns) {
			return n.Why
		}
	}
	switch {
	case c.skip && len(c.objects) == 0 && !c.seen:
		return "these are not recorded"
	case !s.declared && len(c.objects) == 0 && !c.seen:
		return "the snapshot holds none, and does not say whether it looked"
	case c.ClusterWide || ns == "" || len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, ns), c.system && slices.Contains(s.System, ns):
		return ""
	case !slices.ContainsFunc(c.objects, func(o *object) bool { return o.namespace == ns }):
		return "the snapshot is of namespace " + strings.Join(s.Namespaces, ", ")
	}
	return ""
}

// coversKind reports whether what was not captured are objects of k, and in which
// namespace, "" for all: "nodes", "list nodes", "secrets in shop".
func coversKind(what string, k kind) (about bool, namespace string) {
	words := strings.Fields(what)
	if len(words) > 0 && strings.HasPrefix(words[0], "log") {
		return false, ""
	}
	for i, w := range words {
		switch {
		case w == k.Resource(), w == k.Plural, strings.EqualFold(w, k.Name):
			about = true
		case (w == "in" || w == "-n") && i+1 < len(words):
			namespace = words[i+1]
		}
	}
	return about, namespace
}

// parseInfo reads a snapshot's own description. What was not captured may be
// sentences, or a thing and why.
func parseInfo(raw []byte) (Info, error) {
	var loose struct {
		Info
		CapturedAt  string            `json:"capturedAt"`
		NotCaptured []json.RawMessage `json:"notCaptured"`
	}
	if err := json.Unmarshal(raw, &loose); err != nil {
		return Info{}, err
	}
	info := loose.Info
	if loose.CapturedAt != "" {
		at, err := time.Parse(time.RFC3339, loose.CapturedAt)
		if err != nil {
			return Info{}, fmt.Errorf("capturedAt: %w", err)
		}
		info.CapturedAt = at
	}
	for _, one := range loose.NotCaptured {
		var n nightcrier.NotChecked
		if json.Unmarshal(one, &n) != nil || n.What == "" {
			n = nightcrier.NotChecked{Why: "it was not captured"}
			if err := json.Unmarshal(one, &n.What); err != nil {
				return Info{}, fmt.Errorf("notCaptured: %w", err)
			}
		}
		info.NotCaptured = append(info.NotCaptured, n)
	}
	return info, nil
}
