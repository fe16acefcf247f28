package diagnose_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// service makes a Service of the Pods labelled app=name.
func (w *world) service(t *testing.T, name string) {
	t.Helper()
	w.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}},
	}})
}

// A crash whose log names a Service leads over it to the workload that cannot start.
func TestTheRootOfANamespace(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"web", "cart", "fine"} {
		p := w.deployed(t, name)
		w.service(t, name)
		switch name {
		case "cart":
			w.ImagePullBackOff(t, p)
			w.Warn(t, p, "Failed", `Failed to pull image "registry.invalid/app:1": rpc error: code = NotFound desc = not found`)
		case "web":
			w.CrashLoop(t, p, 1, 5)
			w.SetLogs(p, true, "starting\nFATAL: dial tcp: connect to cart:8080: connection refused\n")
		default:
			w.runs(t, p)
		}
	}
	for _, target := range []nightcrier.Resource{
		{Kind: "Namespace", Name: w.ns}, {Kind: "Deployment", Namespace: w.ns, Name: "web"}, {Kind: "Alert", Namespace: w.ns, Name: "ManyErrors"},
	} {
		t.Run(target.Kind, func(t *testing.T) {
			r := w.look(t, target, w.reader).Report
			if r.RootCause == nil || r.RootCause.Cause != "image-not-found" || r.RootCause.Object.Name != "cart" {
				t.Fatalf("cause %+v, hypotheses %+v, not checked %+v", r.RootCause, r.Hypotheses, r.NotChecked)
			}
			if !slices.ContainsFunc(r.Consequences, func(c nightcrier.Consequence) bool {
				return c.Object.Name == "web" && c.Because == nightcrier.Object{Kind: "Service", Namespace: w.ns, Name: "cart"}
			}) {
				t.Errorf("consequences %+v", r.Consequences)
			}
			fine := nightcrier.Object{Kind: "Deployment", Namespace: w.ns, Name: "fine"}
			if !slices.Contains(r.Scope.Unaffected, fine) || slices.Contains(r.Scope.Affected, fine) || len(r.Scope.Affected) < 2 {
				t.Errorf("scope %+v", r.Scope)
			}
			t.Logf("%s: %d reads, %s", target.Kind, r.Usage.APIRequests, r.RootCause.Summary)
		})
	}
	t.Run("a neighbour that is well", func(t *testing.T) {
		r := w.look(t, nightcrier.Resource{Kind: "Deployment", Namespace: w.ns, Name: "fine"}, w.reader).Report
		if r.RootCause != nil {
			t.Errorf("blamed for others: %+v", r.RootCause)
		}
	})
}

// look diagnoses target as a person asks for it, when all has stood for a while.
func (w *world) look(t *testing.T, target nightcrier.Resource, reader diagnose.Reader) diagnose.Diagnosis {
	t.Helper()
	return w.lookAt(t, target, reader, later)
}

