package nightcrier

import (
	"slices"
	"strings"
)

// AlertKind is the kind of the resource of an alert that names no object of its
// cluster: the alert itself.
const AlertKind = "Alert"

// Resource names one Kubernetes object. Unknown parts are empty.
type Resource struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

// String returns Kind/name, or namespace/Kind/name for a namespaced object.
func (r Resource) String() string {
	s := r.Kind + "/" + r.Name
	if r.Namespace != "" {
		s = r.Namespace + "/" + s
	}
	return s
}

// IsZero reports whether nothing is known.
func (r Resource) IsZero() bool { return r == Resource{} }

// In reports whether r is in one of the namespaces, is one of them, or has nothing
// to do with any. No namespaces means all.
func (r Resource) In(namespaces []string) bool {
	ns := r.Namespace
	if r.Kind == "Namespace" {
		ns = r.Name
	}
	return ns == "" || len(namespaces) == 0 || slices.Contains(namespaces, ns)
}

// Limits of the names that a Kubernetes API server accepts: 253 bytes for an
// object's name (DNS subdomain, or path segment for RBAC objects), 63 for a
// namespace and a kind, 317 for an apiVersion (subdomain "/" label).
const (
	maxName       = 253
	maxLabel      = 63
	maxAPIVersion = 317
	maxUID        = 128
)

// Check returns an Invalid error that names the field when r is not something
// a Kubernetes API server can have: names from outside end in paths, prompts
// and chat messages, so nothing else gets past intake.
func (r Resource) Check() error {
	checks := []struct {
		field, value string
		max          int
		extra        string
	}{
		{"apiVersion", r.APIVersion, maxAPIVersion, "./"},
		{"kind", r.Kind, maxLabel, ""},
		{"namespace", r.Namespace, maxLabel, ""},
		{"name", r.Name, maxName, ".:"},
		{"uid", r.UID, maxUID, "._:"},
	}
	for _, c := range checks {
		if len(c.value) > c.max {
			return Errorf(Invalid, "resource %s is %d bytes long; at most %d are legal", c.field, len(c.value), c.max)
		}
		if bad := strings.IndexFunc(c.value, func(ch rune) bool { return !nameRune(ch, c.extra) }); bad >= 0 {
			return Errorf(Invalid, "resource %s %.64q holds a character that no Kubernetes name has", c.field, c.value)
		}
	}
	if r.Kind == "" || r.Name == "" {
		return Errorf(Invalid, "resource has no kind or no name")
	}
	if r.Name == "." || r.Name == ".." || strings.Contains(r.Name, "..") {
		return Errorf(Invalid, "resource name %.64q is a path", r.Name)
	}
	return nil
}

func nameRune(c rune, extra string) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
		return true
	}
	return strings.ContainsRune(extra, c)
}
