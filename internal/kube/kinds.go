package kube

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
)

// kindInfo is where the API keeps the objects of a kind.
type kindInfo struct {
	group, version, plural string
	clusterWide            bool
}

func (k kindInfo) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

// path is the collection's path in namespace ns, "" for all namespaces.
func (k kindInfo) path(ns string) string {
	p := "/apis/" + k.apiVersion()
	if k.group == "" {
		p = "/api/" + k.version
	}
	if ns != "" && !k.clusterWide {
		p += "/namespaces/" + url.PathEscape(ns)
	}
	return p + "/" + k.plural
}

// builtinKinds are the kinds that every cluster has and that a read needs no
// discovery for.
var builtinKinds = map[string]kindInfo{
	"Pod":                            {"", "v1", "pods", false},
	"Node":                           {"", "v1", "nodes", true},
	"Namespace":                      {"", "v1", "namespaces", true},
	"Event":                          {"", "v1", "events", false},
	"Service":                        {"", "v1", "services", false},
	"Endpoints":                      {"", "v1", "endpoints", false},
	"ConfigMap":                      {"", "v1", "configmaps", false},
	"Secret":                         {"", "v1", "secrets", false},
	"ServiceAccount":                 {"", "v1", "serviceaccounts", false},
	"ResourceQuota":                  {"", "v1", "resourcequotas", false},
	"LimitRange":                     {"", "v1", "limitranges", false},
	"PersistentVolume":               {"", "v1", "persistentvolumes", true},
	"PersistentVolumeClaim":          {"", "v1", "persistentvolumeclaims", false},
	"ReplicationController":          {"", "v1", "replicationcontrollers", false},
	"Deployment":                     {"apps", "v1", "deployments", false},
	"ReplicaSet":                     {"apps", "v1", "replicasets", false},
	"StatefulSet":                    {"apps", "v1", "statefulsets", false},
	"DaemonSet":                      {"apps", "v1", "daemonsets", false},
	"ControllerRevision":             {"apps", "v1", "controllerrevisions", false},
	"Job":                            {"batch", "v1", "jobs", false},
	"CronJob":                        {"batch", "v1", "cronjobs", false},
	"HorizontalPodAutoscaler":        {"autoscaling", "v2", "horizontalpodautoscalers", false},
	"PodDisruptionBudget":            {"policy", "v1", "poddisruptionbudgets", false},
	"Ingress":                        {"networking.k8s.io", "v1", "ingresses", false},
	"IngressClass":                   {"networking.k8s.io", "v1", "ingressclasses", true},
	"NetworkPolicy":                  {"networking.k8s.io", "v1", "networkpolicies", false},
	"EndpointSlice":                  {"discovery.k8s.io", "v1", "endpointslices", false},
	"StorageClass":                   {"storage.k8s.io", "v1", "storageclasses", true},
	"VolumeAttachment":               {"storage.k8s.io", "v1", "volumeattachments", true},
	"ValidatingWebhookConfiguration": {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", true},
	"MutatingWebhookConfiguration":   {"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", true},
	"APIService":                     {"apiregistration.k8s.io", "v1", "apiservices", true},
}

// kindCache remembers kinds that had to be asked for. The zero value is ready.
type kindCache struct {
	mu    sync.Mutex
	known map[string]kindInfo // by apiVersion + " " + kind
}

// kind finds where objects of res's kind are. A kind that is not built in is
// looked up with one read, which needs its apiVersion.
func (c *Client) kind(ctx context.Context, apiVersion, kind string) (kindInfo, error) {
	group, version := splitAPIVersion(apiVersion)
	if k, ok := builtinKinds[kind]; ok && (apiVersion == "" || k.group == group) {
		return k, nil
	}
	if version == "" {
		return kindInfo{}, unknownKind(kind)
	}
	key := apiVersion + " " + kind
	c.kinds.mu.Lock()
	k, ok := c.kinds.known[key]
	c.kinds.mu.Unlock()
	if ok {
		return k, nil
	}
	k, err := c.discover(ctx, group, version, kind)
	if err != nil {
		return kindInfo{}, err
	}
	c.kinds.mu.Lock()
	defer c.kinds.mu.Unlock()
	if c.kinds.known == nil {
		c.kinds.known = make(map[string]kindInfo)
	}
	c.kinds.known[key] = k
	return k, nil
}

func unknownKind(kind string) error {
	if near := NearestKind(kind); near != "" {
		return nightcrier.Errorf(nightcrier.Invalid, "kind %q is not known: did you mean %s?", kind, near)
	}
	return nightcrier.Errorf(nightcrier.Invalid, "kind %q is not known: check its spelling; a kind of your own needs its apiVersion, as an event names it", kind)
}

func splitAPIVersion(apiVersion string) (group, version string) {
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		return group, version
	}
	return "", apiVersion
}

// discover asks the API server for the resource name of a kind.
func (c *Client) discover(ctx context.Context, group, version, kind string) (kindInfo, error) {
	k := kindInfo{group: url.PathEscape(group), version: url.PathEscape(version)}
	body, err := c.do(ctx, request{
		what: "discover " + k.apiVersion(), path: strings.TrimSuffix(k.path(""), "/"), accept: acceptJSON, limit: maxBody,
	})
	if err != nil {
		return kindInfo{}, err
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return kindInfo{}, nightcrier.Errorf(nightcrier.Unreachable, "discover %s: answer of %s is not JSON: %w", k.apiVersion(), c.base.Host, err)
	}
	for _, r := range list.Resources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			k.plural, k.clusterWide = url.PathEscape(r.Name), !r.Namespaced
			return k, nil
		}
	}
	return kindInfo{}, nightcrier.Errorf(nightcrier.NotFound, "%s has no kind %q in %s", c.base.Host, kind, k.apiVersion())
}
