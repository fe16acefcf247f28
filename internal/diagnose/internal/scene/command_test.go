package scene

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestCommandOfAStep(t *testing.T) {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	for _, c := range []struct {
		do   Deed
		o    nightcrier.Object
		want string
	}{
		{DoLook, cart, "kubectl describe deployment/cart -n shop"},
		{DoLook, nightcrier.Object{Kind: "Node", Name: "n1"}, "kubectl describe node/n1"},
		{DoLook, nightcrier.Object{Kind: HostKind, Name: "db.corp.example.com:5432"}, ""},
		{DoLook, nightcrier.Object{Kind: ClusterKind, Name: "prod"}, ""},
		{DoReadLog, cart, "kubectl logs deployment/cart -n shop --all-containers --tail=50"},
		{DoReadLog, nightcrier.Object{Kind: "Service", Namespace: "shop", Name: "cart"}, ""},
		{DoEdit, nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "cart"}, "kubectl edit horizontalpodautoscaler/cart -n shop"},
		{DoResume, cart, "kubectl rollout resume deployment/cart -n shop"},
		{DoResume, nightcrier.Object{Kind: "CronJob", Namespace: "shop", Name: "bill"}, `kubectl patch cronjob/bill -n shop -p '{"spec":{"suspend":false}}'`},
		{DoUncordon, nightcrier.Object{Kind: "Node", Name: "n1"}, "kubectl uncordon n1"},
		{DoScale, cart, "kubectl scale deployment/cart -n shop --replicas=1"},
		{DoUndo, cart, "kubectl rollout undo deployment/cart -n shop"},
		{DoUndo, nightcrier.Object{Kind: "Job", Namespace: "shop", Name: "cart"}, ""},
	} {
		if got := c.do.Command(c.o); got != c.want {
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
			for do := DoLook; do <= DoUndo; do++ {
				if got := do.Command(o); got != "" {
					t.Errorf("%d of %q: %q", do, o, got)
				}
			}
		}
		for _, kind := range []string{"ConfigMap", "Secret", "ServiceAccount", "StorageClass", "ResourceQuota", bad} {
			l := Lack{Object: nightcrier.Object{Kind: kind, Namespace: "shop", Name: bad}}
			if got := l.create(); got != "" {
				t.Errorf("%s %q: %q", kind, bad, got)
			}
		}
		l := Lack{Object: nightcrier.Object{Kind: "ConfigMap", Namespace: "shop", Name: "conf"}, Keys: []string{bad}}
		if got := l.create(); strings.Contains(got, bad) && bad != "../a" {
			t.Errorf("key %q: %q", bad, got)
		}
	}
}

func TestCommandForALack(t *testing.T) {
	shop := func(kind, name string) nightcrier.Object {
		return nightcrier.Object{Kind: kind, Namespace: "shop", Name: name}
	}
	for want, l := range map[string]Lack{
		"kubectl create configmap conf -n shop --from-file=DB_URL=FILE --from-file=b=FILE":     {Object: shop("ConfigMap", "conf"), Keys: []string{"DB_URL", "b"}},
		"kubectl create configmap conf -n shop --from-file=DIRECTORY":                          {Object: shop("ConfigMap", "conf")},
		"kubectl create secret generic db -n shop --from-file=password=FILE":                   {Object: shop("Secret", "db"), Keys: []string{"password"}},
		"kubectl create secret docker-registry reg -n shop --from-file=.dockerconfigjson=FILE": {Object: shop("Secret", "reg"), Pulls: true},
		"kubectl create serviceaccount robot -n shop":                                          {Object: shop("ServiceAccount", "robot")},
		"kubectl create priorityclass urgent --value=NUMBER":                                   {Object: nightcrier.Object{Kind: "PriorityClass", Name: "urgent"}},
		"kubectl edit configmap/conf -n shop":                                                  {Object: shop("ConfigMap", "conf"), Keys: []string{"a"}, partial: true},
		"kubectl edit resourcequota/compute -n shop":                                           {Object: shop("ResourceQuota", "compute")},
		"kubectl get storageclass":                                                             {Object: nightcrier.Object{Kind: "StorageClass", Name: "fast"}},
		"kubectl get service -n shop":                                                          {Object: shop("Service", "ledger")},
		"":                                                                                     {Object: nightcrier.Object{Kind: HostKind, Name: "db:5432"}},
	} {
		if got := l.create(); got != want {
			t.Errorf("%s: %q, want %q", l.Object, got, want)
		}
	}
}
