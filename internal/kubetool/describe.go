package kubetool

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/kube/kinds"
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
	run:    describe,
}

func describe(ctx context.Context, r *reading, a Args) error {
	k, doc, err := r.one(ctx, a)
	if err != nil {
		return err
	}
	r.head(k, doc)
	r.owners(ctx, doc)
	r.state(doc)
	switch {
	case k.Name == "Pod" && k.Group == "":
		err = r.pod(doc)
	case at(doc, "spec", "template", "spec") != nil:
		if err = r.template(doc); err == nil {
			r.missed("its Pods", r.podsOf(ctx, k, doc))
		}
	case !k.secret():
		err = r.remainder(doc)
	}
	if err != nil {
		return err
	}
	r.rest = "kubernetes_get with a path shows a part in full"
	r.missed("events", r.eventsAbout(ctx, k, doc))
	return ctx.Err()
}

// missed says what could not be read of what belongs to an object: the rest is
// worth telling all the same.
func (r *reading) missed(what string, err error) {
	if err != nil {
		r.say("%s: could not be read: %s\n", what, short(err.Error(), 300))
	}
}

// head names the object.
func (r *reading) head(k kind, doc any) {
	meta := at(doc, "metadata")
	res := nightcrier.Resource{Kind: k.Name, Namespace: textAt(meta, "namespace"), Name: textAt(meta, "name")}
	r.say("%s, created %s\n", short(res.String(), 400), ago(r.now(), timeAt(meta, "creationTimestamp")))
	if t := timeAt(meta, "deletionTimestamp"); !t.IsZero() {
		r.say("being deleted since %s", age(r.now(), t))
		if f := listAt(meta, "finalizers"); len(f) > 0 {
			r.say("; finalizers: %s", short(fmt.Sprint(f...), 200))
		}
		r.say("\n")
	}
	if labels, ok := at(meta, "labels").(map[string]any); ok {
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			pairs = append(pairs, fmt.Sprintf("%s=%v", key, labels[key]))
		}
		r.say("labels: %s\n", short(strings.Join(pairs, ","), 500))
	}
}

// owners names who controls the object, and who controls that.
func (r *reading) owners(ctx context.Context, doc any) {
	var chain []string
	for range 3 {
		up := controller(doc)
		if up == nil {
			break
		}
		chain = append(chain, short(up.Kind+"/"+up.Name, 300))
		if up.Kind != "ReplicaSet" && up.Kind != "Job" { // above the others nobody looks
			break
		}
		next, err := r.ownerOf(ctx, textAt(doc, "metadata", "namespace"), up)
		if err != nil {
			chain = append(chain, "(which cannot be read: "+short(err.Error(), 200)+")")
			break
		}
		doc = next
	}
	if len(chain) > 0 {
		r.say("owner: %s\n", strings.Join(chain, " ← "))
	}
}

// controller is the reference to what controls an object, nil when nothing does.
func controller(doc any) *metav1.OwnerReference {
	var obj metav1.PartialObjectMetadata
	if convert(map[string]any{"metadata": at(doc, "metadata")}, &obj) != nil {
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
	return r.object(ctx, query{path: k.Path(ns) + "/" + url.PathEscape(up.Name), accept: acceptMeta, max: maxObject, kind: "object"})
}

// counts are the numbers of a workload's status, as people call them.
var counts = [][2]string{
	{"replicas", "present"}, {"updatedReplicas", "updated"}, {"readyReplicas", "ready"}, {"availableReplicas", "available"},
	{"unavailableReplicas", "unavailable"}, {"desiredNumberScheduled", "desired"}, {"currentNumberScheduled", "scheduled"},
	{"numberReady", "ready"}, {"numberUnavailable", "unavailable"}, {"active", "active"}, {"succeeded", "succeeded"}, {"failed", "failed"},
}

// state tells phase, counts and conditions, which most kinds have.
func (r *reading) state(doc any) {
	var facts []string
	if p := textAt(doc, "status", "phase"); p != "" {
		facts = append(facts, "phase "+short(p, 100))
	}
	for _, key := range []string{"reason", "message"} {
		if s := textAt(doc, "status", key); s != "" {
			facts = append(facts, key+" "+short(s, 300))
		}
	}
	if n, ok := at(doc, "spec", "replicas").(int64); ok {
		facts = append(facts, fmt.Sprintf("%d desired", n))
	}
	for _, c := range counts {
		if n, ok := at(doc, "status", c[0]).(int64); ok {
			facts = append(facts, fmt.Sprintf("%d %s", n, c[1]))
		}
	}
	if len(facts) > 0 {
		r.say("state: %s\n", strings.Join(facts, ", "))
	}
	rows := [][]string{{"CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"}}
	for _, c := range listAt(doc, "status", "conditions") {
		rows = append(rows, []string{textAt(c, "type"), textAt(c, "status"), ago(r.now(), timeAt(c, "lastTransitionTime")), textAt(c, "reason"), textAt(c, "message")})
	}
	if len(rows) > 1 {
		r.say("%s", table(rows))
	}
}

// podsOf lists the Pods that a workload selects.
func (r *reading) podsOf(ctx context.Context, k kind, doc any) error {
	var sel metav1.LabelSelector
	if at(doc, "spec", "selector") == nil || convert(at(doc, "spec", "selector"), &sel) != nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(&sel)
	if err != nil || s.Empty() {
		return nil
	}
	ns := textAt(doc, "metadata", "namespace")
	pods := kinds.MustNamed("Pod")
	values := url.Values{"labelSelector": {s.String()}, "limit": {fmt.Sprint(describedPods)}}
	list, err := r.object(ctx, query{path: pods.Path(ns), values: values, accept: acceptTable, max: maxList, kind: "list"})
	if err != nil {
		return err
	}
	rows := r.rows(list, false)
	r.say("Pods of this %s: %d", k.Name, len(rows)-1)
	if textAt(list, "metadata", "continue") != "" {
		r.say(", and there are more%s", remaining(list))
	}
	r.say("\n")
	if len(rows) > 1 {
		r.say("%s", table(rows))
	}
	return nil
}

// remainder shows the rest of an object of which nothing special is known.
func (r *reading) remainder(doc any) error {
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
	said, err := encode(rest, "yaml")
	if err != nil {
		return err
	}
	if len(said) > describedYAML {
		said = text.KeepBytes(said, describedYAML) + "\n(cut; kubernetes_get shows it in full)\n"
	}
	r.say("%s", fence(said))
	return nil
}

// eventsAbout lists the events about the object. Those about cluster-wide
// objects are kept in the default namespace.
func (r *reading) eventsAbout(ctx context.Context, k kind, doc any) error {
	ns := or(textAt(doc, "metadata", "namespace"), metav1.NamespaceDefault)
	list, more, err := r.events(ctx, EventFilter{Namespace: ns, Kind: k.Name, Name: textAt(doc, "metadata", "name")}, describedEvents)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		r.say("events: none\n")
		return nil
	}
	r.say("events, the last seen first")
	if more > 0 {
		r.say(" (%d more)", more)
	}
	r.say(":\n%s", r.eventTable(list, false))
	return nil
}
