package kube

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// acceptGroups asks for all groups, versions and kinds in one answer.
const acceptGroups = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// ServedKind finds a kind that the cluster serves by what a person calls it: its name in
// any case, its plural or its short name, alone or with its group behind it. The first read
// asks for all kinds; they are remembered.
func (c *Client) ServedKind(ctx context.Context, word string) (kinds.Kind, error) {
	if k, known := kinds.Meant(word); known {
		return k, nil
	}
	c.kinds.mu.Lock()
	served := c.kinds.served
	c.kinds.mu.Unlock()
	if served == nil {
		var err error
		if served, err = c.listServed(ctx); err != nil {
			return kinds.Kind{}, err
		}
		c.kinds.mu.Lock()
		c.kinds.served = served
		c.kinds.mu.Unlock()
	}
	name, group, _ := strings.Cut(strings.ToLower(word), ".")
	for _, k := range served {
		called := name == strings.ToLower(k.Name) || name == k.Plural || slices.Contains(k.Shorts(), name)
		if called && (group == "" || group == k.Group || group == k.Version+"."+k.Group) {
			return k, nil
		}
	}
	return kinds.Kind{}, unknownKind(word)
}

// listServed asks which kinds there are, each in the version that the cluster prefers.
func (c *Client) listServed(ctx context.Context) ([]kinds.Kind, error) {
	body, err := c.fetchBody(ctx, request{what: "discover the kinds that are served", path: "/apis", accept: acceptGroups, limit: maxBody})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []struct {
					Resource, Scope string
					ResponseKind    struct{ Kind string }
					ShortNames      []string
				}
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "discover the kinds that are served: answer of %s is not JSON: %w", c.base.Host, err)
	}
	served := []kinds.Kind{}
	for _, g := range answer.Items {
		has := map[string]bool{}
		for _, v := range g.Versions { // the preferred one first
			for _, r := range v.Resources {
				if !has[r.ResponseKind.Kind] {
					served = append(served, kinds.Kind{
						Group: g.Metadata.Name, Version: v.Version, Name: r.ResponseKind.Kind, Plural: r.Resource,
						Short: strings.Join(r.ShortNames, " "), ClusterWide: r.Scope == "Cluster",
					})
				}
				has[r.ResponseKind.Kind] = true
			}
		}
	}
	return served, nil
}
