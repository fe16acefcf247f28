package kubetest

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ReadVerbs are the verbs that change nothing.
var ReadVerbs = []string{"get", "list", "watch"}

// ReadOnly writes the kubeconfig of a ServiceAccount that may read everything an
// investigation reads, in all namespaces, except secrets, and returns its path.
func (a *API) ReadOnly(tb testing.TB) string {
	tb.Helper()
	return a.AccessFor(tb,
		rule(ReadVerbs, "", "pods", "pods/log", "pods/status", "events", "nodes", "namespaces", "services",
			"endpoints", "configmaps", "persistentvolumeclaims", "persistentvolumes", "replicationcontrollers",
			"resourcequotas", "limitranges", "serviceaccounts"),
		rule(ReadVerbs, "apps", "*"), rule(ReadVerbs, "batch", "*"), rule(ReadVerbs, "autoscaling", "*"),
		rule(ReadVerbs, "networking.k8s.io", "*"), rule(ReadVerbs, "policy", "*"),
		rule(ReadVerbs, "storage.k8s.io", "*"), rule(ReadVerbs, "discovery.k8s.io", "*"),
		rule(ReadVerbs, "events.k8s.io", "*"))
}

// CannotList writes the kubeconfig of a ServiceAccount that may get Pods by
// name and nothing else, and returns its path.
func (a *API) CannotList(tb testing.TB) string {
	tb.Helper()
	return a.AccessFor(tb, rule([]string{"get"}, "", "pods"))
}

func rule(verbs []string, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: resources}
}

// AccessFor makes a ServiceAccount that has these rules in the whole cluster,
// asks for a token as a client would, and returns the path of its kubeconfig.
func (a *API) AccessFor(tb testing.TB, rules ...rbacv1.PolicyRule) string {
	tb.Helper()
	account := a.account(tb)
	a.Create(tb, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, Rules: rules})
	a.Create(tb, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name}, Subjects: []rbacv1.Subject{account},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account.Name},
	})
	return a.kubeconfigOf(tb, account)
}

// AccessIn is AccessFor with rules that hold in namespace ns alone.
func (a *API) AccessIn(tb testing.TB, ns string, rules ...rbacv1.PolicyRule) string {
	tb.Helper()
	account := a.account(tb)
	meta := metav1.ObjectMeta{Namespace: ns, Name: account.Name}
	a.Create(tb, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	a.Create(tb, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{account},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account.Name},
	})
	return a.kubeconfigOf(tb, account)
}

// account makes a ServiceAccount without rights in a namespace of its own.
func (a *API) account(tb testing.TB) rbacv1.Subject {
	tb.Helper()
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace(tb), Name: "reader-" + strings.ToLower(rand.Text()[:8])}
	a.Create(tb, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: subject.Name, Namespace: subject.Namespace}})
	return subject
}

func (a *API) kubeconfigOf(tb testing.TB, account rbacv1.Subject) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), account.Name+".kubeconfig")
	if err := a.writeKubeconfig(path, a.token(tb, account.Namespace, account.Name), "default"); err != nil {
		tb.Fatalf("kubetest: %v", err)
	}
	return path
}

// token asks the TokenRequest API for a token of the ServiceAccount.
func (a *API) token(tb testing.TB, ns, account string) string {
	tb.Helper()
	tokens := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	hour := int64(3600)
	ask := toUnstructured(tb, &authnv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: ns},
		Spec:       authnv1.TokenRequestSpec{ExpirationSeconds: &hour},
	})
	got, err := a.Client.Resource(tokens).Namespace(ns).Create(tb.Context(), ask, metav1.CreateOptions{}, "token")
	if err != nil {
		tb.Fatalf("kubetest: token of %s/%s: %v", ns, account, err)
	}
	var answer authnv1.TokenRequest
	fromUnstructured(tb, got, &answer)
	return answer.Status.Token
}

// config is a client's configuration for the bearer of token.
func (a *API) config(token string) *rest.Config {
	return &rest.Config{
		Host: a.URL, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.id.cert},
		QPS:             -1, // tests wait for the server, not for a limiter
	}
}

// writeKubeconfig writes a kubeconfig with one context, named kubetest.
func (a *API) writeKubeconfig(path, token, namespace string) error {
	const name = "kubetest"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: a.URL, CertificateAuthorityData: a.id.cert}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}, path)
}
