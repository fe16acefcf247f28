package triage

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// ParseTarget reads the object that a person names: KIND/NAME or KIND NAME, where
// the kind is one in any case, its plural or its short name, and the way in which
// reports and lists write it, with its namespace.
func ParseTarget(words []string, namespace string) (nightcrier.Resource, error) {
	if err := checkNamespace(namespace); err != nil {
		return nightcrier.Resource{}, nightcrier.Errorf(nightcrier.Invalid, "-n: %w", err)
	}
	if len(words) == 0 {
		return nightcrier.Resource{Kind: "Namespace", Name: namespace}, nil
	}
	said := strings.Join(words, " ")
	parts := strings.FieldsFunc(said, func(r rune) bool { return r == '/' || r == ' ' })
	r := nightcrier.Resource{Namespace: namespace}
	first, rest, slash := strings.Cut(said, "/")
	switch {
	case len(parts) == 2:
		r.Kind, r.Name = parts[0], parts[1]
	case len(parts) == 3 && isKnownKind(parts[1]): // shop/Deployment/cart
		r.Namespace, r.Kind, r.Name = parts[0], parts[1], parts[2]
	case len(parts) == 3 && isKnownKind(parts[0]) && slash && !strings.Contains(rest, " "): // Deployment shop/cart
		r.Kind, r.Namespace, r.Name = parts[0], parts[1], parts[2]
	case len(parts) == 1 && isKnownKind(parts[0]):
		return r, nightcrier.Errorf(nightcrier.Invalid, "which one? Name it as KIND/NAME, such as %s/NAME, or look at all of a namespace with -n NAMESPACE", strings.ToLower(parts[0]))
	case slash && isKnownKind(first):
		r.Kind, r.Name = first, rest
	default:
		return r, nightcrier.Errorf(nightcrier.Invalid, "%q is not KIND/NAME, such as deployment/cart", said)
	}
	if namespace != "" && r.Namespace != namespace {
		return r, nightcrier.Errorf(nightcrier.Invalid, "%q is in namespace %s, and -n names %s", said, r.Namespace, namespace)
	}
	if !isKnownKind(r.Kind) {
		if near := kinds.Nearest(r.Kind); near != "" {
			return r, nightcrier.Errorf(nightcrier.Invalid, "%q is not a kind: did you mean %s/%s?", r.Kind, near, r.Name)
		}
	}
	kind, _ := kinds.Meant(r.Kind) // one that is not built in is asked for when the cluster is known
	r.Kind = kind.Name
	if err := checkNamespace(r.Namespace); err != nil {
		return r, err
	}
	return r, checkName(r)
}

