package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var namingRules = scene.Area{Name: "naming", SceneRules: []scene.SceneRule{namedPartMissing}, Causes: namingCauses}

var namingCauses = []scene.Cause{
	{ID: "named-part-missing", Category: "Network", Meaning: "an object names a port or another part of an object that this does not have", Rank: scene.RankStated + 4},
}

// naming is a place where one object names a part of another: a port of a Service, a subset
// of a DestinationRule.
type naming struct {
	from    nightcrier.Object
	fromRef scene.Ref
	written time.Time // when from was last written
	field   string    // where in from it stands
	what    string    // "port", "subset"
	name    string
	// to are the objects that may have it; one is enough.
	to []provider
	// partly is set where from names others that are there, so that this may be left over.
	partly bool
	// follows is what does not work without it, to be told.
	follows string
}

// provider is an object with parts that others name.
type provider struct {
	object nightcrier.Object
	ref    scene.Ref
	meta   metav1.Object
	has    []string
	behind []nightcrier.Object
}

// namedPartMissing finds what names a part of another object that is not there.
func namedPartMissing(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for _, all := range [][]naming{monitorPorts(s), routePorts(s), meshSubsets(s), webhookPorts(s)} {
		for _, n := range all {
			if !slices.ContainsFunc(n.to, func(p provider) bool { return slices.Contains(p.has, n.name) }) {
				out = append(out, n.asFinding())
			}
		}
	}
	return out
}

func (n naming) asFinding() scene.Finding {
	to := n.to[0]
	name, has := text.CutMiddle(n.name, scene.MaxQuote), text.CutLine(strings.Join(to.has, ", "), scene.MaxQuote)
	if has == "" {
		has = "none"
	}
	f := scene.Finding{
		Cause: "named-part-missing", Object: n.from, Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s names %s %s of %s (%s), which has only: %s", n.from, n.what, name, to.object, n.field, has),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("%s names %s %s in %s", n.from, n.what, name, n.field), Quote: n.name, Ref: n.fromRef},
			{Text: fmt.Sprintf("%s has the %ss %s", to.object, n.what, has), Quote: to.object.Name, Ref: to.ref},
		},
		WrongIf: "it is left over and nobody needs it, or it was corrected since",
		Test:    scene.GetTest(n.from.Namespace, strings.ToLower(n.from.Kind), n.from.Name).DecidesBetween(n.field+" is none of the "+n.what+"s of "+to.object.String(), "it is one of them"),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Set %s of %s to %s, or give %s the %s %s again", n.field, n.from, nearest(n.name, to.has), to.object, n.what, name), Do: scene.DoEdit, Outcome: "the two fit again, within seconds", Risk: "none for what fits already"},
		},
	}
	for _, p := range n.to {
		f.Affected = scene.UniteObjects(f.Affected, []nightcrier.Object{p.object})
		f.Behind = scene.UniteObjects(f.Behind, p.behind)
	}
	if at, who := scene.LastEdit(to.meta); !at.IsZero() && at.After(n.written.Add(time.Minute)) && at.Sub(to.meta.GetCreationTimestamp().Time) > time.Minute {
		f.Confidence = nightcrier.High
		f.Summary += fmt.Sprintf("; %s was changed at %s by %s, after that was written", to.object, at.UTC().Format(time.RFC3339), text.CutMiddle(who, scene.MaxQuote))
		f.Observed = append(f.Observed, scene.Observation{Text: to.object.String() + " was last written by " + text.CutMiddle(who, scene.MaxQuote), Quote: at.UTC().Format(time.RFC3339), Ref: to.ref})
	} else if n.partly {
		f.Confidence = nightcrier.Low
	}
	f.Summary += "; " + n.follows + "."
	return f
}

// nearest is the name of a list that is most like another.
func nearest(name string, list []string) string {
	if len(list) == 0 {
		return "one that exists"
	}
	best := slices.MinFunc(list, func(a, b string) int { return distance(name, a) - distance(name, b) })
	return text.CutMiddle(best, scene.MaxQuote)
}

func distance(a, b string) int {
	if strings.Contains(a, b) || strings.Contains(b, a) {
		return 0
	}
	return text.CountEdits(a, b)
}

// writtenAt is when an object was last written, or else made.
func writtenAt(o metav1.Object) time.Time {
	if at, _ := scene.LastEdit(o); !at.IsZero() {
		return at
	}
	return o.GetCreationTimestamp().Time
}

