package rbac_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/cluster/rbac"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

var update = flag.Bool("update", false, "write deploy/reader.yaml anew")

func usual() rbac.Account {
	return rbac.Account{Namespace: rbac.DefaultNamespace, Name: rbac.DefaultName}
}

// roles returns the kinds of a manifest's objects, and the rules of its roles.
func roles(t *testing.T, text []byte) (kinds []string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, doc := range strings.Split(string(text), "\n---\n")[1:] {
		var any metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &any); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		kinds = append(kinds, any.Kind)
		if any.Kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(doc), &role); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		rules = append(rules, role.Rules...)
	}
	return kinds, rules
}

func manifest(t *testing.T, a rbac.Account) []byte {
	t.Helper()
	text, err := rbac.Manifest(a)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTheAccountMayOnlyRead: three verbs, no wildcard, no Secrets, no subresource
// but the log.
func TestTheAccountMayOnlyRead(t *testing.T) {
	for _, a := range []rbac.Account{usual(), {Namespace: "ops", Name: "eye", Namespaces: []string{"shop", "pay"}}} {
		_, rules := roles(t, manifest(t, a))
		for _, r := range rules {
			for _, verb := range r.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("verb %s on %v", verb, r.Resources)
				}
			}
			for _, res := range append(r.Resources, r.APIGroups...) {
				if strings.Contains(res, "*") || res == "secrets" || strings.Contains(res, "/") && res != "pods/log" {
					t.Errorf("%v may be read", r)
				}
			}
			if len(r.NonResourceURLs)+len(r.ResourceNames) > 0 {
				t.Errorf("%v", r)
			}
		}
	}
}

// TestTheAccountMayReadWhatIsRead: the manifest has every kind that the code
// reads without discovery, and every kind that detection watches.
func TestTheAccountMayReadWhatIsRead(t *testing.T) {
	_, rules := roles(t, manifest(t, usual()))
	granted := func(group, resource string) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, "get") &&
				(strings.Contains(resource, "/") || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch"))
		})
	}
	for _, r := range kube.Reads() {
		if !granted(r.Group, r.Name) {
			t.Errorf("%s of group %q is read and not granted", r.Name, r.Group)
		}
	}
	var known int
	for _, r := range kube.Reads() {
		if _, ok := kinds.Meant(r.Name); ok {
			known++
		}
	}
	if known < 25 {
		t.Errorf("only %d builtin kinds are read", known)
	}
	for _, w := range detect.Kinds() {
		group, _, ok := strings.Cut(w.APIVersion, "/")
		if !ok {
			group = ""
		}
		plural := strings.ToLower(string(w.Kind)) + "s"
		if !granted(group, plural) {
			t.Errorf("detection wants %s.%s, which is not granted", plural, group)
		}
	}
}

func TestNamespacesBoundTheAccount(t *testing.T) {
	kinds, _ := roles(t, manifest(t, usual()))
	if want := []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"}; !slices.Equal(kinds, want) {
		t.Errorf("%v", kinds)
	}
	kinds, _ = roles(t, manifest(t, rbac.Account{Namespace: "kube-system", Name: "eye", Namespaces: []string{"shop", "pay"}}))
	if want := []string{"ServiceAccount", "ClusterRole", "ClusterRole", "ClusterRoleBinding", "RoleBinding", "RoleBinding"}; !slices.Equal(kinds, want) {
		t.Errorf("%v", kinds)
	}
}

func TestHostileNames(t *testing.T) {
	for _, name := range []string{"", "A", "a/b", "..", "a\nkind: Secret", "a b", "-a", "a-", "a.b", "{{.}}", strings.Repeat("a", 64), "ä"} {
		for field, a := range map[string]rbac.Account{
			"name": {Namespace: "ops", Name: name}, "namespace": {Namespace: name, Name: "eye"}, "namespaces": {Namespace: "ops", Name: "eye", Namespaces: []string{name}},
		} {
			if _, err := rbac.Manifest(a); nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("%s %q: %v", field, name, err)
			}
			if _, err := rbac.Kubeconfig(t.Context(), rbac.Request{Account: a, Duration: time.Hour}); nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
	}
}

func TestWithoutAnAdministrator(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	_, err := rbac.Kubeconfig(t.Context(), rbac.Request{Account: usual(), Duration: time.Hour})
	if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("%v does not say what to name", err)
	}
}

// TestShippedManifest: deploy/reader.yaml is what the command prints.
func TestShippedManifest(t *testing.T) {
	const path = "../../../deploy/reader.yaml"
	want := manifest(t, usual())
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("%v: deploy/reader.yaml is out of date: run go test ./internal/cluster/rbac -run TestShippedManifest -update", err)
	}
}