func (w *world) lookAt(t *testing.T, target nightcrier.Resource, reader diagnose.Reader, now func() time.Time) diagnose.Diagnosis {
	t.Helper()
	ev, err := evidence.Open(filepath.Join(t.TempDir(), "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close()
	d, err := diagnose.Run(t.Context(), diagnose.Input{
		Incident: &nightcrier.Incident{ID: nightcrier.NewID(), Cluster: "test", Resource: target, Severity: nightcrier.ErrorSeverity},
		Event:    nightcrier.Event{ID: "e1", Cluster: "test", FaultType: "Asked", Resource: target, Context: "look at this"},
		Reader:   reader, Evidence: ev, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	acceptable(t, d.Report, ev)
	return d
}

// Eleven workloads that were made a moment ago wait for one ConfigMap: that is one
// fault, of the ConfigMap, and none of them is called unaffected.
func TestElevenWaitForOneConfigMap(t *testing.T) {
	w := newWorld(t)
	var want []nightcrier.Object
	for i := range 11 {
		name := fmt.Sprintf("shop-%02d", i)
		w.lacksConfig(t, name, "shop-settings", "DB_URL")
		want = append(want, nightcrier.Object{Kind: "Deployment", Namespace: w.ns, Name: name})
	}
	w.deployed(t, "young")
	fine := w.deployed(t, "fine")
	w.runs(t, fine)
	fine.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	w.UpdateStatus(t, fine)
	for _, target := range []nightcrier.Resource{{Kind: "Namespace", Name: w.ns}, {Kind: "Deployment", Namespace: w.ns, Name: "shop-07"}} {
		r := w.lookAt(t, target, w.reader, time.Now).Report
		conf := nightcrier.Object{Kind: "ConfigMap", Namespace: w.ns, Name: "shop-settings"}
		if r.RootCause == nil || r.RootCause.Cause != "missing-configmap" || r.RootCause.Object != conf || len(r.Hypotheses) != 1 {
			t.Fatalf("%s: cause %+v, hypotheses %+v", target, r.RootCause, r.Hypotheses)
		}
		if first := "Create ConfigMap shop-settings with key DB_URL in namespace " + w.ns; !strings.HasPrefix(r.Actions[0].Action, first) {
			t.Errorf("%s: first %q", target, r.Actions[0].Action)
		}
		for _, o := range append(want, conf) {
			if !slices.Contains(r.Scope.Affected, o) {
				t.Errorf("%s: %s is not among those affected", target, o)
			}
		}
		if target.Kind == "Namespace" {
			unaffected, comingUp := nightcrier.Object{Kind: "Deployment", Namespace: w.ns, Name: "fine"}, nightcrier.Object{Kind: "Deployment", Namespace: w.ns, Name: "young"}
			if !slices.Equal(r.Scope.Unaffected, []nightcrier.Object{unaffected}) || !slices.Equal(r.Scope.ComingUp, []nightcrier.Object{comingUp}) {
				t.Errorf("unaffected %v, coming up %v", r.Scope.Unaffected, r.Scope.ComingUp)
			}
		}
	}
}

// lacksConfig makes a Deployment whose Pod takes a key of a ConfigMap that does not
// exist.
func (w *world) lacksConfig(t *testing.T, name, config, key string) {
	t.Helper()
	d, rs := w.Deployment(t, w.ns, name)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: rs.Name + "-x7k2p", Labels: rs.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}},
		Spec: corev1.PodSpec{NodeName: kubetest.NodeName, Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1", Env: []corev1.EnvVar{{
			Name: key, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: config}, Key: key}},
		}}}}},
	}
	w.Create(t, p)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "registry.invalid/app:1", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: fmt.Sprintf("configmap %q not found", config)},
	}}}}
	w.UpdateStatus(t, p)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UnavailableReplicas: 1}
	w.UpdateStatus(t, d)
}

func TestAWellNamespaceOfARealServer(t *testing.T) {
	w := newWorld(t)
	p := w.deployed(t, "fine")
	w.service(t, "fine")
	w.runs(t, p)
	w.Warn(t, p, "DNSConfigForming", "Nameserver limits were exceeded, some nameservers have been omitted")
	r := w.look(t, nightcrier.Resource{Kind: "Namespace", Name: w.ns}, w.reader).Report
	if r.RootCause != nil || r.Verdict == nightcrier.VerdictFault || r.Verdict == nightcrier.VerdictUndetermined {
		t.Errorf("verdict %s, cause %+v, not checked %+v", r.Verdict, r.RootCause, r.NotChecked)
	}
	if said := r.Hypotheses[0].Statement; !strings.Contains(said, "DNSConfigForming") {
		t.Errorf("the noise is not called that: %q", said)
	}
}

