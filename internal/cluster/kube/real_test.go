package kube_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func dial(t *testing.T, kubeconfig string) *kube.Client {
	t.Helper()
	c, err := kube.Dial(kubeconfig, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func resource(kind string, o metav1.Object) nightcrier.Resource {
	return nightcrier.Resource{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func TestReadsOfARealServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "cart", nil)
	s.Warn(t, pod, "BackOff", "Back-off restarting failed container")
	c := dial(t, s.ReadOnly(t))

	if v, err := c.Version(t.Context()); err != nil || !strings.HasPrefix(v, "v1.") {
		t.Errorf("version %q, %v", v, err)
	}
	body, err := c.Get(t.Context(), resource("Pod", pod))
	var got corev1.Pod
	if err != nil || json.Unmarshal(body, &got) != nil || got.Kind != "Pod" || got.UID != pod.UID {
		t.Errorf("pod %s, %v", body, err)
	}
	body, err = c.List(t.Context(), "Event", ns, "", "involvedObject.kind=Pod,involvedObject.name=cart", 10)
	var events corev1.EventList
	if err != nil || json.Unmarshal(body, &events) != nil || len(events.Items) != 1 {
		t.Errorf("events %s, %v", body, err)
	}
	if _, err = c.Get(t.Context(), nightcrier.Resource{Kind: "Pod", Namespace: ns, Name: "nobody"}); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("missing pod: %v", err)
	}
	if _, err = c.Get(t.Context(), nightcrier.Resource{Kind: "Secret", Namespace: ns, Name: "x"}); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("secret: %v", err)
	}
	lease := nightcrier.Resource{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: ns, Name: "x"}
	if _, err = dial(t, s.Kubeconfig).Get(t.Context(), lease); nightcrier.CodeOf(err) != nightcrier.NotFound || !strings.Contains(err.Error(), "leases") {
		t.Errorf("a kind that must be discovered: %v", err)
	}
}

func TestLogsOfARealServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "cart", nil)
	s.SetLogs(pod, false, "one\ntwo\nthree\n")
	c := dial(t, s.ReadOnly(t))
	body, err := c.Logs(t.Context(), ns, "cart", "app", false, 2, 0)
	if err != nil || string(body) != "two\nthree\n" && string(body) != "two\nthree" {
		t.Errorf("log %q, %v", body, err)
	}
	if _, err = c.Logs(t.Context(), ns, "cart", "app", true, 2, 0); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("previous log that is not there: %v", err)
	}
	if _, err = dial(t, s.CannotList(t)).Logs(t.Context(), ns, "cart", "app", false, 2, 0); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("log that may not be read: %v", err)
	}
}

func TestSecretComesWithoutItsData(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, StringData: map[string]string{"password": "hunter2"}}
	s.Create(t, secret)
	c := dial(t, s.Kubeconfig)
	one, err := c.Get(t.Context(), resource("Secret", secret))
	if err != nil || strings.Contains(string(one), "aHVudGVyMg") || !strings.Contains(string(one), `"db"`) {
		t.Errorf("get: %s, %v", one, err)
	}
	all, err := c.List(t.Context(), "Secret", ns, "", "", 0)
	if err != nil || strings.Contains(string(all), "aHVudGVyMg") || !strings.Contains(string(all), `"db"`) {
		t.Errorf("list: %s, %v", all, err)
	}
}

