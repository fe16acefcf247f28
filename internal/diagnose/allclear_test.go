package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

var denied = nightcrier.Errorf(nightcrier.Refused, "forbidden: the credential may not read this")

func owned(kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "u", Controller: &yes}}
}

// broken are namespaces in which something is wrong, and what a report may be about there.
func broken() map[string]struct {
	objects []metav1.Object
	wrong   nightcrier.Object
	targets []nightcrier.Resource
} {
	hourAgo := metav1.NewTime(scenetest.Now.Add(-time.Hour))
	app := map[string]string{"app": "cart", "pod-template-hash": "5d4f8c7b9d"}
	two := int32(2)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
	deployment := func(made, ready int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", CreationTimestamp: hourAgo, Generation: 1},
			Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: selector, Template: template}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: made, ReadyReplicas: ready, UpdatedReplicas: made, AvailableReplicas: ready}}
	}
	set := func(made, ready int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-5d4f8c7b9d", CreationTimestamp: hourAgo, Labels: app, OwnerReferences: owned("Deployment", "cart")},
			Spec: appsv1.ReplicaSetSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: template}, Status: appsv1.ReplicaSetStatus{Replicas: made, ReadyReplicas: ready}}
	}
	member := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := scenetest.Pod(change...)
		p.Name, p.Labels, p.OwnerReferences = "cart-5d4f8c7b9d-"+name, app, owned("ReplicaSet", "cart-5d4f8c7b9d")
		return p
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", CreationTimestamp: hourAgo}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "cart"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bill", CreationTimestamp: hourAgo},
		Spec:   batchv1.JobSpec{Template: template},
		Status: batchv1.JobStatus{Failed: 7, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", LastTransitionTime: hourAgo}}}}
	nightly := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", CreationTimestamp: hourAgo}, Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *"}}
	tonight := job.DeepCopy()
	tonight.Name, tonight.OwnerReferences = "nightly-29400000", owned("CronJob", "nightly")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: hourAgo}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", CreationTimestamp: hourAgo}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	whole := []nightcrier.Resource{{Kind: "Namespace", Name: "shop"}, {Kind: "Cluster", Name: "prod-1"}}
	of := func(kind, name string) nightcrier.Resource {
		return nightcrier.Resource{Kind: kind, Namespace: "shop", Name: name}
	}
	cartDeployment := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	type scene = struct {
		objects []metav1.Object
		wrong   nightcrier.Object
		targets []nightcrier.Resource
	}
	return map[string]scene{
		"it crashes": {[]metav1.Object{ns, node, service, deployment(2, 0), set(2, 0), member("a", scenetest.Crashing(1, "Error", time.Second)), member("b", scenetest.Crashing(1, "Error", time.Second))}, cartDeployment,
			append(slices.Clone(whole), of("Pod", "cart-5d4f8c7b9d-a"), of("Pod", "cart-5d4f8c7b9d-gone"), of("Deployment", "cart"), of("Service", "cart"))},
		"it has no Pods": {[]metav1.Object{ns, node, service, deployment(0, 0), set(0, 0)}, cartDeployment,
			append(slices.Clone(whole), of("Pod", "cart-5d4f8c7b9d-gone"), of("Deployment", "cart"), of("Service", "cart"))},
		"a Job failed": {[]metav1.Object{ns, node, job}, nightcrier.Object{Kind: "Job", Namespace: "shop", Name: "bill"},
			append(slices.Clone(whole), of("Pod", "bill-gone"), of("Job", "bill"))},
		"a CronJob failed": {[]metav1.Object{ns, node, nightly, tonight}, nightcrier.Object{Kind: "CronJob", Namespace: "shop", Name: "nightly"},
			append(slices.Clone(whole), of("CronJob", "nightly"))},
	}
}

// partial are credentials that may read a part only: all but one kind, all but two, one, none.
func partial() (all [][]string) {
	kinds := append(collect.KindsAround(), "ReplicaSet", "Namespace", "Node", "Permissions")
	for i, a := range kinds {
		all = append(all, []string{a}, slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == a }))
		for _, b := range kinds[:i] {
			all = append(all, []string{a, b})
		}
	}
	return append(all, kinds)
}

// Whatever a credential may not read, nothing that is broken is called well, and no report
// about it says that nothing needs mending.
func TestNoAllClearFromAPart(t *testing.T) {
	wrong := map[string]int{}
	for name, s := range broken() {
		for _, target := range s.targets {
			for _, shut := range partial() {
				c := newCluster(s.objects...)
				for _, kind := range shut {
					c.fail[kind] = denied
				}
				in, _ := input(c, target)
				in.Event.FaultType = "KubePodCrashLooping"
				in.Incident.Owner = nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: s.wrong.Name} // a guess
				r := run(t, in).Report
				if r.Verdict == nightcrier.VerdictHealthy || r.Verdict == nightcrier.VerdictRecovered {
					wrong[fmt.Sprintf("%s: about %s it says %s", name, target, r.Verdict)]++
					if len(shut) < 2 {
						t.Logf("%s: about %s it says %s, shut %s", name, target, r.Verdict, strings.Join(shut, " "))
					}
				}
				if slices.Contains(r.Scope.Unaffected, s.wrong) {
					wrong[fmt.Sprintf("%s: about %s, it is unaffected", name, target)]++
				}
			}
		}
	}
	for what, n := range wrong {
		t.Errorf("%s, for %d credentials", what, n)
	}
}
