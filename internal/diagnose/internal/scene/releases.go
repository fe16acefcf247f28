package scene

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MaxReleases is how many revisions of one Helm release are told.
const MaxReleases = 3

// helmSecret begins the names of the Secrets that Helm keeps its releases in.
const helmSecret = "sh.helm.release.v1."

// HelmSecrets are the Secrets that Helm keeps releases in, the newest first.
func (s *Scene) HelmSecrets(ns string) (out []Read[corev1.Secret]) {
	for _, sec := range s.Secrets {
		if m := sec.Object.ObjectMeta; m.Namespace == ns && m.Labels["owner"] == "helm" && strings.HasPrefix(m.Name, helmSecret) {
			out = append(out, sec)
		}
	}
	slices.SortFunc(out, func(a, b Read[corev1.Secret]) int {
		return b.Object.CreationTimestamp.Compare(a.Object.CreationTimestamp.Time)
	})
	return out
}

// IsOwnController reports whether what a field manager writes follows from what others wrote.
func IsOwnController(manager string) bool {
	switch manager {
	case "kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "cloud-controller-manager", "cluster-autoscaler":
		return true
	}
	return false
}
