package diagnose

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
}

// TestWhatIsNotFoundMayBeElsewhere: any other cluster has no such object either, so that it
// is not found counts only with something that tells which cluster was asked.
func TestWhatIsNotFoundMayBeElsewhere(t *testing.T) {
	at := func(kind, ns, name string) nightcrier.Resource {
		return nightcrier.Resource{Kind: kind, Namespace: ns, Name: name}
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}
	made := func(ns string) *appsv1.Deployment {
		d := wellDeployed(scenetest.Pod(scenetest.Ready(time.Hour))).objects["Deployment/shop/cart"].(*appsv1.Deployment).DeepCopy()
		d.Namespace, d.Status.Replicas, d.Status.ReadyReplicas = ns, 0, 0
		d.Spec.Replicas = new(int32)
		return d
	}
	set := func(ns string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cart-5d4f8c7b9d", OwnerReferences: owned("Deployment", "cart")}}
	}
	const never = "it may never have been there"
	other := []metav1.Object{namespace("default"), namespace("kube-system"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other-1"}}}
	for name, c := range map[string]struct {
		objects []metav1.Object
		shut    []string
		target  nightcrier.Resource
		source  string
		gone    string
		doubt   string
	}{
		"another cluster, a Pod":            {other, nil, at("Pod", "shop", "cart-5d4f8c7b9d-x"), "webhook", "", "neither was its namespace"},
		"another cluster, a Deployment":     {other, nil, at("Deployment", "shop", "cart"), "mcp", "", "neither was its namespace"},
		"another cluster, a claim":          {other, nil, at("PersistentVolumeClaim", "shop", "data"), "cli", "", "neither was its namespace"},
		"another cluster, a namespace":      {other, nil, at("Namespace", "", "shop"), "webhook", "", "nothing else tells which cluster"},
		"another cluster, a Node":           {other, nil, at("Node", "", "n1"), "webhook", "", "nothing else tells which cluster"},
		"every cluster has it":              {other, nil, at("Pod", "default", "cart-5d4f8c7b9d-x"), "webhook", "", "every cluster has a namespace default"},
		"an empty cluster":                  {nil, nil, at("Pod", "shop", "cart-5d4f8c7b9d-x"), "", "", "neither was its namespace"},
		"the namespace may not be read":     {nil, []string{"Namespace"}, at("Pod", "shop", "cart-5d4f8c7b9d-x"), "webhook", "", "nothing of its namespace could be read"},
		"its own namespace is there":        {[]metav1.Object{namespace("shop")}, nil, at("Deployment", "shop", "cart"), "webhook", never, ""},
		"something of its namespace":        {[]metav1.Object{settings}, []string{"Namespace"}, at("Deployment", "shop", "cart"), "webhook", never, ""},
		"its name alone tells what made it": {append(slices.Clone(other), made("default")), nil, at("Pod", "default", "cart-5d4f8c7b9d-x"), "webhook", never, ""},
		"its ReplicaSet tells what made it": {append(slices.Clone(other), made("default"), set("default")), nil, at("Pod", "default", "cart-5d4f8c7b9d-x"), "webhook", "", ""},
		"our watch saw the Pod":             {other, nil, at("Pod", "shop", "cart-5d4f8c7b9d-x"), "watch", "Namespace shop", ""},
		"our watch saw the namespace":       {other, nil, at("Namespace", "", "shop"), "watch", "Namespace/shop", ""},
		"our watch saw the Node":            {other, nil, at("Node", "", "n1"), "watch", "Node/n1", ""},
		"our watch saw a Pod in default":    {other, nil, at("Pod", "default", "cart-5d4f8c7b9d-x"), "watch", "default/Pod/cart-5d4f8c7b9d-x", ""},
		"our watch may not see namespaces":  {nil, []string{"Namespace"}, at("Deployment", "shop", "cart"), "watch", "shop/Deployment/cart", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newCluster(c.objects...)
			for _, kind := range c.shut {
				fake.fail[kind] = denied
			}
			in, m := input(fake, c.target)
			in.Event.Source = c.source
			if c.target.Kind == "Pod" { // as intake makes out by its name
				in.Incident.Owner = nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: c.target.Namespace, Name: "cart"}
			}
			d := run(t, in)
			sound(t, d, m)
			r := d.Report
			says := func(part string) bool {
				return slices.ContainsFunc(r.NotChecked, func(n nightcrier.NotChecked) bool {
					return n.What == c.target.String() && strings.Contains(n.Why, part)
				})
			}
			switch {
			case c.doubt != "" && (r.Verdict != nightcrier.VerdictUndetermined || !says(c.doubt)):
				t.Errorf("verdict %s, not checked %+v", r.Verdict, r.NotChecked)
			case c.doubt != "" && !strings.HasPrefix(r.Actions[0].Action, "See whether the credential of cluster prod-1 leads to the cluster"):
				t.Errorf("the first step is %+v", r.Actions[0])
			case c.gone == never:
				if r.Verdict != nightcrier.VerdictUndetermined || !says("does not exist") || len(r.Actions) == 0 {
					t.Errorf("verdict %s, not checked %+v", r.Verdict, r.NotChecked)
				}
			case c.doubt == "" && (r.Verdict != nightcrier.VerdictRecovered || !says("does not exist any more")):
				t.Errorf("verdict %s, not checked %+v", r.Verdict, r.NotChecked)
			case c.gone != "" && r.Hypotheses[0].Statement != c.gone+" is gone, and with it what was wrong there.":
				t.Errorf("it says %q", r.Hypotheses[0].Statement)
			}
		})
	}
}

