package network

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// isCiliumPolicy reports whether an object is a policy of Cilium, which speaks of what a Pod
// may connect to in words of its own.
func isCiliumPolicy(u scene.Read[unstructured.Unstructured]) bool {
	return u.Object.GetKind() == "CiliumNetworkPolicy" || u.Object.GetKind() == "CiliumClusterwideNetworkPolicy"
}

// ciliumDenies is the policy of Cilium because of which a party may not ask its DNS server,
// nil where one allows it, or where that is not certain.
func ciliumDenies(s *scene.Scene, from party, to resolver) *scene.Read[unstructured.Unstructured] {
	var by *scene.Read[unstructured.Unstructured]
	for i := range s.Others {
		u := &s.Others[i]
		if !isCiliumPolicy(*u) || u.Object.GetNamespace() != "" && u.Object.GetNamespace() != from.namespace {
			continue
		}
		specs, _, _ := unstructured.NestedSlice(u.Object.Object, "specs")
		if spec, found, _ := unstructured.NestedMap(u.Object.Object, "spec"); found {
			specs = append(specs, spec)
		}
		for _, spec := range specs {
			spec, _ := spec.(map[string]any)
			selector, _ := spec["endpointSelector"].(map[string]any)
			rules, ruled := spec["egress"].([]any)
			if !ruled || selector == nil || selector["matchExpressions"] != nil || !ciliumSelects(selector, from) {
				continue
			}
			if slices.ContainsFunc(rules, func(r any) bool { return ciliumAllows(r, u.Object.GetNamespace(), to) }) {
				return nil
			}
			by = u
		}
	}
	return by
}

// ciliumSelects reports whether a selector may select a party: expressions are not judged.
func ciliumSelects(selector map[string]any, who party) bool {
	for key, want := range plainLabels(selector) {
		have := who.labels[key]
		if label, ofNamespace := strings.CutPrefix(key, "io.cilium.k8s.namespace.labels."); ofNamespace {
			if have = want; label == corev1.LabelMetadataName {
				have = who.namespace
			}
		} else if key == "io.kubernetes.pod.namespace" {
			have = who.namespace
		}
		if have != want {
			return false
		}
	}
	return true
}

// plainLabels are the labels that a selector of Cilium asks for, without where they come from.
func plainLabels(selector map[string]any) map[string]string {
	labels, _ := selector["matchLabels"].(map[string]any)
	out := map[string]string{}
	for key, v := range labels {
		value, _ := v.(string)
		key = strings.TrimPrefix(strings.TrimPrefix(key, "k8s:"), "any:")
		out[key] = value
	}
	return out
}

// entitiesOf are the words for peers that hold for an address on the node, and for Pods.
var entitiesOf = map[bool][]string{true: {"all", "host", "cluster", "world"}, false: {"all", "cluster"}}

// ciliumAllows reports whether an egress rule may let DNS through. What is not known is
// allowed.
func ciliumAllows(rule any, ns string, to resolver) bool {
	r, _ := rule.(map[string]any)
	if !ciliumPort(r["toPorts"]) {
		return false
	}
	named := false
	for field, peers := range r {
		list, _ := peers.([]any)
		if field == "toPorts" || !strings.HasPrefix(field, "to") {
			continue
		}
		named = true
		switch field {
		case "toEndpoints":
			if !to.address && slices.ContainsFunc(list, func(p any) bool { sel, _ := p.(map[string]any); return ciliumPeer(sel, ns, to.party) }) {
				return true
			}
		case "toEntities":
			if slices.ContainsFunc(list, func(p any) bool { word, _ := p.(string); return slices.Contains(entitiesOf[to.address], word) }) {
				return true
			}
		case "toFQDNs": // names do not lead to a DNS server
		default:
			return true
		}
	}
	return !named
}

// ciliumPeer reports whether a selector may be for a party; without a namespace it is for that
// of the policy.
func ciliumPeer(sel map[string]any, ns string, who party) bool {
	ofNamespace := sel["matchExpressions"] != nil || ns == "" || ns == who.namespace
	for key := range plainLabels(sel) {
		ofNamespace = ofNamespace || strings.Contains(key, "namespace")
	}
	return ofNamespace && ciliumSelects(sel, who)
}

// ciliumPort reports whether a rule's ports have that of DNS, or it names none.
func ciliumPort(v any) bool {
	list, _ := v.([]any)
	for _, group := range list {
		group, _ := group.(map[string]any)
		ports, _ := group["ports"].([]any)
		if len(ports) == 0 {
			return true
		}
		for _, p := range ports {
			p, _ := p.(map[string]any)
			port, _ := p["port"].(string)
			by, _ := p["protocol"].(string)
			if (port == "53" || port == "0" || port == "dns" || p["endPort"] != nil) && by != "TCP" {
				return true
			}
		}
	}
	return len(list) == 0
}

func ciliumFinding(p *scene.Read[unstructured.Unstructured], summary string) scene.Finding {
	o := scene.OtherObject(&p.Object)
	return scene.Finding{
		Cause: "network-policy-denies", Object: o, Confidence: nightcrier.Medium, Summary: o.String() + " " + summary,
		Observed: []scene.Observation{{Text: o.String() + " " + summary, Quote: o.Name, Ref: p.Ref}},
		WrongIf:  "another policy that was not read allows it",
		Test:     scene.GetTest(o.Namespace, strings.ToLower(o.Kind), o.Name).DecidesBetween("no egress rule covers the DNS server that is asked", "a rule covers it"),
		Actions:  []scene.Step{{Action: "Allow the connection by an egress rule in " + o.String(), Do: scene.DoEdit, Outcome: "names resolve within seconds", Risk: "opens what the rule names"}},
	}
}
