package kube

import (
	"net/http"
	"slices"
	"strings"
)

// class says what a request asks about.
type class int

const (
	classResource  class = iota // objects
	classDiscovery              // which resources there are
	classOpenAPI                // what their fields mean
	classVersion
	classHealth
)

// Verbs of a read.
const (
	verbGet   = "get"
	verbList  = "list"
	verbWatch = "watch"
)

// parts is one read, taken to pieces. What goes to the cluster is built from
// them alone, so that nothing of a request's own spelling gets there.
type parts struct {
	class class
	verb  string

	group, version, resource, subresource string
	namespace, name                       string

	// path is the canonical path of what is no resource.
	path string
	// query holds the checked options, by ascending key, without watch.
	query []option
}

// option is one query parameter, its value decoded.
type option struct{ key, value string }

// optionValue returns the value of an option, "" when it is not there.
func (p *parts) optionValue(key string) string {
	for _, o := range p.query {
		if o.key == key {
			return o.value
		}
	}
	return ""
}

// setOption gives an option a value.
func (p *parts) setOption(key, value string) {
	i, found := slices.BinarySearchFunc(p.query, key, func(o option, k string) int { return strings.Compare(o.key, k) })
	if found {
		p.query[i].value = value
		return
	}
	p.query = slices.Insert(p.query, i, option{key, value})
}

// qualifiedResource is the resource as kubectl writes it: deployments.apps.
func (p *parts) qualifiedResource() string {
	if p.group == "" {
		return p.resource
	}
	return p.resource + "." + p.group
}

// maxTarget bounds a path and a query together, in bytes.
const maxTarget = 8 << 10

// parseTarget takes the target of a request to pieces, or says why it cannot.
func parseTarget(target string) (parts, error) {
	if len(target) > maxTarget {
		return parts{}, newDenialf("target", "the path and query are longer than %d bytes", maxTarget)
	}
	path, query, asked := strings.Cut(target, "?")
	segments, err := splitPath(path)
	if err != nil {
		return parts{}, err
	}
	p, err := classifyPath(segments)
	if err != nil {
		return parts{}, err
	}
	if asked && query == "" {
		return parts{}, newDenialf("query", "the query is empty: leave the question mark away")
	}
	return p, p.parseQuery(query)
}

// splitPath cuts a path at its slashes. One way of writing a path is accepted: no
// escapes, no empty or dotted segments, no trailing slash.
func splitPath(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, newDenialf("path", "the target is not a path on this server")
	}
	segments := strings.Split(path[1:], "/")
	for _, s := range segments {
		switch {
		case s == "":
			return nil, newDenialf("path", "the path has an empty segment: write it without double or trailing slashes")
		case s == "." || s == "..":
			return nil, newDenialf("path", "the path has the segment %q: write the path without it", s)
		case !hasOnlyBytes(s, pathByte):
			return nil, newDenialf("path", "the path has characters that names of objects do not need, such as %%, ; or a backslash: list the objects and use a selector instead")
		}
	}
	return segments, nil
}

func pathByte(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._:@", c) >= 0 }

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func hasOnlyBytes(s string, class func(byte) bool) bool {
	for i := range len(s) {
		if !class(s[i]) {
			return false
		}
	}
	return true
}

// isLabel reports whether s is a DNS label, isSubdomain whether it is one or
// more of them with dots between.
func isLabel(s string) bool {
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && hasOnlyBytes(s, labelByte)
}

func labelByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }

func isSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !isLabel(part) {
			return false
		}
	}
	return true
}

func classifyPath(s []string) (parts, error) {
	other := parts{verb: verbGet, path: "/" + strings.Join(s, "/")}
	switch s[0] {
	case "api":
		if len(s) > 1 && s[1] != "v1" {
			return parts{}, newDenialf("path", "/api has the version v1 only")
		}
		if len(s) > 2 {
			return classifyResource("", "v1", s[2:])
		}
		other.class = classDiscovery
		return other, nil
	case "apis":
		if err := checkGroupVersion(s[1:]); err != nil {
			return parts{}, err
		}
		if len(s) > 3 {
			return classifyResource(s[1], s[2], s[3:])
		}
		other.class = classDiscovery
		return other, nil
	case "openapi":
		other.class = classOpenAPI
		return other, checkOpenAPI(s[1:])
	case "version":
		other.class = classVersion
	case "healthz", "livez", "readyz":
		other.class = classHealth
	default:
		return parts{}, newDenialf("path", "the guard passes /api, /apis, /openapi, /version, /healthz, /livez and /readyz only")
	}
	if len(s) > 1 {
		return parts{}, newDenialf("path", "the guard passes nothing below /%s", s[0])
	}
	return other, nil
}

