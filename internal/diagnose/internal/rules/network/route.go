package network

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var routeRules = scene.Area{Name: "route", SceneRules: []scene.SceneRule{routeRefused}, Causes: routeCauses}

var routeCauses = []scene.Cause{
	{ID: "route-not-permitted", Category: "Network", Meaning: "a route refers to another namespace, which has not granted it that", Rank: scene.RankStated + 6},
	{ID: "route-refused", Category: "Network", Meaning: "a gateway does not take up a route, or cannot find what it leads to", Rank: scene.RankStated + 5},
}

// routeRefused finds routes of which a gateway says that it does not take them up, or that
// what they lead to is not there or not granted.
func routeRefused(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Others {
		u := &s.Others[i]
		if !strings.HasSuffix(u.Object.GetKind(), "Route") {
			continue
		}
		if t, bad := scene.StatusTrouble(&u.Object); bad && !t.Waits {
			out = append(out, refusedRoute(s, u, t))
		}
	}
	return out
}

func refusedRoute(s *scene.Scene, u *scene.Read[unstructured.Unstructured], t scene.Trouble) scene.Finding {
	o := scene.OtherObject(&u.Object)
	services := backendsOf(&u.Object)
	n := scene.Finding{
		Cause: "route-refused", Object: o, Confidence: nightcrier.High, Why: t.Message, Affected: services,
		Summary:  fmt.Sprintf("%s says %s: %s", o, text.CutMiddle(t.Says, scene.MaxQuote), text.CutMiddle(t.Message, scene.MaxQuote)),
		Observed: []scene.Observation{{Text: o.String() + " says " + t.Says, Quote: t.Message, Ref: u.Ref}},
		WrongIf:  "its gateway has not looked again since it was mended",
		Test:     scene.DescribeTest(o).DecidesBetween("its status still says so", "its status says that it is taken up"),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Mend in %s what its gateway complains of (%s)", o, text.CutMiddle(t.Message, scene.MaxQuote/2)), Do: scene.DoLook, Outcome: "the gateway takes the route up by itself", Risk: "requests take another way at once"},
		},
	}
	if !strings.Contains(t.Says, "RefNotPermitted") {
		return n
	}
	for _, svc := range services {
		if svc.Namespace != o.Namespace {
			return grantLacking(s, n, u.Object.GetKind(), svc)
		}
	}
	return n
}

// grantLacking names who must grant what. Grants that already say so speak against it.
func grantLacking(s *scene.Scene, n scene.Finding, kind string, svc nightcrier.Object) scene.Finding {
	from := n.Object.Namespace
	n.Cause = "route-not-permitted"
	told := strings.TrimSuffix(n.Summary, ".") + fmt.Sprintf("; it leads to %s, and ", svc)
	n.Summary = told + fmt.Sprintf("no ReferenceGrant of namespace %s lets namespace %s refer to it.", svc.Namespace, from)
	step := scene.Step{
		Action:  fmt.Sprintf("Create a ReferenceGrant in namespace %s that lets %s of namespace %s refer to Service %s", svc.Namespace, kind, from, svc.Name),
		Outcome: "the gateway takes the route up by itself", Risk: "every " + kind + " of that namespace may lead there",
	}
	for i := range s.Others {
		g := &s.Others[i]
		if g.Object.GetKind() != "ReferenceGrant" || g.Object.GetNamespace() != svc.Namespace {
			continue
		}
		namespaces := grantedNamespaces(&g.Object, kind)
		if len(namespaces) == 0 {
			continue
		}
		grant := scene.OtherObject(&g.Object)
		seen := scene.Observation{Text: fmt.Sprintf("%s lets %s of namespace %s refer to what is in %s", grant, kind, strings.Join(namespaces, ", "), svc.Namespace), Quote: namespaces[0], Ref: g.Ref}
		n.Observed = append(n.Observed, seen)
		if slices.Contains(namespaces, from) { // it is granted; perhaps it was only just
			n.Confidence, n.Summary = nightcrier.Medium, told+grant.String()+" lets it."
			return n
		}
		n.Summary = told + fmt.Sprintf("%s allows namespace %s and not %s.", grant, strings.Join(namespaces, ", "), from)
		step.Action = fmt.Sprintf("Add namespace %s to spec.from of %s, which allows only %s", from, grant, strings.Join(namespaces, ", "))
		step.On = grant
	}
	n.Actions = append([]scene.Step{step}, n.Actions...)
	return n
}

// backendsOf are the Services that a route leads to.
func backendsOf(u *unstructured.Unstructured) (out []nightcrier.Object) {
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		refs, _ := rule["backendRefs"].([]any)
		for _, b := range refs {
			ref, _ := b.(map[string]any)
			name, _ := ref["name"].(string)
			kind, _ := ref["kind"].(string)
			o := nightcrier.Object{Kind: "Service", Namespace: u.GetNamespace(), Name: name}
			if ns, _ := ref["namespace"].(string); ns != "" {
				o.Namespace = ns
			}
			if name != "" && (kind == "" || kind == "Service") && !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

// grantedNamespaces are those from which a grant lets a kind of route refer to its own.
func grantedNamespaces(u *unstructured.Unstructured, kind string) (out []string) {
	from, _, _ := unstructured.NestedSlice(u.Object, "spec", "from")
	for _, f := range from {
		m, _ := f.(map[string]any)
		if m["kind"] != kind {
			continue
		}
		if ns, _ := m["namespace"].(string); ns != "" {
			out = append(out, text.CutMiddle(ns, scene.MaxQuote))
		}
	}
	return out
}
