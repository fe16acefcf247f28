package kubetool

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// Bounds of what is compared.
const (
	maxRevisions   = 200
	maxDifferences = 60
	overviewRows   = 25
)

// revisionNote is where a Deployment numbers its ReplicaSets.
const revisionNote = "deployment.kubernetes.io/revision"

var changesTool = Tool{
	Name: "kubernetes_changes", Title: "Kubernetes: Changes",
	About: "What changed: the last two revisions of a Deployment, StatefulSet or DaemonSet compared, or the history of a Helm release (never its values). Without kind and name: what changed last in the namespace.",
	Params: Params{
		{Name: "kind", Type: String, Enum: []string{"Deployment", "StatefulSet", "DaemonSet", "HelmRelease"}, Also: []string{"deployment", "deploy", "statefulset", "sts", "daemonset", "ds", "helmrelease", "helm"}, About: "Kind of what changed"},
		{Name: "name", Type: String, About: "Name of the workload or release"},
		{Name: "namespace", Type: String, Default: "default", About: "Namespace to look in"}},
	run: whatChanged,
}

func whatChanged(ctx context.Context, r *reading, a Args) error {
	ns, name, word := a.String("namespace"), a.String("name"), strings.ToLower(a.String("kind"))
	if err := checkNames("x", ns, cmp.Or(name, "x")); err != nil {
		return err
	}
	switch {
	case (name == "") != (word == ""):
		return nightcrier.Errorf(nightcrier.Invalid, "arguments kind and name belong together; leave both out for what changed last in namespace %s", ns)
	case name == "":
		return r.writeOverview(ctx, ns)
	case strings.HasPrefix(word, "helm"):
		return r.writeHelmHistory(ctx, ns, name)
	}
	return r.compareRevisions(ctx, ns, word, name)
}

// revision is one state of a workload's template.
type revision struct {
	name, of string // its own name, and its workload's
	number   int64
	made     time.Time
	template any
}

// revisionKind is where the revisions of a workload are: ReplicaSets for a
// Deployment, else ControllerRevisions.
func revisionKind(deployment bool) kinds.Kind {
	if deployment {
		return kinds.MustNamed("ReplicaSet")
	}
	return kinds.MustNamed("ControllerRevision")
}

// compareRevisions tells the last two revisions of one workload apart.
func (r *reading) compareRevisions(ctx context.Context, ns, word, name string) error {
	k, err := r.kindOf(ctx, word, "apps")
	if err != nil {
		return err
	}
	doc, err := r.readObject(ctx, k, ns, name)
	if err != nil {
		return err
	}
	values := url.Values{"limit": {strconv.Itoa(maxRevisions)}}
	if sel := selectorOf(doc); sel != "" {
		values.Set("labelSelector", sel)
	}
	revs, err := r.listRevisions(ctx, ns, k.Name == "Deployment", values)
	if err != nil {
		return err
	}
	revs = slices.DeleteFunc(revs, func(v revision) bool { return v.of != k.Name+"/"+name })
	slices.SortFunc(revs, func(a, b revision) int { return cmp.Compare(b.number, a.number) })
	res := nightcrier.Resource{Kind: k.Name, Namespace: ns, Name: name}
	switch len(revs) {
	case 0:
		r.writeTextf("%s has no revision on record\n", res)
		return nil
	case 1:
		r.writeTextf("%s is at its first revision on record, %d, made %s; there is nothing to compare it with\n", res, revs[0].number, formatAgo(r.currentTime(), revs[0].made))
		return nil
	}
	r.writeTextf("%s: revision %d (made %s) against revision %d (made %s), of %d on record\n", res,
		revs[0].number, formatAgo(r.currentTime(), revs[0].made), revs[1].number, formatAgo(r.currentTime(), revs[1].made), len(revs))
	lines := changes.Between(revs[1].template, revs[0].template, shortLine)
	if len(lines) == 0 {
		r.writeTextf("their Pod templates are the same\n")
	}
	for _, l := range lines[:min(len(lines), maxDifferences)] {
		r.writeTextf("- %s\n", l)
	}
	if more := len(lines) - maxDifferences; more > 0 {
		r.writeTextf("(%d more differences; kubernetes_get %s %s and %s show both in full)\n", more, revisionKind(k.Name == "Deployment").Name, shortLine(revs[0].name, 253), shortLine(revs[1].name, 253))
	}
	return nil
}

func selectorOf(doc any) string {
	var sel metav1.LabelSelector
	if ValueAt(doc, "spec", "selector") == nil || convertInto(ValueAt(doc, "spec", "selector"), &sel) != nil {
		return ""
	}
	s, err := metav1.LabelSelectorAsSelector(&sel)
	if err != nil {
		return ""
	}
	return s.String()
}

// listRevisions lists the revisions of Deployments, or of the other workloads.
func (r *reading) listRevisions(ctx context.Context, ns string, deployments bool, values url.Values) ([]revision, error) {
	k := revisionKind(deployments)
	doc, err := r.readRecorded(ctx, query{path: k.Path(ns), values: values, accept: acceptJSON, max: maxList, kind: "list"})
	if err != nil {
		return nil, err
	}
	var out []revision
	for _, item := range ListAt(doc, "items") {
		var obj metav1.PartialObjectMetadata
		if err := convertInto(map[string]any{"metadata": ValueAt(item, "metadata")}, &obj); err != nil {
			return nil, err
		}
		up := metav1.GetControllerOfNoCopy(&obj)
		if up == nil {
			continue
		}
		v := revision{name: obj.Name, of: up.Kind + "/" + up.Name, made: obj.CreationTimestamp.Time}
		if deployments {
			v.number, _ = strconv.ParseInt(obj.Annotations[revisionNote], 10, 64) // unnumbered is oldest
			v.template = ValueAt(item, "spec", "template")
		} else {
			v.number, _ = ValueAt(item, "revision").(int64)
			v.template = ValueAt(item, "data", "spec", "template")
		}
		out = append(out, v)
	}
	return out, nil
}

// writeOverview lists what changed last in a namespace.
func (r *reading) writeOverview(ctx context.Context, ns string) error {
	var all []revision
	for _, deployments := range []bool{true, false} {
		revs, err := r.listRevisions(ctx, ns, deployments, url.Values{"limit": {"500"}})
		if err != nil {
			return err
		}
		all = append(all, revs...)
	}
	slices.SortFunc(all, func(a, b revision) int { return b.made.Compare(a.made) })
	r.writeTextf("revisions of workloads in namespace %s, the newest first: %d\n", ns, len(all))
	rows := [][]string{{"MADE", "WORKLOAD", "REVISION"}}
	for _, v := range all[:min(len(all), overviewRows)] {
		rows = append(rows, []string{formatAgo(r.currentTime(), v.made), v.of, strconv.FormatInt(v.number, 10)})
	}
	if len(all) > 0 {
		r.writeTextf("%s", formatTable(rows))
	}
	if len(all) > overviewRows {
		r.writeTextf("(%d older ones are left out)\n", len(all)-overviewRows)
	}
	r.writeTextf("call again with kind and name to see what a revision changed\n")
	return r.writeReleases(ctx, ns)
}
