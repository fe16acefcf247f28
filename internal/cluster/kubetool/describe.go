package kubetool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of a description.
const (
	describedEvents = 20
	describedPods   = 20
	describedYAML   = 4 << 10
)

var describeTool = Tool{
	Name: "kubernetes_describe", Title: "Kubernetes: Describe",
	About:  "A summary of one object: its owner, conditions, containers with their states, the Pods of a workload, and the events about it. The first thing to look at when something is wrong.",
	Params: Params{kindParam, groupParam, nameParam, namespaceParam},
	run:    describeObject,
}

func describeObject(ctx context.Context, r *reading, a Args) error {
	k, doc, err := r.objectFromArgs(ctx, a)
	if err != nil {
		return err
	}
	r.writeHead(k, doc)
	r.writeOwners(ctx, doc)
	r.writeState(doc)
	switch {
	case k.Name == "Pod" && k.Group == "":
		err = r.writePod(doc)
	case ValueAt(doc, "spec", "template", "spec") != nil:
		if err = r.writeTemplate(doc); err == nil {
			r.writeMissed("its Pods", r.podsOf(ctx, k, doc))
		}
	case !k.isSecret():
		err = r.writeRemainder(doc)
	}
	if err != nil {
		return err
	}
	r.rest = "kubernetes_get with a path shows a part in full"
	r.writeMissed("events", r.eventsAbout(ctx, k, doc))
	return ctx.Err()
}

// writeMissed says what could not be read of what belongs to an object: the rest is
// worth telling all the same.
func (r *reading) writeMissed(what string, err error) {
	if err != nil {
		r.writeTextf("%s: could not be read: %s\n", what, shortLine(err.Error(), 300))
	}
}

// writeHead names the object.
func (r *reading) writeHead(k kind, doc any) {
	meta := ValueAt(doc, "metadata")
	res := nightcrier.Resource{Kind: k.Name, Namespace: TextAt(meta, "namespace"), Name: TextAt(meta, "name")}
	r.writeTextf("%s, created %s\n", shortLine(res.String(), 400), formatAgo(r.currentTime(), timeAt(meta, "creationTimestamp")))
	if t := timeAt(meta, "deletionTimestamp"); !t.IsZero() {
		r.writeTextf("being deleted since %s", formatAge(r.currentTime(), t))
		if f := ListAt(meta, "finalizers"); len(f) > 0 {
			r.writeTextf("; finalizers: %s", shortLine(fmt.Sprint(f...), 200))
		}
		r.writeTextf("\n")
	}
	if labels, ok := ValueAt(meta, "labels").(map[string]any); ok {
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			pairs = append(pairs, fmt.Sprintf("%s=%v", key, labels[key]))
		}
		r.writeTextf("labels: %s\n", shortLine(strings.Join(pairs, ","), 500))
	}
}

// writeOwners names who controls the object, and who controls that.
func (r *reading) writeOwners(ctx context.Context, doc any) {
	var chain []string
	for range 3 {
		up := controllerOf(doc)
		if up == nil {
			break
		}
		chain = append(chain, shortLine(up.Kind+"/"+up.Name, 300))
		if up.Kind != "ReplicaSet" && up.Kind != "Job" { // above the others nobody looks
			break
		}
		next, err := r.ownerOf(ctx, TextAt(doc, "metadata", "namespace"), up)
		if err != nil {
			chain = append(chain, "(which cannot be read: "+shortLine(err.Error(), 200)+")")
			break
		}
		doc = next
	}
	if len(chain) > 0 {
		r.writeTextf("owner: %s\n", strings.Join(chain, " ← "))
	}
}

// controllerOf is the reference to what controls an object, nil when nothing does.
func controllerOf(doc any) *metav1.OwnerReference {
	var obj metav1.PartialObjectMetadata
	if convertInto(map[string]any{"metadata": ValueAt(doc, "metadata")}, &obj) != nil {
		return nil
	}
	return metav1.GetControllerOfNoCopy(&obj)
}

func (r *reading) ownerOf(ctx context.Context, ns string, up *metav1.OwnerReference) (any, error) {
	k, err := r.kindOf(ctx, up.Kind, up.APIVersion)
	if err != nil {
		return nil, err
	}
	if err := checkNames(k.Name, ns, up.Name); err != nil {
		return nil, err
	}
	return r.readRecorded(ctx, query{path: k.Path(ns) + "/" + url.PathEscape(up.Name), accept: acceptMeta, max: maxObject, kind: "object"})
}

