package network

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var ingressRules = scene.Area{Name: "ingress", SceneRules: []scene.SceneRule{ingressBackends, ingressClassMissing, ingressSecretMissing}, Causes: ingressCauses}

var ingressCauses = []scene.Cause{
	{ID: "ingress-backend-missing", Category: "Network", Meaning: "an Ingress leads to a Service that does not exist", Rank: scene.RankStated + 4},
	{ID: "ingress-backend-port", Category: "Network", Meaning: "an Ingress leads to a port that its Service does not have", Rank: scene.RankStated + 4},
	{ID: "ingress-class-missing", Category: "Network", Meaning: "an Ingress names an IngressClass that does not exist, so that no controller serves it", Rank: scene.RankStated + 4},
	{ID: "ingress-tls-secret-missing", Category: "Network", Meaning: "an Ingress names a Secret with its certificate that does not exist", Rank: scene.RankShown},
}

// route is one backend of an Ingress, and the host and path that lead to it.
type route struct {
	from    string
	backend *networkingv1.IngressServiceBackend
}

// routesOf are the backends of an Ingress that are Services. The controller for
// Amazon's load balancers takes the name of an annotation in place of a Service.
func routesOf(ing *networkingv1.Ingress) []route {
	var out []route
	add := func(from string, b *networkingv1.IngressServiceBackend) {
		if b != nil && b.Port.Name != "use-annotation" {
			out = append(out, route{from, b})
		}
	}
	if d := ing.Spec.DefaultBackend; d != nil {
		add("its default backend", d.Service)
	}
	for _, r := range ing.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for _, p := range r.HTTP.Paths {
			add(strings.TrimSpace(r.Host+" "+p.Path), p.Backend.Service)
		}
	}
	return out
}

func ingressObject(ing *networkingv1.Ingress) nightcrier.Object {
	return nightcrier.Object{Kind: "Ingress", Namespace: ing.Namespace, Name: ing.Name}
}

// ingressFinding is what findings about an Ingress have in common.
func ingressFinding(ing *scene.Read[networkingv1.Ingress], cause, summary, quote, ifTrue string) scene.Finding {
	o := ingressObject(&ing.Object)
	return scene.Finding{
		Cause: cause, Object: o, Confidence: nightcrier.High, Summary: o.String() + " " + summary,
		Observed: []scene.Observation{{Text: o.String() + " " + summary, Quote: quote, Ref: ing.Ref}},
		WrongIf:  "what it names was created since, or its controller does not need it",
		Test:     scene.GetTest(o.Namespace, "ingress", o.Name).DecidesBetween(ifTrue, "it names what exists"),
		Actions: []scene.Step{
			{Action: "Correct the name in " + o.String() + ", or create what it names", Do: scene.DoEdit, Outcome: "the controller serves it within seconds", Risk: "requests reach what it then names"},
		},
	}
}

// ingressBackends finds routes to Services, or to ports of them, that are not
// there.
func ingressBackends(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Ingresses {
		ing := &s.Ingresses[i]
		if ing.Object.DeletionTimestamp != nil {
			continue
		}
		for _, r := range routesOf(&ing.Object) {
			svc := scene.FindObject(s.Services, ing.Object.Namespace, r.backend.Name)
			from := text.CutMiddle(r.from, scene.MaxQuote)
			switch {
			case svc == nil && s.Complete("Service", ing.Object.Namespace):
				n := ingressFinding(ing, "ingress-backend-missing",
					fmt.Sprintf("leads %s to Service %s, which does not exist.", from, text.CutMiddle(r.backend.Name, scene.MaxQuote)), r.backend.Name, "a backend names a Service that is not there")
				n.DependsOn = []nightcrier.Object{{Kind: "Service", Namespace: ing.Object.Namespace, Name: r.backend.Name}}
				out = append(out, n)
			case svc != nil && !hasPort(&svc.Object, r.backend.Port):
				n := ingressFinding(ing, "ingress-backend-port",
					fmt.Sprintf("leads %s to port %s of Service %s, which has only %s.", from, portName(r.backend.Port), r.backend.Name, scene.DescribePorts(&svc.Object)), portName(r.backend.Port), "a backend names a port that its Service does not have")
				n.Observed = append(n.Observed, scene.Observation{Text: scene.ServiceObject(&svc.Object).String() + " has the ports " + scene.DescribePorts(&svc.Object), Quote: r.backend.Name, Ref: svc.Ref})
				out = append(out, n)
			}
		}
	}
	return out
}