func TestOwnerFollowsControllers(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	deploy, rs := s.Deployment(t, ns, "cart")
	owned := s.Pod(t, ns, rs.Name+"-x7k2p", rs)
	alone := s.Pod(t, ns, "alone", nil)
	cron, job := cronJob(t, s, ns)
	ofJob := s.Pod(t, ns, job.Name+"-x7k2p", job)
	c := dial(t, s.ReadOnly(t))

	cases := []struct {
		name string
		of   nightcrier.Resource
		want nightcrier.Resource
	}{
		{"pod of a deployment", resource("Pod", owned), resource("Deployment", deploy)},
		{"replica set", resource("ReplicaSet", rs), resource("Deployment", deploy)},
		{"pod of a cron job", resource("Pod", ofJob), resource("CronJob", cron)},
		{"pod alone", resource("Pod", alone), resource("Pod", alone)},
		{"deployment", resource("Deployment", deploy), resource("Deployment", deploy)},
		{"node", nightcrier.Resource{Kind: "Node", Name: "n1"}, nightcrier.Resource{Kind: "Node", Name: "n1"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := c.Owner(t.Context(), tc.of)
			if err != nil || got.String() != tc.want.String() {
				t.Errorf("%s, %v; want %s", got, err, tc.want)
			}
		})
	}
	t.Run("pod that is gone", func(t *testing.T) {
		got, err := c.Owner(t.Context(), nightcrier.Resource{Kind: "Pod", Namespace: ns, Name: "web-7d4b9c8f6d-x7k2p"})
		if nightcrier.CodeOf(err) != nightcrier.NotFound || got.String() != ns+"/Pod/web-7d4b9c8f6d-x7k2p" {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("replica set that may not be read", func(t *testing.T) {
		got, err := dial(t, s.CannotList(t)).Owner(t.Context(), resource("Pod", owned))
		if nightcrier.CodeOf(err) != nightcrier.Refused || got.String() != resource("ReplicaSet", rs).String() {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func cronJob(t *testing.T, s *kubetest.Server, ns string) (*batchv1.CronJob, *batchv1.Job) {
	t.Helper()
	spec := batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}},
	}}}
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "report"},
		Spec:       batchv1.CronJobSpec{Schedule: "0 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: spec}},
	}
	s.Create(t, cron)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "report-29384756",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
	}, Spec: spec}
	s.Create(t, job)
	return cron, job
}

func TestCheckSaysWhatIsMissing(t *testing.T) {
	s := kubetest.Start(t)
	if err := dial(t, s.ReadOnly(t)).Check(t.Context()); err != nil {
		t.Errorf("a reader: %v", err)
	}
	err := dial(t, s.CannotList(t)).Check(t.Context())
	if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "may not list Pods and Events") {
		t.Errorf("one that cannot list: %v", err)
	}
	cfg := *s.Config
	cfg.BearerToken = "wrong"
	wrong, err := kube.New(&cfg, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.Check(t.Context()); nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "does not accept") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong token: %v", err)
	}
}

func TestStoppedServerIsUnreachable(t *testing.T) {
	s := kubetest.Isolated(t)
	c := dial(t, s.Kubeconfig)
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	err := c.Check(t.Context())
	if nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), strings.TrimPrefix(s.URL, "https://")) {
		t.Errorf("%v", err)
	}
	if strings.Contains(err.Error(), s.Config.BearerToken) {
		t.Errorf("the error holds the token: %v", err)
	}
}

// TestKindsAreARealServers holds the table of kinds against what a server says of itself.
func TestKindsAreARealServers(t *testing.T) {
	s := kubetest.Start(t)
	c := dial(t, s.Kubeconfig)
	served := map[string]*metav1.APIResourceList{}
	for k := range kinds.All() {
		if k.Use == kinds.Optional {
			continue
		}
		list := served[k.APIVersion()]
		if list == nil {
			root := strings.TrimSuffix(kinds.Kind{Group: k.Group, Version: k.Version}.Path(""), "/")
			body, err := c.Read(t.Context(), root, nil, "application/json", 0)
			if err = cmp.Or(err, json.Unmarshal(body, &list)); err != nil {
				t.Fatalf("%s: %v", root, err)
			}
			served[k.APIVersion()] = list
		}
		i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Plural })
		if i < 0 {
			t.Errorf("no %s in %s", k.Plural, k.APIVersion())
			continue
		}
		r := list.APIResources[i]
		if r.Kind != k.Name || r.Namespaced == k.ClusterWide || !slices.Equal(r.ShortNames, k.Shorts()) && len(r.ShortNames)+len(k.Shorts()) > 0 {
			t.Errorf("the server has %s %s, short %q, namespaced %t; the table %+v", r.Kind, r.Name, r.ShortNames, r.Namespaced, k)
		}
	}
}
