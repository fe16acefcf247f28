package kube

import (
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/typo"
)

// shortNames are the abbreviations that kubectl knows of builtin kinds.
var shortNames = map[string]string{
	"po": "Pod", "no": "Node", "ns": "Namespace", "svc": "Service", "cm": "ConfigMap", "sa": "ServiceAccount", "pv": "PersistentVolume",
	"pvc": "PersistentVolumeClaim", "deploy": "Deployment", "rs": "ReplicaSet", "sts": "StatefulSet", "ds": "DaemonSet",
	"cj": "CronJob", "hpa": "HorizontalPodAutoscaler", "pdb": "PodDisruptionBudget", "ing": "Ingress", "netpol": "NetworkPolicy",
	"ev": "Event", "ep": "Endpoints", "quota": "ResourceQuota", "limits": "LimitRange", "rc": "ReplicationController", "sc": "StorageClass",
}

// KindOf returns the kind that a person means by word: a kind, its plural or its
// short name in any case, or one of them with its group as kubectl prints it, such as
// deployment.apps. A word that is none of a builtin kind's is returned as it is.
func KindOf(word string) (kind string, clusterWide bool) {
	name, group, _ := strings.Cut(strings.ToLower(word), ".")
	for kind, info := range builtinKinds {
		if name != strings.ToLower(kind) && name != info.plural && shortNames[name] != kind {
			continue
		}
		if group == "" || group == info.group || group == info.version+"."+info.group {
			return kind, info.clusterWide
		}
	}
	return word, false
}

// NearestKind returns what a mistyped kind may mean, in the words of a command such as
// deployment; "" when it is like none.
func NearestKind(word string) string {
	kinds := map[string]string{}
	for kind, info := range builtinKinds {
		kinds[strings.ToLower(kind)], kinds[info.plural] = kind, kind
	}
	near := typo.Nearest(strings.ToLower(word), slices.Sorted(maps.Keys(kinds)))
	return strings.ToLower(kinds[near])
}

// ResourceOf returns what permissions call a builtin kind; false for any other.
func ResourceOf(kind string) (Resource, bool) {
	info, ok := builtinKinds[kind]
	return Resource{info.group, info.plural, info.clusterWide}, ok
}

// APIVersionOf returns the apiVersion of a builtin kind, "" for any other.
func APIVersionOf(kind string) string {
	if info, ok := builtinKinds[kind]; ok {
		return info.apiVersion()
	}
	return ""
}
