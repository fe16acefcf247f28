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

// get returns the value of an option, "" when it is not there.
func (p *parts) get(key string) string {
	for _, o := range p.query {
		if o.key == key {
			return o.value
		}
	}
	return ""
}

// set gives an option a value.
func (p *parts) set(key, value string) {
	i, found := slices.BinarySearchFunc(p.query, key, func(o option, k string) int { return strings.Compare(o.key, k) })
	if found {
		p.query[i].value = value
		return
	}
	p.query = slices.Insert(p.query, i, option{key, value})
}

// qualified is the resource as kubectl writes it: deployments.apps.
func (p *parts) qualified() string {
	if p.group == "" {
		return p.resource
	}
	return p.resource + "." + p.group
}

// maxTarget bounds a path and a query together, in bytes.
const maxTarget = 8 << 10

// parse takes the target of a request to pieces, or says why it cannot.
func parse(target string) (parts, error) {
	if len(target) > maxTarget {
		return parts{}, denyf("target", "the path and query are longer than %d bytes", maxTarget)
	}
	path, query, asked := strings.Cut(target, "?")
	segments, err := split(path)
	if err != nil {
		return parts{}, err
	}
	p, err := classify(segments)
	if err != nil {
		return parts{}, err
	}
	if asked && query == "" {
		return parts{}, denyf("query", "the query is empty: leave the question mark away")
	}
	return p, p.parseQuery(query)
}

// split cuts a path at its slashes. One way of writing a path is accepted: no
// escapes, no empty or dotted segments, no trailing slash.
func split(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, denyf("path", "the target is not a path on this server")
	}
	segments := strings.Split(path[1:], "/")
	for _, s := range segments {
		switch {
		case s == "":
			return nil, denyf("path", "the path has an empty segment: write it without double or trailing slashes")
		case s == "." || s == "..":
			return nil, denyf("path", "the path has the segment %q: write the path without it", s)
		case !all(s, pathByte):
			return nil, denyf("path", "the path has characters that names of objects do not need, such as %%, ; or a backslash: list the objects and use a selector instead")
		}
	}
	return segments, nil
}

func pathByte(c byte) bool { return alnum(c) || strings.IndexByte("-._:@", c) >= 0 }

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func all(s string, class func(byte) bool) bool {
	for i := range len(s) {
		if !class(s[i]) {
			return false
		}
	}
	return true
}

// label reports whether s is a DNS label, subdomain whether it is one or more
// of them with dots between.
func label(s string) bool {
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && all(s, labelByte)
}

func labelByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }

func subdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !label(part) {
			return false
		}
	}
	return true
}

func classify(s []string) (parts, error) {
	other := parts{verb: verbGet, path: "/" + strings.Join(s, "/")}
	switch s[0] {
	case "api":
		if len(s) > 1 && s[1] != "v1" {
			return parts{}, denyf("path", "/api has the version v1 only")
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
		return parts{}, denyf("path", "the guard passes /api, /apis, /openapi, /version, /healthz, /livez and /readyz only")
	}
	if len(s) > 1 {
		return parts{}, denyf("path", "the guard passes nothing below /%s", s[0])
	}
	return other, nil
}

func checkGroupVersion(s []string) error {
	if len(s) > 0 && !subdomain(s[0]) || len(s) > 1 && !label(s[1]) {
		return denyf("path", "the API group or version is not a name")
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
	return denyf("path", "the guard passes /openapi/v2 and the documents of API groups in /openapi/v3 only")
}

// classifyResource reads what follows the version, as the API server does.
func classifyResource(group, version string, s []string) (parts, error) {
	p := parts{group: group, version: version}
	namespaced := s[0] == "namespaces" && len(s) > 2 && s[2] != "status" && s[2] != "finalize"
	if namespaced {
		p.namespace, s = s[1], s[2:]
		if !label(p.namespace) {
			return p, denyf("path", "the namespace is not a name")
		}
	}
	if s[0] == "watch" || s[0] == "proxy" {
		return p, denyf("legacy", "/%s/ is not passed: use ?watch=true to watch; nothing is proxied", s[0])
	}
	if len(s) > 3 {
		return p, denyf("path", "the path goes on behind the subresource: nothing is proxied")
	}
	p.resource, p.verb = s[0], verbList
	if !label(p.resource) {
		return p, denyf("path", "the resource is not a name")
	}
	if len(s) > 1 {
		p.name, p.verb = s[1], verbGet
		if len(p.name) > 253 {
			return p, denyf("path", "the name is longer than 253 bytes")
		}
	}
	if len(s) > 2 {
		p.subresource = s[2]
	}
	return p, nil
}

// target is the one way to write the parts as a path and query.
func (p *parts) target() string {
	var b strings.Builder
	p.writePath(&b)
	sep := byte('?')
	write := func(key, value string) {
		b.WriteByte(sep)
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(escape(value))
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

// review reports whether the target is a question about permissions that the
// guard answers by itself, and its kind.
func review(method, target string) (string, bool) {
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
