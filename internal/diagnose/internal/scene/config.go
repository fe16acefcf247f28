package scene

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ConfigSource is a ConfigMap or Secret that a Pod takes something from.
type ConfigSource struct {
	Kind, Name, Key string // key is "" for all of it
	By              string // "env DB_URL of container app", "volume conf"
	Ref             Ref
}

// ConfigSourcesOf are the ConfigMaps and Secrets that a Pod cannot start without.
func ConfigSourcesOf(p *Read[corev1.Pod]) []ConfigSource {
	var out []ConfigSource
	add := func(kind, name, key, by string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			out = append(out, ConfigSource{kind, name, key, by, p.Ref})
		}
	}
	for _, c := range slices.Concat(p.Object.Spec.InitContainers, p.Object.Spec.Containers) {
		in := " of container " + c.Name
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				add("ConfigMap", r.Name, r.Key, "env "+e.Name+in, r.Optional)
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				add("Secret", r.Name, r.Key, "env "+e.Name+in, r.Optional)
			}
		}
		for _, e := range c.EnvFrom {
			if r := e.ConfigMapRef; r != nil {
				add("ConfigMap", r.Name, "", "envFrom"+in, r.Optional)
			}
			if r := e.SecretRef; r != nil {
				add("Secret", r.Name, "", "envFrom"+in, r.Optional)
			}
		}
	}
	for _, v := range p.Object.Spec.Volumes {
		addVolume(v, add)
	}
	return out
}

func addVolume(v corev1.Volume, add func(kind, name, key, by string, optional *bool)) {
	by := "volume " + v.Name
	items := func(kind, name string, keys []corev1.KeyToPath, optional *bool) {
		add(kind, name, "", by, optional)
		for _, k := range keys {
			add(kind, name, k.Key, by, optional)
		}
	}
	if v.ConfigMap != nil {
		items("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	}
	if v.Secret != nil {
		items("Secret", v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	}
	if v.Projected == nil {
		return
	}
	for _, s := range v.Projected.Sources {
		if s.ConfigMap != nil && s.ConfigMap.Name != "kube-root-ca.crt" {
			items("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
		}
		if s.Secret != nil {
			items("Secret", s.Secret.Name, s.Secret.Items, s.Secret.Optional)
		}
	}
}

// NamesOfConfig notes every ConfigMap and Secret that a Pod reads.
func NamesOfConfig(spec corev1.PodSpec, note func(kind, name string)) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil {
				note("ConfigMap", e.ConfigMapRef.Name)
			}
			if e.SecretRef != nil {
				note("Secret", e.SecretRef.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				note("ConfigMap", e.ValueFrom.ConfigMapKeyRef.Name)
			}
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				note("Secret", e.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil {
			note("ConfigMap", v.ConfigMap.Name)
		}
		if v.Secret != nil {
			note("Secret", v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, src := range v.Projected.Sources {
			if src.ConfigMap != nil {
				note("ConfigMap", src.ConfigMap.Name)
			}
			if src.Secret != nil {
				note("Secret", src.Secret.Name)
			}
		}
	}
}

// PodsUsingClaim are those that use a claim and have not ended.
func (s *Scene) PodsUsingClaim(ns, claim string) []*Read[corev1.Pod] {
	var out []*Read[corev1.Pod]
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Object.Namespace == ns && !IsFinished(&p.Object) && MountsClaim(&p.Object.Spec, claim) {
			out = append(out, p)
		}
	}
	return out
}

// MountsClaim reports whether Pods of this spec use the claim.
func MountsClaim(spec *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// missingWords tell what is missing from what a kubelet says.
var missingWords = []struct {
	what  string
	words *Pattern
}{
	{"key", NewPattern(`couldn't find key|references non-existent (config|secret) key`)},
	{"ConfigMap", NewPattern(`(?i)configmaps? "[^"]{1,253}" not found|configmap .{1,253} not registered`)},
	{"Secret", NewPattern(`(?i)secrets? "[^"]{1,253}" not found|secret .{1,253} not registered`)},
	{"ServiceAccount", NewPattern(`(?i)serviceaccounts? "[^"]{1,253}" not found|failed to fetch token.{0,200}not found`)},
}

// WhatIsMissing is what a kubelet says that a Pod names and does not get: a key, a
// ConfigMap, a Secret or a ServiceAccount; "" where it speaks of none.
func WhatIsMissing(message string) string {
	for _, w := range missingWords {
		if w.words.MatchString(message) {
			return w.what
		}
	}
	return ""
}
