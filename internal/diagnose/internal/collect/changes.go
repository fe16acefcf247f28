package collect

import (
	"context"
	"encoding/json"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// maxHistory is how many revisions of one workload are read.
const maxHistory = 200

// ReleaseReader is a Reader that can also read a Helm release out of the Secret that
// it is kept in. Values and manifests do not get out.
type ReleaseReader interface {
	Release(ctx context.Context, namespace, secret string) (changes.Release, error)
}

// readHistory reads the revisions of a workload, and what delivered it where the
// workload or its namespace says so.
func (c *Collector) readHistory(ctx context.Context, about nightcrier.Object) error {
	if c.in.Reader == nil {
		return nil
	}
	var looks []look
	meta, selector := c.Scene.WorkloadOf(about)
	switch about.Kind {
	case "Deployment":
		if !c.Scene.Complete("ReplicaSet", about.Namespace) {
			looks = append(looks, c.lookQuietly(query{kind: "ReplicaSet", ns: about.Namespace, labels: selector, limit: maxHistory}))
		}
	case "StatefulSet", "DaemonSet":
		looks = append(looks, c.lookQuietly(query{kind: "ControllerRevision", ns: about.Namespace, labels: selector, limit: maxHistory}))
	}
	if meta != nil {
		for _, res := range scene.DeliveredBy(*meta) {
			l := c.lookAtObject(res)
			l.fail = func(error) error { return nil } // a label may outlive what it names
			looks = append(looks, l)
		}
	}
	return c.readTogether(ctx, append(looks, c.lookAtReleases(about.Namespace)...)...)
}

// ReadRootHistory reads the history of the root cause's workload where that is not what
// the incident is about: what changed there broke both.
func (c *Collector) ReadRootHistory(ctx context.Context, f *scene.Facts, root nightcrier.Object) error {
	if meta, _ := c.Scene.WorkloadOf(root); meta == nil || root == f.Mend() {
		return nil
	}
	return unwrapStop(c.readHistory(ctx, root))
}

// lookAtReleases returns the looks into the newest Helm releases of a namespace.
func (c *Collector) lookAtReleases(ns string) (looks []look) {
	r, ok := c.in.Reader.(ReleaseReader)
	if !ok {
		return nil
	}
	for _, name := range NewestReleases(c.Scene, ns) {
		source := "helm history of Secret " + name + scene.NamespaceFlag(ns)
		looks = append(looks, look{
			source: source,
			ask: func(ctx context.Context) ([]byte, error) {
				rel, err := r.Release(ctx, ns, name)
				if err != nil {
					return nil, err
				}
				return json.Marshal(rel)
			},
			take: func(body []byte) error {
				ref, err := c.recordBody("object", source, body)
				var rel changes.Release
				if err == nil && json.Unmarshal(body, &rel) == nil {
					c.Scene.Releases = append(c.Scene.Releases, scene.Read[changes.Release]{Object: rel, Ref: ref})
				}
				return err
			},
			fail: func(error) error { return nil }, // its labels tell the most
		})
	}
	return looks
}

// NewestReleases are the Secrets with the last revisions of each Helm release.
func NewestReleases(s *scene.Scene, ns string) (names []string) {
	told := map[string]int{}
	for _, sec := range s.HelmSecrets(ns) {
		release := sec.Object.Labels["name"]
		if told[release]++; told[release] <= 2 && len(names) < 2*scene.MaxReleases && scene.IsPlainName(sec.Object.Name) {
			names = append(names, sec.Object.Name)
		}
	}
	return names
}

// lookQuietly returns the look at a list that nobody misses.
func (c *Collector) lookQuietly(q query) look {
	l := c.lookAtList(q)
	l.fail = func(err error) error {
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			c.Reads-- // nothing is read of a kind that the server does not serve
		}
		return nil
	}
	return l
}
