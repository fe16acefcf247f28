package diagnose_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// noneMissed fails where a list that the server gave was not understood.
func noneMissed(t *testing.T, d diagnose.Diagnosis) {
	t.Helper()
	for _, m := range d.Report.NotChecked {
		if open := strings.HasPrefix(m.What, "why ") || strings.HasPrefix(m.What, "how "); !open { // what no rule answers is no list
			t.Errorf("%s was not checked: %s", m.What, m.Why)
		}
	}
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/" + app + ":2"}}},
	}
}

// The items of a list have no kind of their own; the revisions of StatefulSets and
// DaemonSets are such a list that no rule's kind has.
func TestRevisionsOfARealList(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"StatefulSet", "DaemonSet"} {
		name, selector := strings.ToLower(kind), &metav1.LabelSelector{MatchLabels: map[string]string{"app": strings.ToLower(kind)}}
		meta := metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: selector.MatchLabels}
		var owner kubetest.Object
		if kind == "StatefulSet" {
			owner = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template(name)}}
		} else {
			owner = &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template(name)}}
		}
		w.Create(t, owner)
		for n := range 2 {
			w.Create(t, &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: w.ns, Name: fmt.Sprintf("%s-%d", name, n), Labels: selector.MatchLabels,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind(kind))},
				},
				Revision: int64(n + 1),
				Data:     runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"registry.invalid/%s:%d"}]}}}}`, name, n+1)},
			})
		}
		w.CrashLoop(t, w.Pod(t, w.ns, name+"-0", owner), 1, 5)
		d := w.diagnose(t, kind, name)
		noneMissed(t, d)
		if told := fmt.Sprintf("%+v", d.Report.Changes); !strings.Contains(told, name+":2") {
			t.Errorf("the revisions of the %s are not told: %s", kind, told)
		}
	}
}

// Where a namespace has more Events than one list tells, the first by name are not those
// that matter.
func TestEventsBeyondARealList(t *testing.T) {
	w := newWorld(t)
	p := w.deployed(t, "cart")
	w.runs(t, p)
	for i := range 505 {
		w.Create(t, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprintf("a%03d", i)},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: w.ns, Name: p.Name},
			Type:           corev1.EventTypeNormal, Reason: "Pulled", Message: "image already present", LastTimestamp: metav1.Now(),
		})
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	w.Create(t, claim)
	for _, e := range []struct{ name, kind, reason, note string }{
		{"zz-warning", corev1.EventTypeWarning, "ProvisioningFailed", "the disk shelf in row seven is full"},
		{"zz-normal", corev1.EventTypeNormal, "ExternalProvisioning", "waiting for disk.example.com to make a volume"},
	} { // of another reporter, by the newer API
		w.Create(t, &eventsv1.Event{
			TypeMeta:   metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: e.name}, EventTime: metav1.MicroTime{Time: time.Now()},
			Regarding: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: w.ns, Name: "data"},
			Type:      e.kind, Reason: e.reason, Note: e.note, Action: "Provision",
			ReportingController: "disk.example.com/provisioner", ReportingInstance: "provisioner-1",
		})
	}
	w.now = later
	target := w.ns
	w.ns = ""
	r := w.diagnose(t, "Namespace", target).Report
	if r.RootCause == nil || r.RootCause.Object.Name != "data" {
		t.Fatalf("cause %+v, not checked %+v", r.RootCause, r.NotChecked)
	}
	said := fmt.Sprintf("%+v", r)
	if !strings.Contains(said, "row seven is full") {
		t.Errorf("the Warning beyond the list is not told: %s", said)
	}
	if r.Usage.APIRequests > 60 {
		t.Errorf("%d reads", r.Usage.APIRequests)
	}
}

// A node is read where it alone can say why there is no Pod, or why one does not begin.
func TestNodesBehindARealPod(t *testing.T) {
	w := newWorld(t)
	dead := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.ns + "-dead"}}
	w.Create(t, dead)
	dead.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}}
	w.UpdateStatus(t, dead)
	w.Create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "left"},
		Spec:       corev1.PodSpec{NodeName: dead.Name, Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}}},
	})
	w.now = later
	d := w.diagnose(t, "Pod", "left")
	noneMissed(t, d)
	if rc := d.Report.RootCause; rc == nil || rc.Object.Kind != "Node" || rc.Object.Name != dead.Name {
		t.Errorf("a Pod that its dead node never took up: verdict %s, cause %+v", d.Report.Verdict, rc)
	}
	set := template("agent")
	set.Spec.NodeSelector = map[string]string{"disk": "fast"}
	w.Create(t, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: set,
	}})
	d = w.diagnose(t, "DaemonSet", "agent")
	noneMissed(t, d)
	if d.Report.Verdict == "healthy" {
		t.Errorf("a DaemonSet that fits no node is %s", d.Report.Verdict)
	}
}

// Who asks about a quota or a budget gets an answer about it.
func TestQuotaAndBudgetOfARealServer(t *testing.T) {
	w := newWorld(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "few"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
	}}
	w.Create(t, quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}
	w.UpdateStatus(t, quota)
	_, rs := w.Deployment(t, w.ns, "cart")
	w.Warn(t, rs, "FailedCreate", `Error creating: pods "cart-1" is forbidden: exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0`)
	one := intstr.FromInt32(1)
	w.Create(t, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "guarded"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}},
	}})
	w.now = later
	for kind, name := range map[string]string{"ResourceQuota": "few", "PodDisruptionBudget": "guarded"} {
		d := w.diagnose(t, kind, name)
		noneMissed(t, d)
		if rc := d.Report.RootCause; d.Report.Verdict == "healthy" || kind == "ResourceQuota" && rc == nil {
			t.Errorf("%s: verdict %s, cause %+v", kind, d.Report.Verdict, rc)
		}
	}
}
