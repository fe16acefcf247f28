package scene

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of the timeline.
const (
	MaxReleases = 3 // revisions told of one Helm release
)

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

// OwnControllers are the managers whose writes follow from others'.
var OwnControllers = map[string]bool{
	"kube-controller-manager": true, "kube-scheduler": true, "kubelet": true, "kube-apiserver": true,
	"cloud-controller-manager": true, "cluster-autoscaler": true,
}