// hasPort reports whether a Service has a port. One that only names a host
// outside may have none and serve all.
func hasPort(svc *corev1.Service, p networkingv1.ServiceBackendPort) bool {
	if svc.Spec.Type == corev1.ServiceTypeExternalName && len(svc.Spec.Ports) == 0 || p == (networkingv1.ServiceBackendPort{}) {
		return true
	}
	return slices.ContainsFunc(svc.Spec.Ports, func(have corev1.ServicePort) bool {
		return p.Name != "" && have.Name == p.Name || p.Name == "" && have.Port == p.Number
	})
}

func portName(p networkingv1.ServiceBackendPort) string {
	if p.Name != "" {
		return text.CutMiddle(p.Name, scene.MaxQuote)
	}
	return fmt.Sprint(p.Number)
}

// ingressClassMissing finds Ingresses of a class that does not exist. One that
// has an address is served all the same.
func ingressClassMissing(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Ingresses {
		ing := &s.Ingresses[i]
		name := ing.Object.Spec.IngressClassName
		if name == nil || *name == "" || ing.Object.DeletionTimestamp != nil || len(ing.Object.Status.LoadBalancer.Ingress) > 0 ||
			!s.Complete("IngressClass", "") || scene.FindObject(s.IngressClasses, "", *name) != nil {
			continue
		}
		n := ingressFinding(ing, "ingress-class-missing", fmt.Sprintf("names IngressClass %s, which does not exist%s.", text.CutMiddle(*name, scene.MaxQuote), existingClasses(s)), *name, "ingressClassName is none of the classes that exist")
		n.Actions = append(n.Actions, scene.Step{Action: "Or install the controller whose class it is", Outcome: "somebody serves the Ingress", Risk: "a new way into the cluster"})
		out = append(out, n)
	}
	return out
}

func existingClasses(s *scene.Scene) string {
	var classes []string
	for _, c := range s.IngressClasses {
		classes = append(classes, c.Object.Name)
	}
	if len(classes) == 0 {
		return "; there is none"
	}
	return "; there is " + text.CutMiddle(strings.Join(classes, ", "), scene.MaxQuote)
}

// ingressSecretMissing finds Ingresses without their certificate. Controllers
// serve them with one of their own, which clients refuse. One that was made just
// now may still be waiting for its certificate to be issued.
func ingressSecretMissing(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Ingresses {
		ing := &s.Ingresses[i]
		ns := ing.Object.Namespace
		if ing.Object.DeletionTimestamp != nil || !s.Complete("Secret", ns) || s.Now.Sub(ing.Object.CreationTimestamp.Time) < scene.BalancerLate {
			continue
		}
		for _, tls := range ing.Object.Spec.TLS {
			if tls.SecretName == "" || scene.FindObject(s.Secrets, ns, tls.SecretName) != nil {
				continue
			}
			n := ingressFinding(ing, "ingress-tls-secret-missing", fmt.Sprintf("names Secret %s for its certificate, which does not exist.", text.CutMiddle(tls.SecretName, scene.MaxQuote)), tls.SecretName, "tls names a Secret that is not there")
			n.DependsOn = []nightcrier.Object{{Kind: "Secret", Namespace: ns, Name: tls.SecretName}}
			out = append(out, n)
		}
	}
	return out
}