func checkGroupVersion(s []string) error {
	if len(s) > 0 && !isSubdomain(s[0]) || len(s) > 1 && !isLabel(s[1]) {
		return newDenialf("path", "the API group or version is not a name")
	}
	return nil
}

// checkOpenAPI accepts the document of version 2, and of version 3 the index and
// the documents of API groups.
func checkOpenAPI(s []string) error {
	switch {
	case len(s) == 1 && (s[0] == "v2" || s[0] == "v3"):
		return nil
	case len(s) < 2 || s[0] != "v3":
	case s[1] == "api" && (len(s) == 2 || len(s) == 3 && s[2] == "v1"):
		return nil
	case s[1] == "apis" && len(s) <= 4:
		return checkGroupVersion(s[2:])
	case s[1] == "version" && len(s) == 2:
		return nil
	}
	return newDenialf("path", "the guard passes /openapi/v2 and the documents of API groups in /openapi/v3 only")
}

// classifyResource reads what follows the version, as the API server does.
func classifyResource(group, version string, s []string) (parts, error) {
	p := parts{group: group, version: version}
	namespaced := s[0] == "namespaces" && len(s) > 2 && s[2] != "status" && s[2] != "finalize"
	if namespaced {
		p.namespace, s = s[1], s[2:]
		if !isLabel(p.namespace) {
			return p, newDenialf("path", "the namespace is not a name")
		}
	}
	if s[0] == "watch" || s[0] == "proxy" {
		return p, newDenialf("legacy", "/%s/ is not passed: use ?watch=true to watch; nothing is proxied", s[0])
	}
	if len(s) > 3 {
		return p, newDenialf("path", "the path goes on behind the subresource: nothing is proxied")
	}
	p.resource, p.verb = s[0], verbList
	if !isLabel(p.resource) {
		return p, newDenialf("path", "the resource is not a name")
	}
	if len(s) > 1 {
		p.name, p.verb = s[1], verbGet
		if len(p.name) > 253 {
			return p, newDenialf("path", "the name is longer than 253 bytes")
		}
	}
	if len(s) > 2 {
		p.subresource = s[2]
	}
	return p, nil
}

// encodeTarget is the one way to write the parts as a path and query.
func (p *parts) encodeTarget() string {
	var b strings.Builder
	p.writePath(&b)
	sep := byte('?')
	write := func(key, value string) {
		b.WriteByte(sep)
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(escapeValue(value))
		sep = '&'
	}
	for _, o := range p.query {
		write(o.key, o.value)
	}
	if p.verb == verbWatch {
		write("watch", "true")
	}
	return b.String()
}

func (p *parts) writePath(b *strings.Builder) {
	if p.class != classResource {
		b.WriteString(p.path)
		return
	}
	if p.group == "" {
		b.WriteString("/api")
	} else {
		b.WriteString("/apis/" + p.group)
	}
	b.WriteString("/" + p.version)
	if p.namespace != "" {
		b.WriteString("/namespaces/" + p.namespace)
	}
	for _, s := range []string{p.resource, p.name, p.subresource} {
		if s != "" {
			b.WriteString("/" + s)
		}
	}
}

// reviewKindOf reports whether the target is a question about permissions that the
// guard answers by itself, and its kind.
func reviewKindOf(method, target string) (string, bool) {
	if method != http.MethodPost {
		return "", false
	}
	path, query, _ := strings.Cut(target, "?")
	if query != "" && !slices.Contains(reviewQueries, query) {
		return "", false
	}
	kind, ok := reviewKinds[path]
	return kind, ok
}