// checkNamespace says of a namespace that no cluster can have that it is none; "" is
// the context's.
func checkNamespace(ns string) error {
	if ns == "" || len(validation.IsDNS1123Label(ns)) == 0 {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%q cannot be the name of a namespace, which has lower-case letters, digits and '-'", ns)
}

// checkName says of a name that no object of its kind can have that it is none, rather
// than that it is not found.
func checkName(r nightcrier.Resource) error {
	if dnsName(r.Name) {
		return nil
	}
	or := ""
	if lower := strings.ToLower(r.Name); dnsName(lower) {
		or = fmt.Sprintf("; did you mean %s/%s?", strings.ToLower(r.Kind), lower)
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%q cannot be the name of a %s, which has lower-case letters, digits, '-' and '.', and a letter or digit at both ends%s", r.Name, r.Kind, or)
}

// dnsName reports whether s can be the name of an object.
func dnsName(s string) bool {
	return len(validation.IsDNS1123Subdomain(s)) == 0
}

// isKnownKind reports whether a word means a builtin kind.
func isKnownKind(word string) bool {
	_, known := kinds.Meant(word)
	return known
}

// askedPayload is the payload that stands for a person's question about the target,
// which must be there to be asked about.
func (o Options) askedPayload(ctx context.Context, cluster string, client *kube.Client) ([]byte, error) {
	if o.Target.Namespace == "" && o.Snapshot != nil {
		o.Target.Namespace = o.Snapshot.Namespace()
	}
	if o.Target.Namespace == "" {
		o.Target.Namespace = client.Namespace()
	}
	if o.Target.Kind == kinds.Cluster {
		o.Target = kinds.WholeCluster(cluster)
	}
	if !isKnownKind(o.Target.Kind) && kinds.IsObject(o.Target) {
		kind, err := client.ServedKind(ctx, o.Target.Kind)
		if err != nil {
			return nil, err
		}
		o.Target.Kind, o.Target.APIVersion = kind.Name, kind.APIVersion()
		if kind.ClusterWide {
			o.Target.Namespace = ""
		}
	}
	res, err := kinds.Complete(o.Target)
	if err != nil {
		return nil, err
	}
	if res.Kind != kinds.Cluster { // which is no object
		_, err = client.Get(ctx, res)
	}
	switch code := nightcrier.CodeOf(err); {
	case err == nil:
		return o.newQuestion(cluster, res)
	case code == nightcrier.NotFound:
		return nil, notThere(ctx, client, res, err)
	case code == nightcrier.Refused:
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "%w; %s", err, o.hintUnreadable())
	}
	return nil, err
}

// maxNear is how many other names are offered for one that does not exist.
const maxNear = 5

// notThere says what else may have been meant where there is no such object. What
// cannot be listed is not offered.
func notThere(ctx context.Context, client *kube.Client, res nightcrier.Resource, missing error) error {
	at := strings.ToLower(res.Kind) + "/"
	names := namesOf(ctx, client, res.Kind, res.Namespace, "")
	var offer []string
	for _, name := range text.FindNear(res.Name, namesIn(names), maxNear) {
		offer = append(offer, at+name)
	}
	if len(offer) == 0 && res.Namespace != "" {
		for _, o := range namesOf(ctx, client, res.Kind, "", "metadata.name="+res.Name) {
			if o.Name == res.Name && len(offer) < maxNear {
				offer = append(offer, at+o.Name+" -n "+o.Namespace)
			}
		}
	}
	switch {
	case len(offer) > 0:
		return nightcrier.Errorf(nightcrier.NotFound, "%w; did you mean %s?", missing, strings.Join(offer, " or "))
	case len(names) > 0:
		for _, o := range names[:min(maxNear, len(names))] {
			offer = append(offer, at+o.Name)
		}
		return nightcrier.Errorf(nightcrier.NotFound, "%w; there %s %s%s", missing, areIs(len(names)), strings.Join(offer, ", "), andMore(len(names)-len(offer)))
	case res.Namespace != "":
		return nightcrier.Errorf(nightcrier.NotFound, "%w; %s", missing, emptyNamespace(ctx, client, res))
	}
	return missing
}

// emptyNamespace says of a namespace without such objects whether it exists.
func emptyNamespace(ctx context.Context, client *kube.Client, res nightcrier.Resource) string {
	_, err := client.Get(ctx, nightcrier.Resource{Kind: "Namespace", Name: res.Namespace})
	if nightcrier.CodeOf(err) != nightcrier.NotFound || err == nil {
		return fmt.Sprintf("namespace %s has no %s", res.Namespace, res.Kind)
	}
	near := text.FindNear(res.Namespace, namesIn(namesOf(ctx, client, "Namespace", "", "")), 1)
	if len(near) == 0 {
		return "there is no namespace " + res.Namespace
	}
	return fmt.Sprintf("there is no namespace %s: did you mean -n %s?", res.Namespace, near[0])
}

func areIs(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// namesOf lists what there is of a kind; nothing where that may not be read.
func namesOf(ctx context.Context, client *kube.Client, kind, ns, fields string) []nightcrier.Object {
	raw, err := client.List(ctx, kind, ns, "", fields, kube.MaxItems)
	if err != nil {
		return nil
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
		}
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []nightcrier.Object
	for _, item := range list.Items {
		out = append(out, nightcrier.Object{Kind: kind, Namespace: item.Metadata.Namespace, Name: item.Metadata.Name})
	}
	return out
}

func namesIn(list []nightcrier.Object) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names
}

// newQuestion words what a person asks.
func (o Options) newQuestion(cluster string, res nightcrier.Resource) ([]byte, error) {
	why, at := "An engineer asked to have this looked at", time.Now()
	if !kinds.IsObject(res) {
		why = "An engineer asked to have all that is in it looked at"
	}
	if o.Question != "" {
		why = "An engineer asked: " + strings.TrimRight(text.FoldLine(o.Question), ".")
	}
	if o.Snapshot != nil {
		at = o.Snapshot.CapturedAt
		why += ", in a snapshot: what is now in it is " + at.Format(time.RFC3339)
	}
	return newQuestion(cluster, res, why+".", at)
}

// hintUnreadable is what to do where the target may not be read.
func (o Options) hintUnreadable() string {
	if o.Snapshot != nil {
		return "record it as well, or name another object"
	}
	return "use a kubeconfig that may read it"
}

// newQuestion makes an event that asks about an object.
func newQuestion(cluster string, res nightcrier.Resource, why string, at time.Time) ([]byte, error) {
	return json.Marshal(map[string]any{
		"cluster": cluster, "faultType": nightcrier.Asked, "severity": "error", "resource": res,
		"context": why, "timestamp": at.UTC().Format(time.RFC3339),
	})
}
