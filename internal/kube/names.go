package kube

import "strings"

// shortNames are the abbreviations that kubectl knows of builtin kinds.
var shortNames = map[string]string{
	"po": "Pod", "no": "Node", "ns": "Namespace", "svc": "Service", "cm": "ConfigMap", "sa": "ServiceAccount", "pv": "PersistentVolume",
	"pvc": "PersistentVolumeClaim", "deploy": "Deployment", "rs": "ReplicaSet", "sts": "StatefulSet", "ds": "DaemonSet",
	"cj": "CronJob", "hpa": "HorizontalPodAutoscaler", "pdb": "PodDisruptionBudget", "ing": "Ingress", "netpol": "NetworkPolicy",
	"ev": "Event", "ep": "Endpoints", "quota": "ResourceQuota", "limits": "LimitRange", "rc": "ReplicationController", "sc": "StorageClass",
}

// KindOf returns the kind that a person means by word: a kind, its plural or its
// short name in any case. A word that is none of a builtin kind's is returned as
// it is.
func KindOf(word string) (kind string, clusterWide bool) {
	lower := strings.ToLower(word)
	if kind := shortNames[lower]; kind != "" {
		return kind, builtinKinds[kind].clusterWide
	}
	for kind, info := range builtinKinds {
		if lower == strings.ToLower(kind) || lower == info.plural {
			return kind, info.clusterWide
		}
	}
	return word, false
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