// counts are the numbers of a workload's status, as people call them.
var counts = [][2]string{
	{"replicas", "present"}, {"updatedReplicas", "updated"}, {"readyReplicas", "ready"}, {"availableReplicas", "available"},
	{"unavailableReplicas", "unavailable"}, {"desiredNumberScheduled", "desired"}, {"currentNumberScheduled", "scheduled"},
	{"numberReady", "ready"}, {"numberUnavailable", "unavailable"}, {"active", "active"}, {"succeeded", "succeeded"}, {"failed", "failed"},
}

// writeState tells phase, counts and conditions, which most kinds have.
func (r *reading) writeState(doc any) {
	var facts []string
	if p := TextAt(doc, "status", "phase"); p != "" {
		facts = append(facts, "phase "+shortLine(p, 100))
	}
	for _, key := range []string{"reason", "message"} {
		if s := TextAt(doc, "status", key); s != "" {
			facts = append(facts, key+" "+shortLine(s, 300))
		}
	}
	if n, ok := ValueAt(doc, "spec", "replicas").(int64); ok {
		facts = append(facts, fmt.Sprintf("%d desired", n))
	}
	for _, c := range counts {
		if n, ok := ValueAt(doc, "status", c[0]).(int64); ok {
			facts = append(facts, fmt.Sprintf("%d %s", n, c[1]))
		}
	}
	if len(facts) > 0 {
		r.writeTextf("state: %s\n", strings.Join(facts, ", "))
	}
	rows := [][]string{{"CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"}}
	for _, c := range ListAt(doc, "status", "conditions") {
		rows = append(rows, []string{TextAt(c, "type"), TextAt(c, "status"), formatAgo(r.currentTime(), timeAt(c, "lastTransitionTime")), TextAt(c, "reason"), TextAt(c, "message")})
	}
	if len(rows) > 1 {
		r.writeTextf("%s", formatTable(rows))
	}
}

// podsOf lists the Pods that a workload selects.
func (r *reading) podsOf(ctx context.Context, k kind, doc any) error {
	var sel metav1.LabelSelector
	if ValueAt(doc, "spec", "selector") == nil || convertInto(ValueAt(doc, "spec", "selector"), &sel) != nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(&sel)
	if err != nil || s.Empty() {
		return nil
	}
	ns := TextAt(doc, "metadata", "namespace")
	pods := kinds.MustNamed("Pod")
	values := url.Values{"labelSelector": {s.String()}, "limit": {fmt.Sprint(describedPods)}}
	list, err := r.readRecorded(ctx, query{path: pods.Path(ns), values: values, accept: acceptTable, max: maxList, kind: "list"})
	if err != nil {
		return err
	}
	rows := r.rowsOfList(list, false)
	r.writeTextf("Pods of this %s: %d", k.Name, len(rows)-1)
	if TextAt(list, "metadata", "continue") != "" {
		r.writeTextf(", and there are more%s", remainingCount(list))
	}
	r.writeTextf("\n")
	if len(rows) > 1 {
		r.writeTextf("%s", formatTable(rows))
	}
	return nil
}

// writeRemainder shows the rest of an object of which nothing special is known.
func (r *reading) writeRemainder(doc any) error {
	m, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	rest := maps.Clone(m)
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		delete(rest, key)
	}
	if len(rest) == 0 {
		return nil
	}
	said, err := encodeDocument(rest, "yaml")
	if err != nil {
		return err
	}
	if len(said) > describedYAML {
		said = text.KeepBytes(said, describedYAML) + "\n(cut; kubernetes_get shows it in full)\n"
	}
	r.writeTextf("%s", Fence(said))
	return nil
}

// eventsAbout lists the events about the object. Those about cluster-wide
// objects are kept in the default namespace.
func (r *reading) eventsAbout(ctx context.Context, k kind, doc any) error {
	ns := cmp.Or(TextAt(doc, "metadata", "namespace"), metav1.NamespaceDefault)
	list, more, err := r.listEvents(ctx, EventFilter{Namespace: ns, Kind: k.Name, Name: TextAt(doc, "metadata", "name")}, describedEvents)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		r.writeTextf("events: none\n")
		return nil
	}
	r.writeTextf("events, the last seen first")
	if more > 0 {
		r.writeTextf(" (%d more)", more)
	}
	r.writeTextf(":\n%s", r.eventTable(list, false))
	return nil
}
