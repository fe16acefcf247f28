package diagnose

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestCommandOfAStep(t *testing.T) {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	for _, c := range []struct {
		do   deed
		o    nightcrier.Object
		want string
	}{
		{doLook, cart, "kubectl describe deployment/cart -n shop"},
		{doLook, nightcrier.Object{Kind: "Node", Name: "n1"}, "kubectl describe node/n1"},
		{doLook, nightcrier.Object{Kind: hostKind, Name: "db.corp.example.com:5432"}, ""},
		{doLook, nightcrier.Object{Kind: clusterKind, Name: "prod"}, ""},
		{doReadLog, cart, "kubectl logs deployment/cart -n shop --all-containers --tail=50"},
		{doReadLog, nightcrier.Object{Kind: "Service", Namespace: "shop", Name: "cart"}, ""},
		{doEdit, nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "cart"}, "kubectl edit horizontalpodautoscaler/cart -n shop"},
		{doResume, cart, "kubectl rollout resume deployment/cart -n shop"},
		{doResume, nightcrier.Object{Kind: "CronJob", Namespace: "shop", Name: "bill"}, `kubectl patch cronjob/bill -n shop -p '{"spec":{"suspend":false}}'`},
		{doUncordon, nightcrier.Object{Kind: "Node", Name: "n1"}, "kubectl uncordon n1"},
		{doScale, cart, "kubectl scale deployment/cart -n shop --replicas=1"},
		{doUndo, cart, "kubectl rollout undo deployment/cart -n shop"},
		{doUndo, nightcrier.Object{Kind: "Job", Namespace: "shop", Name: "cart"}, ""},
	} {
		if got := c.do.command(c.o); got != c.want {
			t.Errorf("%d of %s: %q, want %q", c.do, c.o, got, c.want)
		}
	}
}

// Whatever an object is called, no command of ours does more than what stands in it.
func TestNamesDoNotReachAShell(t *testing.T) {
	hostile := []string{"cart; rm -rf /", "$(id)", "`id`", "--kubeconfig=/x", "a b", "a\nb", "a'b", `a"b`, "a|b", "a&b", "a>b", "../a", "*", "~", "\x1b[2J", "ｃart"}
	for _, bad := range hostile {
		for _, o := range []nightcrier.Object{
			{Kind: "Deployment", Namespace: "shop", Name: bad}, {Kind: "Deployment", Namespace: bad, Name: "cart"}, {Kind: bad, Namespace: "shop", Name: "cart"},
			{Kind: "Node", Name: bad},
		} {
			for do := doLook; do <= doUndo; do++ {
				if got := do.command(o); got != "" {
					t.Errorf("%d of %q: %q", do, o, got)
				}
			}
		}
		for _, kind := range []string{"ConfigMap", "Secret", "ServiceAccount", "StorageClass", "ResourceQuota", bad} {
			l := lack{object: nightcrier.Object{Kind: kind, Namespace: "shop", Name: bad}}
			if got := l.create(); got != "" {
				t.Errorf("%s %q: %q", kind, bad, got)
			}
		}
		l := lack{object: nightcrier.Object{Kind: "ConfigMap", Namespace: "shop", Name: "conf"}, keys: []string{bad}}
		if got := l.create(); strings.Contains(got, bad) && bad != "../a" {
			t.Errorf("key %q: %q", bad, got)
		}
	}
}

func TestCommandForALack(t *testing.T) {
	shop := func(kind, name string) nightcrier.Object {
		return nightcrier.Object{Kind: kind, Namespace: "shop", Name: name}
	}
	for want, l := range map[string]lack{
		"kubectl create configmap conf -n shop --from-file=DB_URL=FILE --from-file=b=FILE":     {object: shop("ConfigMap", "conf"), keys: []string{"DB_URL", "b"}},
		"kubectl create configmap conf -n shop --from-file=DIRECTORY":                          {object: shop("ConfigMap", "conf")},
		"kubectl create secret generic db -n shop --from-file=password=FILE":                   {object: shop("Secret", "db"), keys: []string{"password"}},
		"kubectl create secret docker-registry reg -n shop --from-file=.dockerconfigjson=FILE": {object: shop("Secret", "reg"), pulls: true},
		"kubectl create serviceaccount robot -n shop":                                          {object: shop("ServiceAccount", "robot")},
		"kubectl create priorityclass urgent --value=NUMBER":                                   {object: nightcrier.Object{Kind: "PriorityClass", Name: "urgent"}},
		"kubectl edit configmap/conf -n shop":                                                  {object: shop("ConfigMap", "conf"), keys: []string{"a"}, partial: true},
		"kubectl edit resourcequota/compute -n shop":                                           {object: shop("ResourceQuota", "compute")},
		"kubectl get storageclass":                                                             {object: nightcrier.Object{Kind: "StorageClass", Name: "fast"}},
		"kubectl get service -n shop":                                                          {object: shop("Service", "ledger")},
		"":                                                                                     {object: nightcrier.Object{Kind: hostKind, Name: "db:5432"}},
	} {
		if got := l.create(); got != want {
			t.Errorf("%s: %q, want %q", l.object, got, want)
		}
	}
}
