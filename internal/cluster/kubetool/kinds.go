package kubetool

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	discovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// acceptDiscovery asks for all groups in one answer; a server, or a guard, that
// does not offer it answers in the older form.
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

const (
	// kindsLast is how long the kinds of a cluster are remembered.
	kindsLast = 10 * time.Minute
	// kindsAgain is how soon an unknown word may have them read again.
	kindsAgain = 30 * time.Second
	maxGroups  = 500
)

// kind is a kind as the cluster tells of it.
type kind struct {
	kinds.Kind
	words []string // what it is also called
}

func (k kind) isSecret() bool { return k.Group == "" && k.Plural == "secrets" }

func (k kind) isCalled(word string) bool {
	return strings.EqualFold(k.Name, word) || strings.EqualFold(k.Plural, word) ||
		slices.ContainsFunc(k.words, func(w string) bool { return strings.EqualFold(w, word) })
}

// catalog is the kinds of a cluster, the core ones first.
type catalog struct {
	kinds []kind
	read  time.Time
}

// kindOf finds the kind that is meant by a kind, a plural, a short name, or one
// of them with its group behind a dot; group, when given, must fit.
func (r *reading) kindOf(ctx context.Context, word, group string) (kind, error) {
	if base, rest, ok := strings.Cut(word, "."); ok && group == "" {
		word, group = base, rest
	}
	group, _, _ = strings.Cut(group, "/") // an apiVersion is taken as well
	if group == "v1" || group == "core" {
		group = "core"
	}
	c, err := r.set.currentKinds(ctx, kindsLast)
	if err != nil {
		return kind{}, err
	}
	k, ok := c.findKind(word, group)
	if !ok {
		if c, err = r.set.currentKinds(ctx, kindsAgain); err != nil {
			return kind{}, err
		}
		if k, ok = c.findKind(word, group); !ok {
			return kind{}, c.unknownKindError(r.set.cfg.Cluster, word, group)
		}
	}
	return k, nil
}

func (c *catalog) findKind(word, group string) (kind, bool) {
	for _, k := range c.kinds {
		if k.isCalled(word) && (group == "" || group == k.Group || group == "core" && k.Group == "") {
			return k, true
		}
	}
	return kind{}, false
}

func (c *catalog) unknownKindError(cluster, word, group string) error {
	var words []string
	for _, k := range c.kinds {
		words = append(words, k.Name, k.Plural)
	}
	name := word
	if group != "" {
		name += "." + group
	}
	where := "the cluster"
	if cluster != "" {
		where = "cluster " + cluster
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%s has no kind %q%s; name a kind (Pod), a plural (deployments), a short name (sts), or one with its group (certificates.cert-manager.io)", where, shortLine(name, 80), text.SuggestName(" (did you mean %s?)", word, words))
}

// currentKinds returns the kinds, read again when they are older than max. Two calls
// at once may read twice; nobody waits for a read of somebody else's.
func (s *Set) currentKinds(ctx context.Context, max time.Duration) (*catalog, error) {
	s.mu.Lock()
	c := s.catalog
	s.mu.Unlock()
	now := s.cfg.Now()
	if c != nil && now.Sub(c.read) < max {
		return c, nil
	}
	c = &catalog{read: now}
	for _, root := range []string{"/api", "/apis"} {
		more, err := s.discoverKinds(ctx, root)
		if err != nil {
			return nil, err
		}
		c.kinds = append(c.kinds, more...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog = c
	return c, nil
}

// discoverKinds reads the kinds below /api or /apis.
func (s *Set) discoverKinds(ctx context.Context, root string) ([]kind, error) {
	raw, err := s.cfg.Reader.Read(ctx, root, nil, acceptDiscovery, maxList)
	if err != nil {
		return nil, err
	}
	var all discovery.APIGroupDiscoveryList
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "discover %s: the answer is not JSON: %w", root, err)
	}
	if all.Kind != "APIGroupDiscoveryList" {
		return s.discoverEach(ctx, root, raw)
	}
	var found []kind
	for _, g := range all.Items {
		found = append(found, groupKinds(g)...)
	}
	return found, nil
}

// groupKinds takes each resource of a group in the first version that has it.
func groupKinds(g discovery.APIGroupDiscovery) []kind {
	var found []kind
	seen := map[string]bool{}
	for _, v := range g.Versions {
		for _, res := range v.Resources {
			if seen[res.Resource] || res.ResponseKind == nil || !isReadable(res.Verbs) {
				continue
			}
			seen[res.Resource] = true
			found = append(found, kind{
				Kind:  kinds.Kind{Group: g.Name, Version: v.Version, Name: res.ResponseKind.Kind, Plural: res.Resource, ClusterWide: res.Scope == discovery.ScopeCluster},
				words: append(res.ShortNames, res.SingularResource),
			})
		}
	}
	return found
}

func isReadable(verbs []string) bool {
	return slices.Contains(verbs, "get") || slices.Contains(verbs, "list")
}

// discoverEach reads the kinds group by group. A group that does not answer (an
// aggregated API that is down) is left out: the others are not to suffer.
func (s *Set) discoverEach(ctx context.Context, root string, raw []byte) ([]kind, error) {
	versions := []string{"v1"}
	if root == "/apis" {
		var groups metav1.APIGroupList
		if err := json.Unmarshal(raw, &groups); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Unreachable, "discover %s: the answer is not a list of groups: %w", root, err)
		}
		versions = nil
		for _, g := range groups.Groups[:min(len(groups.Groups), maxGroups)] {
			versions = append(versions, g.PreferredVersion.GroupVersion)
		}
	}
	var found []kind
	for _, gv := range versions {
		more, err := s.discoverVersion(ctx, root, gv)
		if err != nil && (root == "/api" || ctx.Err() != nil) {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func (s *Set) discoverVersion(ctx context.Context, root, gv string) ([]kind, error) {
	group, version, ok := strings.Cut(gv, "/")
	if !ok {
		group, version = "", gv
	}
	path := root + "/" + url.PathEscape(version)
	if group != "" {
		path = root + "/" + url.PathEscape(group) + "/" + url.PathEscape(version)
	}
	raw, err := s.cfg.Reader.Read(ctx, path, nil, acceptJSON, maxList)
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "discover %s: the answer is not a list of resources: %w", path, err)
	}
	var found []kind
	for _, res := range list.APIResources {
		if strings.Contains(res.Name, "/") || !isReadable(res.Verbs) {
			continue
		}
		found = append(found, kind{
			Kind:  kinds.Kind{Group: group, Version: version, Name: res.Kind, Plural: res.Name, ClusterWide: !res.Namespaced},
			words: append(res.ShortNames, res.SingularName),
		})
	}
	return found, nil
}