// TestAPodIsNotJudgedAlone: what a Pod belongs to may be down though this one is well.
func TestAPodIsNotJudgedAlone(t *testing.T) {
	for kind, makers := range map[string][]string{
		"ReplicaSet": {"ReplicaSet"}, "StatefulSet": {"StatefulSet"}, "DaemonSet": {"DaemonSet"}, "Job": {"Job"}, "CloneSet": {"CloneSet"},
	} {
		for name, c := range map[string]struct {
			others []*corev1.Pod
			shut   []string
		}{
			"another one crashes":       {[]*corev1.Pod{scenetest.Pod(named("cart-2"), scenetest.Crashing(1, "Error", time.Second))}, nil},
			"no other one may be read":  {nil, []string{"Pod lists"}},
			"another one waits for it":  {[]*corev1.Pod{scenetest.Pod(named("cart-2"))}, nil},
			"another one, and no lists": {[]*corev1.Pod{scenetest.Pod(named("cart-2"), scenetest.Crashing(1, "Error", time.Second))}, []string{"Pod lists"}},
		} {
			objects := []metav1.Object{namespace("shop")}
			for _, p := range append(c.others, scenetest.Pod(scenetest.Ready(time.Hour))) {
				p.OwnerReferences = owned(kind, "cart")
				objects = append(objects, p)
			}
			fake := newCluster(objects...)
			for _, kind := range makers {
				fake.fail[kind] = denied
			}
			in, m := input(listless{fake, c.shut}, scenetest.CartPod)
			d := run(t, in)
			sound(t, d, m)
			if v := d.Report.Verdict; v == nightcrier.VerdictRecovered || v == nightcrier.VerdictHealthy {
				t.Errorf("of a %s that may not be read, %s: %s", kind, name, v)
			}
		}
	}
}

// listless is a Reader that lists no Pods where "Pod lists" are shut.
type listless struct {
	*cluster
	shut []string
}

func (u listless) List(ctx context.Context, kind, ns, labels, fields string, limit int) ([]byte, error) {
	if slices.Contains(u.shut, kind+" lists") {
		return nil, denied
	}
	return u.cluster.List(ctx, kind, ns, labels, fields, limit)
}

// TestNothingThereIsNotWell: where no workload is, none was found to be well.
func TestNothingThereIsNotWell(t *testing.T) {
	for name, target := range map[string]nightcrier.Resource{"namespace": {Kind: "Namespace", Name: "shop"}, "cluster": {Kind: "Cluster", Name: "prod-1"}} {
		for _, fault := range []string{nightcrier.Asked, "KubePodCrashLooping"} {
			in, m := input(newCluster(namespace("shop")), target)
			in.Event.FaultType = fault
			d := run(t, in)
			sound(t, d, m)
			if d.Report.Verdict != nightcrier.VerdictUndetermined || !strings.Contains(d.Report.Hypotheses[0].Statement, "no workload") {
				t.Errorf("an empty %s, %s: %s, %q", name, fault, d.Report.Verdict, d.Report.Hypotheses[0].Statement)
			}
		}
	}
}