// serviceProvider is a Service by the names, or the numbers, of its ports.
func serviceProvider(s *scene.Scene, svc *scene.Read[corev1.Service], of func(corev1.ServicePort) string) provider {
	p := provider{object: scene.ServiceObject(&svc.Object), ref: svc.Ref, meta: &svc.Object, behind: s.WorkloadsBehind(svc.Object.Namespace, svc.Object.Name)}
	for _, port := range svc.Object.Spec.Ports {
		if part := of(port); part != "" {
			p.has = append(p.has, part)
		}
	}
	return p
}

func nameOfPort(p corev1.ServicePort) string   { return p.Name }
func numberOfPort(p corev1.ServicePort) string { return fmt.Sprint(p.Port) }

// listAt are the maps in a list of an object.
func listAt(u map[string]any, path ...string) (out []map[string]any) {
	list, _, _ := unstructured.NestedSlice(u, path...)
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func textAt(u map[string]any, path ...string) string {
	t, _, _ := unstructured.NestedString(u, path...)
	return t
}

// numberAt is a number as text, "" for none.
func numberAt(u map[string]any, field string) string {
	switch v := u[field].(type) {
	case int64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

// monitored are the objects that a monitor selects, in its namespace or those that it names.
func monitored(u *unstructured.Unstructured, ns string, have map[string]string) bool {
	if selected := u.Object["spec"]; selected == nil {
		return false
	}
	names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "namespaceSelector", "matchNames")
	anywhere, _, _ := unstructured.NestedBool(u.Object, "spec", "namespaceSelector", "any")
	if !anywhere && !slices.Contains(names, ns) && (len(names) > 0 || ns != u.GetNamespace()) {
		return false
	}
	want, found, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
	_, expressions, _ := unstructured.NestedSlice(u.Object, "spec", "selector", "matchExpressions")
	return found && !expressions && labels.SelectorFromSet(want).Matches(labels.Set(have))
}

// monitorPorts are the ports that monitors of Prometheus's operator scrape: of Services, or of
// the containers of Pods, by name.
func monitorPorts(s *scene.Scene) (out []naming) {
	for i := range s.Others {
		u := &s.Others[i]
		var to []provider
		field := "endpoints"
		switch u.Object.GetKind() {
		case "ServiceMonitor":
			for k := range s.Services {
				if svc := &s.Services[k]; monitored(&u.Object, svc.Object.Namespace, svc.Object.Labels) {
					to = append(to, serviceProvider(s, svc, nameOfPort))
				}
			}
		case "PodMonitor":
			field, to = "podMetricsEndpoints", monitoredPods(s, &u.Object)
		}
		if len(to) == 0 {
			continue
		}
		out = append(out, endpointNames(u, field, to)...)
	}
	return out
}

func endpointNames(u *scene.Read[unstructured.Unstructured], field string, to []provider) (out []naming) {
	endpoints := listAt(u.Object.Object, "spec", field)
	there := func(e map[string]any) bool {
		port := textAt(e, "port")
		return port == "" || slices.ContainsFunc(to, func(p provider) bool { return slices.Contains(p.has, port) })
	}
	for i, e := range endpoints {
		if port := textAt(e, "port"); port != "" {
			out = append(out, naming{
				from: scene.OtherObject(&u.Object), fromRef: u.Ref, written: writtenAt(&u.Object), field: fmt.Sprintf("spec.%s[%d].port", field, i), what: "port", name: port,
				to: to, partly: slices.ContainsFunc(endpoints, there), follows: "nothing is scraped there, so that metrics and the alerts on them are absent",
			})
		}
	}
	return out
}

// monitoredPods are the workloads whose Pods a monitor selects, by the names of their ports.
func monitoredPods(s *scene.Scene, u *unstructured.Unstructured) (to []provider) {
	for i := range s.Pods {
		p := &s.Pods[i]
		if scene.IsFinished(&p.Object) || !monitored(u, p.Object.Namespace, p.Object.Labels) {
			continue
		}
		o := s.WorkloadAbove("Pod", &p.Object)
		if slices.ContainsFunc(to, func(t provider) bool { return t.object == o }) {
			continue
		}
		made := provider{object: o, ref: p.Ref, meta: &p.Object, behind: []nightcrier.Object{o}}
		for _, port := range declaredPorts(&p.Object.Spec) {
			if port.Name != "" {
				made.has = append(made.has, port.Name)
			}
		}
		to = append(to, made)
	}
	return to
}

// routePorts are the ports of Services that routes of a Gateway lead to, by number.
func routePorts(s *scene.Scene) (out []naming) {
	for i := range s.Others {
		u := &s.Others[i]
		if kind := u.Object.GetKind(); !strings.HasSuffix(kind, "Route") || !strings.HasPrefix(u.Object.GetAPIVersion(), "gateway.networking.k8s.io/") && kind != "HTTPRoute" {
			continue
		}
		for r, rule := range listAt(u.Object.Object, "spec", "rules") {
			for b, backend := range listAt(rule, "backendRefs") {
				ns := textAt(backend, "namespace")
				if ns == "" {
					ns = u.Object.GetNamespace()
				}
				svc := scene.FindObject(s.Services, ns, textAt(backend, "name"))
				port := numberAt(backend, "port")
				if kind := textAt(backend, "kind"); svc == nil || port == "" || kind != "" && kind != "Service" || svc.Object.Spec.Type == corev1.ServiceTypeExternalName {
					continue
				}
				out = append(out, naming{
					from: scene.OtherObject(&u.Object), fromRef: u.Ref, written: writtenAt(&u.Object), field: fmt.Sprintf("spec.rules[%d].backendRefs[%d].port", r, b), what: "port", name: port,
					to: []provider{serviceProvider(s, svc, numberOfPort)}, follows: "requests that it matches are answered with an error",
				})
			}
		}
	}
	return out
}

// meshSubsets are the subsets that VirtualServices send requests to.
func meshSubsets(s *scene.Scene) (out []naming) {
	rules := destinationRules(s)
	for i := range s.Others {
		u := &s.Others[i]
		if u.Object.GetKind() != "VirtualService" {
			continue
		}
		for _, by := range []string{"http", "tcp", "tls"} {
			for r, rule := range listAt(u.Object.Object, "spec", by) {
				for d, route := range listAt(rule, "route") {
					subset, host := textAt(route, "destination", "subset"), textAt(route, "destination", "host")
					svc := hostedService(s, host, u.Object.GetNamespace())
					weight, weighed := route["weight"]
					if subset == "" || svc == nil || len(rules[scene.ServiceObject(&svc.Object)]) == 0 || weighed && fmt.Sprint(weight) == "0" {
						continue
					}
					out = append(out, naming{
						from: scene.OtherObject(&u.Object), fromRef: u.Ref, written: writtenAt(&u.Object), field: fmt.Sprintf("spec.%s[%d].route[%d].destination.subset", by, r, d), what: "subset", name: subset,
						to: rules[scene.ServiceObject(&svc.Object)], follows: "requests that are sent there are answered with 503",
					})
				}
			}
		}
	}
	return out
}

// destinationRules are the DestinationRules of each Service, by the names of their subsets.
func destinationRules(s *scene.Scene) map[nightcrier.Object][]provider {
	rules := map[nightcrier.Object][]provider{}
	for i := range s.Others {
		u := &s.Others[i]
		svc := hostedService(s, textAt(u.Object.Object, "spec", "host"), u.Object.GetNamespace())
		if u.Object.GetKind() != "DestinationRule" || svc == nil {
			continue
		}
		o := scene.ServiceObject(&svc.Object)
		p := provider{object: scene.OtherObject(&u.Object), ref: u.Ref, meta: &u.Object, behind: s.WorkloadsBehind(o.Namespace, o.Name)}
		for _, subset := range listAt(u.Object.Object, "spec", "subsets") {
			p.has = append(p.has, textAt(subset, "name"))
		}
		rules[o] = append(rules[o], p)
	}
	return rules
}

// hostedService is the Service that a host of a mesh names, nil for any other.
func hostedService(s *scene.Scene, host, ns string) *scene.Read[corev1.Service] {
	name, rest, _ := strings.Cut(host, ".")
	if rest != "" {
		ns, _, _ = strings.Cut(rest, ".")
	}
	return scene.FindObject(s.Services, ns, name)
}

// webhookPorts are the ports of Services on which the API server calls webhooks.
func webhookPorts(s *scene.Scene) (out []naming) {
	for w := range s.AllWebhooks() {
		if w.Service == nil {
			continue
		}
		svc := scene.FindObject(s.Services, w.Service.Namespace, w.Service.Name)
		if svc == nil || svc.Object.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		port := int32(443)
		if w.Service.Port != nil {
			port = *w.Service.Port
		}
		out = append(out, naming{
			from: w.Object, fromRef: w.Ref, field: "clientConfig.service.port of webhook " + text.CutMiddle(w.Name, scene.MaxQuote), what: "port", name: fmt.Sprint(port),
			to: []provider{serviceProvider(s, svc, numberOfPort)}, follows: "the API server cannot call it, and refuses what it must be asked about",
		})
	}
	return out
}
