// Package rbac makes the least credential that investigations need: the manifest
// of a ServiceAccount that may read and nothing else, and a kubeconfig with a
// token of it.
//
// Asking for the token is the one thing that this program ever creates in a
// cluster, and only when a person runs the command for it.
package rbac

import (
	"bytes"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// Account is the ServiceAccount that investigations use.
type Account struct {
	Namespace, Name string
	// Namespaces bounds what it may read to these and to what has no namespace;
	// empty means all.
	Namespaces []string
}

// The account's usual name and namespace.
const (
	DefaultName      = "nightcrier-reader"
	DefaultNamespace = "nightcrier"
)

// label is what Kubernetes takes as the name of a namespace.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Check tells whether the names can be names; they become part of a manifest
// and of a path.
func (a Account) Check() error {
	for _, ns := range append([]string{a.Namespace}, a.Namespaces...) {
		if !label.MatchString(ns) {
			return nightcrier.Errorf(nightcrier.Invalid, "--namespace, --namespaces: %q cannot be the name of a namespace: use lower-case letters, digits and '-'", ns)
		}
	}
	if !label.MatchString(a.Name) {
		return nightcrier.Errorf(nightcrier.Invalid, "--name: %q cannot be the name of the account: use lower-case letters, digits and '-'", a.Name)
	}
	return nil
}

//go:embed manifest.yaml
var text string

var manifest = template.Must(template.New("manifest.yaml").Parse(text))

// rule grants reading the resources of one group.
type rule struct {
	Group, Resources, Verbs string
}

// Manifest returns the YAML of the account and of what it may read, as
// kubectl apply -f takes it.
func Manifest(a Account) ([]byte, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	var inside, wide []kube.Resource
	for _, r := range kube.Reads() {
		if r.ClusterWide {
			wide = append(wide, r)
		} else {
			inside = append(inside, r)
		}
	}
	if len(a.Namespaces) == 0 {
		inside, wide = append(inside, wide...), nil
	}
	var b bytes.Buffer
	err := manifest.Execute(&b, map[string]any{
		"Account": a, "Rules": rulesByGroup(inside), "Wide": rulesByGroup(wide),
		"MakeNamespace": a.Namespace != "default" && !strings.HasPrefix(a.Namespace, "kube-"),
	})
	return b.Bytes(), err
}

// rulesByGroup makes one rule for each group, and one for logs, which have no list.
func rulesByGroup(list []kube.Resource) []rule {
	names := map[string][]string{}
	var out []rule
	for _, r := range list {
		if strings.Contains(r.Name, "/") {
			out = append(out, rule{r.Group, r.Name, "get"})
			continue
		}
		names[r.Group] = append(names[r.Group], r.Name)
	}
	for group, resources := range names {
		slices.Sort(resources)
		out = append(out, rule{group, strings.Join(resources, ", "), "get, list, watch"})
	}
	slices.SortFunc(out, func(a, b rule) int {
		return strings.Compare(a.Group+" "+a.Resources, b.Group+" "+b.Resources)
	})
	return out
}
