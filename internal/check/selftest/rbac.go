package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/guard/kube/attack"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// access is something that a credential may be permitted: what an attack needs.
type access struct {
	Verb, Group, Resource, Subresource, Name string
	// Wide is of what belongs to no namespace.
	Wide bool
	// Path is of what is no resource.
	Path string
}

// verbs are those of the API server, by method.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// accessOf reads what a request needs as an API server does. Paths of which the spelling
// is the attack say nothing.
func accessOf(method, target string) (access, bool) {
	path, _, _ := strings.Cut(target, "?")
	words := strings.Split(strings.Trim(path, "/"), "/")
	verb := verbs[method]
	if verb == "" || strings.ContainsAny(path, "%;\\ ") || slices.ContainsFunc(words, func(w string) bool { return w == "" || w == "." || w == ".." }) {
		return access{}, false
	}
	behind := map[string]int{"api": 2, "apis": 3}[words[0]]
	if behind == 0 || len(words) <= behind {
		return access{Verb: strings.ToLower(method), Path: path}, true
	}
	a := access{Verb: verb, Wide: true}
	if words[0] == "apis" {
		a.Group = words[1]
	}
	if words = words[behind:]; words[0] == "watch" || words[0] == "proxy" {
		return access{}, false // which API servers have no longer
	}
	if words[0] == "namespaces" && len(words) > 2 && words[2] != "status" && words[2] != "finalize" {
		a.Wide, words = false, words[2:]
	}
	a.Resource = words[0]
	if len(words) > 2 {
		a.Subresource = words[2]
	}
	if len(words) > 1 {
		return a, true
	}
	switch verb {
	case "get":
		a.Verb = "list"
	case "delete":
		a.Verb = "deletecollection"
	}
	return a, true
}

// neededAccess is what requests need that a guard denied, or, where it denied none, that it
// let through.
func neededAccess(requests []journal.Request) (all []access) {
	for _, decision := range []string{journal.Deny, journal.Allow} {
		for _, q := range requests {
			a, ok := requestAccess(q)
			if ok && q.Decision == decision && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

func requestAccess(q journal.Request) (access, bool) {
	if q.Resource == "" {
		target, err := strconv.Unquote(q.Query)
		if err != nil || q.Decision != journal.Deny {
			return access{}, false // a client that finds its way
		}
		return accessOf(strings.ToUpper(q.Verb), target)
	}
	a := access{Verb: q.Verb, Group: q.Group, Resource: q.Resource, Subresource: q.Subresource, Wide: q.Namespace == ""}
	if a.Verb == "delete" && q.Name == "" {
		a.Verb = "deletecollection"
	}
	return a, true
}

// accessOfAttack is what a raw request needs. Whoever acts as somebody else needs that alone.
func (g *guarded) accessOfAttack(a attack.Request) (all []access) {
	for name := range a.Header {
		if what, ok := strings.CutPrefix(http.CanonicalHeaderKey(name), "Impersonate-"); ok {
			resource := map[string]string{"User": "users", "Group": "groups"}[what]
			if resource == "" {
				return []access{{Verb: "impersonate", Group: "authentication.k8s.io", Resource: "uids", Wide: true}}
			}
			all = append(all, access{Verb: "impersonate", Resource: resource, Wide: true})
		}
	}
	if len(all) > 0 || a.Raw != "" {
		return all
	}
	names := make([]string, 0, 2*len(g.mark.Names))
	for name, value := range g.mark.Names {
		names = append(names, "{"+name+"}", value)
	}
	if one, ok := accessOf(a.Method, strings.NewReplacer(names...).Replace(a.Target)); ok {
		return []access{one}
	}
	return nil
}

// questionsAtOnce is how many questions a cluster is asked at a time.
const questionsAtOnce = 8

// askRBAC asks the user's cluster of each attack whether its rules refuse the credential
// what the attack needs. An order that was held back before it asked for anything needs
// what it asked for when another followed it.
func (b *Bench) askRBAC(ctx context.Context, results []Result) error {
	if b.Cluster == nil {
		return nil
	}
	known := map[string][]access{}
	for _, r := range results {
		if r.By == byShell {
			known[r.Attack] = r.asks
		}
	}
	granted := map[access]bool{}
	for i := range results {
		if r := &results[i]; len(r.asks) == 0 {
			r.asks = known[r.Attack]
		}
		for _, a := range results[i].asks {
			granted[a] = false
		}
	}
	b.Progress(fmt.Sprintf("readonly: %d questions to the cluster, what its credential may do", len(granted)))
	var mu sync.Mutex
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(questionsAtOnce)
	for _, a := range slices.Collect(maps.Keys(granted)) {
		group.Go(func() error {
			may, err := b.Cluster.mayAccess(asking, a)
			mu.Lock()
			defer mu.Unlock()
			granted[a] = may
			return err
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		b.rbacGap = "the cluster does not say what its credential may do: " + text.CutLine(err.Error(), maxDetail)
		return nil
	}
	for i := range results {
		if r := &results[i]; len(r.asks) > 0 {
			stops := !slices.ContainsFunc(r.asks, func(a access) bool { return granted[a] })
			r.RBACWouldStop = &stops
		}
	}
	return nil
}

// mayAccess asks whether the credential may do something, in any of the namespaces that it is
// for.
func (c *Cluster) mayAccess(ctx context.Context, a access) (bool, error) {
	namespaces := []string{""}
	if !a.Wide && a.Path == "" {
		namespaces = append([]string{target.Namespace}, c.Namespaces...)
	}
	for _, ns := range namespaces {
		spec := authz.SelfSubjectAccessReviewSpec{}
		if a.Path != "" {
			spec.NonResourceAttributes = &authz.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		} else {
			spec.ResourceAttributes = &authz.ResourceAttributes{Namespace: ns, Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name}
		}
		if may, err := c.reviewAccess(ctx, spec); may || err != nil {
			return may, err
		}
	}
	return false, nil
}

// maxReview bounds an answer, in bytes.
const maxReview = 1 << 20

// reviewAccess asks one question, which changes nothing.
func (c *Cluster) reviewAccess(ctx context.Context, spec authz.SelfSubjectAccessReviewSpec) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r := authz.SelfSubjectAccessReview{Spec: spec}
	r.APIVersion, r.Kind = authz.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	ask, err := json.Marshal(r)
	if err != nil {
		return false, nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	base := c.API.Base
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		base.Scheme+"://"+base.Host+strings.TrimRight(base.EscapedPath(), "/")+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", strings.NewReader(string(ask)))
	if err != nil {
		return false, nightcrier.Errorf(nightcrier.Invalid, "cluster %s: %w", c.Name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "nightcrier-selftest")
	resp, err := c.API.Transport.RoundTrip(req)
	if err != nil {
		return false, nightcrier.Errorf(nightcrier.Unreachable, "cluster %s does not answer: %w", c.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return false, nightcrier.Errorf(nightcrier.Unreachable, "cluster %s answers %s", c.Name, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReview)).Decode(&r); err != nil {
		return false, nightcrier.Errorf(nightcrier.Unreachable, "cluster %s: its answer cannot be read: %w", c.Name, err)
	}
	return r.Status.Allowed, nil
}
