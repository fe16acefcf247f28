package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

const (
	acceptJSON = "application/json"
	// acceptMeta asks for names, labels and owners only.
	acceptMeta     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptMetaList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptText     = "text/plain, */*"
)

// Bounds of lists and logs.
const (
	// MaxItems is the most objects that List asks for.
	MaxItems = 500
	// MaxLogBytes is the most that Logs reads.
	MaxLogBytes = 4 << 20
)

// Get returns the object as JSON. Of a Secret it returns the metadata alone:
// its data never leaves the cluster.
func (c *Client) Get(ctx context.Context, res nightcrier.Resource) ([]byte, error) {
	accept := acceptJSON
	if res.Kind == "Secret" {
		accept = acceptMeta
	}
	return c.getObject(ctx, res, accept)
}

func (c *Client) getObject(ctx context.Context, res nightcrier.Resource, accept string) ([]byte, error) {
	if err := res.Check(); err != nil {
		return nil, err
	}
	k, err := c.findKind(ctx, res.APIVersion, res.Kind)
	if err != nil {
		return nil, unlessServed(err)
	}
	if res.Namespace == "" && !k.ClusterWide {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "get %s: the namespace is missing", res)
	}
	body, err := c.fetchBody(ctx, request{
		what:   "get " + res.String(),
		path:   k.Path(res.Namespace) + "/" + url.PathEscape(res.Name),
		accept: accept, limit: maxBody,
	})
	return body, unlessServed(err)
}

// unlessServed makes of an error that says that nothing serves a kind one that does not say
// that an object of it is gone.
func unlessServed(err error) error {
	if errors.Is(err, errNotServed) {
		return nightcrier.Errorf(nightcrier.Invalid, "%w (`kubectl api-resources` lists what is served)", err)
	}
	return err
}

// List returns a List of the kind's objects as JSON, at most limit of them (1
// to MaxItems; anything else means MaxItems). Empty ns means all namespaces.
// The list's metadata says when there were more. Secrets come without data.
func (c *Client) List(ctx context.Context, kind, ns, labelSel, fieldSel string, limit int) ([]byte, error) {
	if err := (nightcrier.Resource{Kind: kind, Namespace: ns, Name: "x"}).Check(); err != nil {
		return nil, err
	}
	k, err := c.findKind(ctx, "", kind)
	if err != nil {
		return nil, err
	}
	accept := acceptJSON
	if kind == "Secret" {
		accept = acceptMetaList
	}
	if limit <= 0 || limit > MaxItems {
		limit = MaxItems
	}
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	setNonEmpty(q, "labelSelector", labelSel)
	setNonEmpty(q, "fieldSelector", fieldSel)
	return c.fetchBody(ctx, request{what: "list " + k.Plural + inNamespace(ns), path: k.Path(ns), query: q, accept: accept, limit: maxBody})
}

func inNamespace(ns string) string {
	if ns == "" {
		return " in all namespaces"
	}
	return " in namespace " + ns
}

func setNonEmpty(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

// Logs returns the last tail lines of a container's log, or of its previous
// instance's, at most maxBytes of them. Zero tail means 200 lines; zero
// maxBytes, or one over it, MaxLogBytes.
func (c *Client) Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error) {
	res := nightcrier.Resource{Kind: "Pod", Namespace: ns, Name: pod}
	if err := res.Check(); err != nil {
		return nil, err
	}
	if tail <= 0 {
		tail = 200
	}
	if maxBytes <= 0 || maxBytes > MaxLogBytes {
		maxBytes = MaxLogBytes
	}
	q := url.Values{"tailLines": {strconv.FormatInt(tail, 10)}, "limitBytes": {strconv.FormatInt(maxBytes, 10)}}
	setNonEmpty(q, "container", container)
	if previous {
		q.Set("previous", "true")
	}
	return c.fetchBody(ctx, request{
		what:  "logs of " + res.String(),
		path:  kinds.MustNamed("Pod").Path(ns) + "/" + url.PathEscape(pod) + "/log",
		query: q, accept: acceptText, limit: maxBytes + 4096, // a server may end its cut at a rune
	})
}

// Version returns the API server's version, e.g. "v1.36.3".
func (c *Client) Version(ctx context.Context) (string, error) {
	body, err := c.fetchBody(ctx, request{what: "version", path: "/version", accept: acceptJSON, limit: 1 << 16})
	if err != nil {
		return "", err
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", nightcrier.Errorf(nightcrier.Unreachable, "%s does not speak like a Kubernetes API server", c.base.Host)
	}
	return v.GitVersion, nil
}
