package falsify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for give, want := range map[string]question{
		"kubectl get pod cart-1 -n shop -o yaml":                  {verb: "get", kind: "Pod", name: "cart-1", ns: "shop", tail: 100},
		"kubectl get pods":                                        {verb: "get", kind: "Pod", ns: "home", tail: 100},
		"kubectl -n shop get po/cart-1 -ojson":                    {verb: "get", kind: "Pod", name: "cart-1", ns: "shop", tail: 100},
		"kubectl get pods -l app=cart,tier!=db -A":                {verb: "get", kind: "Pod", labels: "app=cart,tier!=db", everywhere: true, tail: 100},
		`kubectl get pods -l "app=cart,tier in (a,b)" -A`:         {verb: "get", kind: "Pod", labels: "app=cart,tier in (a,b)", everywhere: true, tail: 100},
		"kubectl get node worker-1 -o wide":                       {verb: "get", kind: "Node", name: "worker-1", tail: 100},
		"kubectl get pod x -o jsonpath='{.status.phase}'":         {verb: "get", kind: "Pod", name: "x", ns: "home", jsonpath: "{.status.phase}", tail: 100},
		"kubectl get events --field-selector=reason=BackOff":      {verb: "get", kind: "Event", ns: "home", fields: "reason=BackOff", tail: 100},
		"kubectl describe deploy cart --namespace=shop":           {verb: "describe", kind: "Deployment", name: "cart", ns: "shop", tail: 100},
		"kubectl logs cart-1 -c app --previous --tail=50":         {verb: "logs", kind: "Pod", name: "cart-1", ns: "home", container: "app", previous: true, tail: 50},
		"kubectl logs pod/cart-1 -p --tail 9999":                  {verb: "logs", kind: "Pod", name: "cart-1", ns: "home", previous: true, tail: 500},
		"kubectl events --for deployment/cart --types=Warning":    {verb: "events", kind: "Event", ns: "home", aboutKind: "deployment", about: "cart", eventType: "Warning", fields: "involvedObject.kind=Deployment,involvedObject.name=cart,type=Warning", tail: 100},
		"kubectl top pod cart-1":                                  {verb: "top", kind: "PodMetrics", name: "cart-1", ns: "home", tail: 100},
		"kubectl top node worker-1":                               {verb: "top", kind: "NodeMetrics", name: "worker-1", tail: 100},
		"":                                                        {},
		"rm -rf /":                                                {},
		"kubectl":                                                 {},
		"kubectl -n shop":                                         {},
		"kubectl delete pod x":                                    {},
		"kubectl exec x -- ls":                                    {},
		"kubectl get --raw /api/v1/secrets":                       {},
		"kubectl get pod x | grep y":                              {},
		"kubectl get pod x; kubectl delete pod x":                 {},
		"kubectl get pod x && reboot":                             {},
		"kubectl get pod $(reboot)":                               {},
		`kubectl get pod "$(reboot)"`:                             {},
		"kubectl get pod `reboot`":                                {},
		"kubectl get pod x > /etc/passwd":                         {},
		"kubectl get pod x\nreboot":                               {},
		`kubectl get pod x\ y`:                                    {},
		"kubectl get pod 'x":                                      {},
		"kubectl get pod ../../secrets":                           {},
		"kubectl get pod x/../../secrets":                         {},
		"kubectl get pod x%2f..%2fsecrets":                        {},
		"kubectl get pod x?watch=true":                            {},
		"kubectl get 'pods?watch=true'":                           {},
		"kubectl get pods,secrets":                                {},
		"kubectl get pod a b":                                     {},
		"kubectl get pod/a pod/b":                                 {},
		"kubectl get pod x -w":                                    {},
		"kubectl get pod x --watch=true":                          {},
		"kubectl get pod x -A":                                    {},
		"kubectl get pod x -l app=y":                              {},
		"kubectl get pods -l acme.io/password=y":                  {},
		"kubectl get pods -l 'token>4711'":                        {},
		"kubectl get pod x -n ../kube-system":                     {},
		"kubectl get pod x --kubeconfig /etc/other":               {},
		"kubectl get pod x --context prod":                        {},
		"kubectl get pod x --as system:admin":                     {},
		"kubectl get pod x -s http://elsewhere":                   {},
		"kubectl get pod x -f /etc/passwd":                        {},
		"kubectl get pod x -o go-template-file=/etc/passwd":       {},
		"kubectl get pod x -o jsonpath-file=/etc/passwd":          {},
		"kubectl get pods -o jsonpath='{.items[0,0].spec}'":       {},
		"kubectl get pods -o jsonpath='{.items[*][\"a\",\"a\"]}'": {},
		"kubectl get pods -o jsonpath='{..x..y}'":                 {},
		"kubectl get pods -o jsonpath='{range .items[*]}{range .spec.x[*]}{end}{end}'":    {},
		"kubectl get pods -o jsonpath='{range .items[*]}{.metadata.name} {..phase}{end}'": {verb: "get", kind: "Pod", ns: "home", jsonpath: "{range .items[*]}{.metadata.name} {..phase}{end}", tail: 100},
		"kubectl get pod <pod-name>":                             {},
		"kubectl logs -f cart-1":                                 {},
		"kubectl logs deploy/cart":                               {},
		"kubectl logs -l app=cart":                               {},
		"kubectl logs x --tail=-1":                               {},
		"kubectl describe pods":                                  {},
		"kubectl top pods":                                       {},
		"kubectl top deployment cart":                            {},
		"kubectl events pod cart":                                {},
		"kubectl get pod x --previous=false":                     {},
		"kubectl get pod x -n":                                   {},
		"kubectl get pod \u202ex":                                {},
		"kubectl get pod " + strings.Repeat("x", 300):            {},
		"kubectl get pod x " + strings.Repeat("-o json ", 1_000): {},
	} {
		t.Run(give[:min(len(give), 60)], func(t *testing.T) {
			got, err := parseCommand(give, "home")
			switch {
			case want.verb == "":
				if err == nil {
					t.Errorf("taken as %+v", got)
				}
			case err != nil:
				t.Error(err)
			default:
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(question{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Whatever is written, a question asks for names that are names and verbs that
// read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"kubectl get pod x -n y", "kubectl logs 'a b' -c \"d\"", "kubectl events --for=a/b", "kubectl get pod x;ls"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := parseCommand(s, "home")
		if err != nil {
			return
		}
		if err := q.asResource().Check(); q.name != "" && err != nil {
			t.Errorf("%q: %v", s, err)
		}
		if strings.ContainsAny(q.kind+q.ns+q.name, "/?#%\n ") {
			t.Errorf("%q: %+v", s, q)
		}
	})
}
