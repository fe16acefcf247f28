package kube

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// kindCache remembers kinds that had to be asked for. The zero value is ready.
type kindCache struct {
	mu    sync.Mutex
	known map[string]kinds.Kind // by apiVersion + " " + kind
	// served are all that the cluster has, nil until somebody asks by a bare name.
	served []kinds.Kind
}

// findKind finds where objects of res's kind are. A kind that is not built in is
// looked up with one read.
func (c *Client) findKind(ctx context.Context, apiVersion, kind string) (kinds.Kind, error) {
	group, version := splitAPIVersion(apiVersion)
	if k, ok := kinds.Named(kind); ok && k.Use == kinds.Read && (apiVersion == "" || k.Group == group) {
		return k, nil
	}
	if version == "" {
		return c.ServedKind(ctx, kind)
	}
	key := apiVersion + " " + kind
	c.kinds.mu.Lock()
	k, ok := c.kinds.known[key]
	c.kinds.mu.Unlock()
	if ok {
		return k, nil
	}
	k, err := c.discoverKind(ctx, group, version, kind)
	if err != nil {
		return kinds.Kind{}, err
	}
	c.kinds.mu.Lock()
	defer c.kinds.mu.Unlock()
	if c.kinds.known == nil {
		c.kinds.known = make(map[string]kinds.Kind)
	}
	c.kinds.known[key] = k
	return k, nil
}

func unknownKind(kind string) error {
	if near := kinds.Nearest(kind); near != "" {
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

// discoverKind asks the API server for the resource name of a kind.
func (c *Client) discoverKind(ctx context.Context, group, version, kind string) (kinds.Kind, error) {
	k := kinds.Kind{Group: group, Version: version, Name: kind}
	body, err := c.fetchBody(ctx, request{
		what: "discover " + k.APIVersion(), path: strings.TrimSuffix(k.Path(""), "/"), accept: acceptJSON, limit: maxBody,
	})
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return kinds.Kind{}, c.unservedKind(k)
	}
	if err != nil {
		return kinds.Kind{}, err
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return kinds.Kind{}, nightcrier.Errorf(nightcrier.Unreachable, "discover %s: answer of %s is not JSON: %w", k.APIVersion(), c.base.Host, err)
	}
	for _, r := range list.Resources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			k.Plural, k.ClusterWide = r.Name, !r.Namespaced
			return k, nil
		}
	}
	return kinds.Kind{}, c.unservedKind(k)
}

// unservedKind says that the cluster has no such kind, which is not that an object is gone.
func (c *Client) unservedKind(k kinds.Kind) error {
	return nightcrier.Errorf(nightcrier.NotFound, "%w: %s has no kind %q in %s", errNotServed, c.base.Host, k.Name, k.APIVersion())
}