// A credential for Pods alone gets an answer that says what it may not read.
func TestWhatMayNotBeReadIsGrouped(t *testing.T) {
	w := newWorld(t)
	p := w.deployed(t, "crashing")
	w.CrashLoop(t, p, 3, 5)
	c, err := kube.Dial(w.AccessIn(t, w.ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, target := range []nightcrier.Resource{{Kind: "Pod", Namespace: w.ns, Name: p.Name}, {Kind: "Namespace", Name: w.ns}} {
		r := w.look(t, target, reader{c}).Report
		if r.RootCause == nil || r.RootCause.Object.Name != "crashing" {
			t.Errorf("%s: cause %+v", target, r.RootCause)
		}
		closed := slices.DeleteFunc(r.NotChecked, func(n nightcrier.NotChecked) bool { return !strings.Contains(n.Why, "may not read") })
		if len(closed) != 1 || !strings.Contains(closed[0].What, "services") || strings.Contains(closed[0].What, "secrets") {
			t.Errorf("%s: not checked %+v", target, r.NotChecked)
		}
	}
}

// crowd answers the list of Pods as a server with very many of them: one page that
// says that there are more, and those that do not run when asked for them.
type crowd struct {
	reader
	mu    sync.Mutex
	lists int
}

func (c *crowd) List(ctx context.Context, kind, ns, labels, fields string, limit int) ([]byte, error) {
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
	return c.reader.List(ctx, kind, ns, labels, fields, limit)
}

// Among more Pods than one list holds the failing ones are found, nothing is read
// Pod by Pod, and what was left out is said.
func TestManyPods(t *testing.T) {
	w := newWorld(t)
	const many = 1200
	w.crowd(t, many)
	p := w.deployed(t, "zz-broken") // after all others in the list
	w.ImagePullBackOff(t, p)
	w.Warn(t, p, "Failed", `Failed to pull image "registry.invalid/app:1": rpc error: code = NotFound desc = not found`)
	for _, target := range []nightcrier.Resource{{Kind: "Deployment", Namespace: w.ns, Name: "zz-broken"}, {Kind: "Namespace", Name: w.ns}} {
		c := &crowd{reader: w.reader}
		r := w.look(t, target, c).Report
		if r.RootCause == nil || r.RootCause.Cause != "image-not-found" || r.RootCause.Object.Name != "zz-broken" {
			t.Errorf("%s: cause %+v, not checked %+v", target, r.RootCause, r.NotChecked)
		}
		if r.Usage.APIRequests > 60 || c.lists > 40 {
			t.Errorf("%s: %d reads, %d lists", target, r.Usage.APIRequests, c.lists)
		}
		if !slices.ContainsFunc(r.NotChecked, func(n nightcrier.NotChecked) bool { return strings.Contains(n.Why, "only the first 500") }) {
			t.Errorf("%s: nobody says that there are more: %+v", target, r.NotChecked)
		}
	}
}

// crowd makes n Pods that run.
func (w *world) crowd(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	work := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range work {
				w.Create(t, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprintf("crowd-%04d", i)},
					Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}}},
				})
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
}

// slow is a cluster that takes two seconds for every answer and has nothing.
type slow struct {
	mu       sync.Mutex
	now, max int
	reads    int
}

func (s *slow) wait(ctx context.Context) error {
	s.mu.Lock()
	s.now++
	s.reads++
	s.max = max(s.max, s.now)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.now--; s.mu.Unlock() }()
	select {
	case <-time.After(2 * time.Second):
		return nil
	case <-ctx.Done():
		return nightcrier.Errorf(nightcrier.Unreachable, "no answer in time")
	}
}

func (s *slow) Get(ctx context.Context, r nightcrier.Resource) ([]byte, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":%q,"metadata":{"namespace":%q,"name":%q}}`, r.Kind, r.Namespace, r.Name), nil
}

func (s *slow) List(ctx context.Context, _, _, _, _ string, _ int) ([]byte, error) {
	return []byte(`{"metadata":{"resourceVersion":"1"},"items":[]}`), s.wait(ctx)
}

func (s *slow) Logs(ctx context.Context, _, _, _ string, _ bool, _, _ int64) ([]byte, error) {
	return nil, s.wait(ctx)
}

func (s *slow) Permissions(ctx context.Context, _ string) (map[string]any, error) {
	return map[string]any{}, s.wait(ctx)
}

type nowhere struct{ n int }

func (n *nowhere) Record(string, string, []byte) (string, error) {
	n.n++
	return fmt.Sprint("E", n.n), nil
}

// A slow API server is asked for several things at once, and not for longer than the
// bound. The clock is the test's own.
func TestASlowServer(t *testing.T) {
	for _, target := range []nightcrier.Resource{{Kind: "Pod", Namespace: "shop", Name: "cart"}, {Kind: "Namespace", Name: "shop"}} {
		synctest.Test(t, func(t *testing.T) {
			s, start := &slow{}, time.Now()
			d, err := diagnose.Run(t.Context(), diagnose.Input{
				Incident: &nightcrier.Incident{ID: "i", Cluster: "test", Resource: target}, Event: nightcrier.Event{ID: "e", Resource: target},
				Reader: s, Evidence: &nowhere{},
			})
			if err != nil || d.Report.Verdict == nightcrier.VerdictFault {
				t.Fatalf("%v, verdict %s", err, d.Report.Verdict)
			}
			if took := time.Since(start); took > 20*time.Second || s.max > 6 || s.max < 4 || s.reads != d.Report.Usage.APIRequests {
				t.Errorf("%s: %s, %d reads, %d at once", target, took, s.reads, s.max)
			}
			t.Logf("%s: %s for %d reads", target, time.Since(start), s.reads)
		})
	}
}
