package scene

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// IsOwnController reports whether what a field manager writes follows from what others wrote.
func IsOwnController(manager string) bool {
	switch manager {
	case "kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "cloud-controller-manager", "cluster-autoscaler":
		return true
	}
	return false
}

// LastEdit is when, and with what, an object was last written by anything but the
// controllers of Kubernetes.
func LastEdit(o metav1.Object) (at time.Time, who string) {
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && m.Subresource == "" && !IsOwnController(m.Manager) && m.Time.After(at) {
			at, who = m.Time.Time, m.Manager
		}
	}
	return at, who
}

// DeliveredBy names the objects of Argo CD and Flux that an object's labels and
// annotations say it came from.
func DeliveredBy(m metav1.ObjectMeta) []nightcrier.Resource {
	var out []nightcrier.Resource
	add := func(apiVersion, kind, ns, name string) {
		res := nightcrier.Resource{APIVersion: apiVersion, Kind: kind, Namespace: ns, Name: name}
		if name != "" && ns != "" && res.Check() == nil {
			out = append(out, res)
		}
	}
	app, _, _ := strings.Cut(m.Annotations["argocd.argoproj.io/tracking-id"], ":")
	ns, name, qualified := strings.Cut(cmp.Or(app, m.Labels["argocd.argoproj.io/instance"]), "_")
	if !qualified {
		ns, name = "argocd", ns
	}
	add("argoproj.io/v1alpha1", "Application", ns, name)
	for _, flux := range []struct{ prefix, apiVersion, kind string }{
		{"kustomize.toolkit.fluxcd.io/", "kustomize.toolkit.fluxcd.io/v1", "Kustomization"},
		{"helm.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/v2", "HelmRelease"},
	} {
		add(flux.apiVersion, flux.kind, m.Labels[flux.prefix+"namespace"], m.Labels[flux.prefix+"name"])
	}
	return out
}
