package kube

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for target, want := range map[string]string{
		"/api/v1/namespaces/shop/pods":                                "list v1 pods ns=shop",
		"/api/v1/namespaces/shop/pods/cart-1":                         "get v1 pods ns=shop name=cart-1",
		"/api/v1/namespaces/shop/pods/cart-1/log":                     "get v1 pods/log ns=shop name=cart-1",
		"/api/v1/pods?watch=1":                                        "watch v1 pods",
		"/api/v1/pods?watch=false":                                    "list v1 pods",
		"/api/v1/namespaces":                                          "list v1 namespaces",
		"/api/v1/namespaces/shop":                                     "get v1 namespaces name=shop",
		"/api/v1/namespaces/shop/status":                              "get v1 namespaces/status name=shop",
		"/apis/apps/v1/namespaces/shop/deployments/cart/scale":        "get apps/v1 deployments/scale ns=shop name=cart",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node": "get rbac.authorization.k8s.io/v1 clusterroles name=system:node",
		"/api/v1/pods?watch=True":                                     "watch v1 pods",
		"/apis/metrics.k8s.io/v1beta1/nodes":                          "list metrics.k8s.io/v1beta1 nodes",
	} {
		p, err := parseTarget(target)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if got := describe(p); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func describe(p parts) string {
	out := p.verb + " " + strings.TrimPrefix(p.group+"/"+p.version, "/") + " " + strings.TrimSuffix(p.resource+"/"+p.subresource, "/")
	if p.namespace != "" {
		out += " ns=" + p.namespace
	}
	if p.name != "" {
		out += " name=" + p.name
	}
	return out
}

func TestRefusedTargets(t *testing.T) {
	for _, target := range []string{
		"", "*", "api/v1/pods", "//api/v1/pods", "/api//v1/pods", "/api/v1/pods/", "/", "/api/v1/", "/api/v2", "/api/v1beta1/pods",
		"/api/v1/../v1/secrets", "/api/v1/namespaces/a/../b/pods", "/api/v1/./pods", "/api/v1/..", "/..",
		"/api/v1/namespaces/a%2fb/pods", "/api/v1/%2e%2e/pods", "/api/v1/p%6fds", "/api/v1/pods%00", "/api/v1/pods;a=b", `/api/v1\pods`,
		"/api/v1/pods\x00", "/api/v1/pods\n", "/api/v1/pods#x", "/api/v1/pödš", "/api/v1/Pods", "/api/v1/namespaces/Shop/pods",
		"/api/v1/watch/pods", "/api/v1/proxy/nodes/n/logs", "/apis/apps/v1/watch/deployments", "/api/v1/namespaces/a/watch",
		"/api/v1/nodes/n/proxy/run/a/b/c", "/api/v1/namespaces/a/services/s/proxy/x",
		"/apis/a..b/v1", "/apis/-a/v1/pods", "/apis//v1/pods", "/apis/apps/V1/x", "/apis/apps/v1/",
		"/openapi", "/openapi/v1", "/openapi/v3/.well-known/openid-configuration", "/openapi/v3/logs", "/openapi/v3/apis/a/b/c",
		"/healthz/etcd", "/version/x", "/metrics", "/debug/pprof", "/logs/kubelet.log", "/.well-known/openid-configuration", "/openid/v1/jwks", "/ui", "/swagger.json", "/swaggerapi",
		"http://evil/api/v1/pods", "https://127.0.0.1/api/v1/pods",
		"/api/v1/pods?", "/api/v1/pods?&", "/api/v1/pods?watch", "/api/v1/pods?watch=", "/api/v1/pods?watch=TRUE", "/api/v1/pods?watch=t",
		"/api/v1/pods?limit=1&limit=2", "/api/v1/pods?watch=0&watch=1", "/api/v1/pods?limit%3D5", "/api/v1/pods?l%69mit=5", "/api/v1/pods?limit=-1", "/api/v1/pods?limit=1;watch=1",
		"/api/v1/pods?dryRun=All", "/api/v1/pods?fieldManager=x", "/api/v1/pods?command=id", "/api/v1/pods?Watch=true", "/api/v1/pods?labelSelector=%zz", "/api/v1/pods?labelSelector=%00", "/api/v1/pods?labelSelector=a%0ab",
		"/api/v1/secrets?fieldSelector=data.password%3Dx", "/apis/x.io/v1/things?fieldSelector=spec.password%3Dhunter2", "/api/v1/pods?fieldSelector=metadata.name", `/api/v1/pods?fieldSelector=metadata.name%3Da%5C%2Cb`,
		"/api/v1/namespaces/a/pods/p?watch=true", "/api/v1/namespaces/a/pods/p?limit=1", "/api/v1/namespaces/a/pods/p/log?insecureSkipTLSVerifyBackend=true", "/api/v1/namespaces/a/pods/p/log?container=../x",
		"/api/v1/namespaces/a/pods/p/log?sinceTime=yesterday", "/api/v1?limit=1", "/version?watch=true", "/openapi/v2?x=1",
		"/api/v1/pods?labelSelector=" + strings.Repeat("a", maxTarget),
		// What a label of a secret's name holds is compared in no way.
		"/api/v1/pods?labelSelector=password%3Dhunter2", "/api/v1/pods?labelSelector=password%21%3Dhunter2", "/api/v1/pods?labelSelector=password+in+%28a,hunter2%29", "/api/v1/pods?labelSelector=password+notin+%28hunter2%29",
		"/api/v1/pods?labelSelector=password%3E4711", "/api/v1/pods?labelSelector=acme.io/api-key%3C4711", "/api/v1/pods?labelSelector=app%3Dcart,acme.io/password%3D%3Dx", "/api/v1/pods?labelSelector=db_password%3Dx&watch=true",
		"/api/v1/pods?labelSelector=a+in+%28", "/apis/x.io/v1/things?labelSelector=token%3Dx",
	} {
		if p, err := parseTarget(target); err == nil {
			t.Errorf("%.80q passes as %s", target, describe(p))
		} else if d := (*denial)(nil); !errors.As(err, &d) || d.rule == "" || d.text == "" {
			t.Errorf("%.80q: %v does not name a rule", target, err)
		}
	}
}

// FuzzParse: what is accepted has one spelling, and that spelling means the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"/api/v1/namespaces/a/pods/p/log?container=c&tailLines=5", "/apis/apps/v1/deployments?labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&timeoutSeconds=5",
		"/openapi/v3/apis/apps/v1?hash=AB", "/api/v1/pods?labelSelector=password,!token", "/api/v1/namespaces/a/status", "/api/v1/events?fieldSelector=involvedObject.name%3Dx", "/apis", "/readyz?verbose=true",
		"/api/v1/../x", "/api/v1/%2e", "/api/v1/pods?watch=true&watch=false",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p, err := parseTarget(target)
		if err != nil {
			return
		}
		again := p.encodeTarget()
		path, _, _ := strings.Cut(again, "?")
		if strings.Contains(path, "..") && strings.Contains(path, "/../") || strings.Contains(path, "//") || strings.ContainsAny(path, "%;\\#") {
			t.Fatalf("%q is rebuilt to %q", target, again)
		}
		q, err := parseTarget(again)
		if err != nil || !reflect.DeepEqual(normal(p), normal(q)) {
			t.Fatalf("%q: %+v is rebuilt to %q: %+v, %v", target, p, again, q, err)
		}
		if q.encodeTarget() != again {
			t.Fatalf("%q is rebuilt to %q and that to %q", target, again, q.encodeTarget())
		}
	})
}

func normal(p parts) parts {
	if len(p.query) == 0 {
		p.query = nil
	}
	return p
}
