package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// twoFaults are two reports of different classes about one Deployment, which have one
// cause: that it is out of memory.
func twoFaults(t *testing.T, when time.Time) [][]byte {
	t.Helper()
	first := faultAt(t, oom, when)
	second := bytes.Replace(bytes.Replace(first, []byte(`"CrashLoop"`), []byte(`"FailedMount"`), 1), []byte("3b1f0a9c5d7e2f41"), []byte("3b1f0a9c5d7e2f42"), 1)
	if bytes.Equal(first, second) {
		t.Fatal("the recorded fault is another one")
	}
	return [][]byte{first, second}
}

// toldOnce waits until two incidents are closed and their messages have a state, and
// checks that the younger was caused by the older and that people were told of one, or of
// both where the first message may not have arrived.
func (s *site) toldOnce() {
	s.Helper()
	var states []store.NotificationState
	var list []nightcrier.Incident
	s.eventually(func() (missing string) {
		s.look(func(st *store.Store) {
			states, list = nil, s.incidents(st)
			for _, inc := range list {
				told, without := s.told(st, inc.ID)
				states = append(states, told...)
				if missing = without; inc.Status.Open() {
					missing = "an incident is " + string(inc.Status)
				}
				if missing != "" {
					return
				}
			}
			if len(list) != 2 {
				missing = fmt.Sprintf("%d incidents", len(list))
			}
		})
		return missing
	})
	young, old := list[0], list[1]
	if young.CausedBy != old.ID || old.CausedBy != "" || young.RootCause != old.RootCause {
		s.Errorf("the younger was caused by %q (%s), the older, %s, by %q (%s)", young.CausedBy, young.RootCause, old.ID, old.CausedBy, old.RootCause)
	}
	slices.Sort(states)
	one := slices.Equal(states, []store.NotificationState{store.NotificationSent, store.NotificationSuppressed})
	doubt := slices.Equal(states, []store.NotificationState{store.NotificationSent, store.NotificationUnknown})
	if posts := len(s.slack.got()); !one && !doubt || one && posts != 1 || doubt && (posts < 1 || posts > 2) {
		s.Errorf("%d messages, which are %v", posts, states)
	}
}

// Whenever the server is killed while two faults of one cause are investigated, they
// end up linked, and people are told once: of the second as well where nobody knows
// whether the first message arrived.
func TestKilledBetweenCauseAndSymptom(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		step := int64(1)
		if strings.HasSuffix(t.Name(), "/postgres") {
			step = 5 // the same steps
		}
		for k := int64(1); k <= 20; k += step {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				s := newSiteWith(t, dsn(t), "builtin")
				faults := twoFaults(t, s.when)
				v := s.serve(func(o *order) { o.DieAtLog = k })
				if v.word() == "ready" && v.pushTo(cluster, faults[0]) && v.pushTo(cluster, faults[1]) {
					select {
					case <-v.done:
					case <-s.toldSoon(v):
						v.kill()
					}
				}
				v.gone()
				v = s.serve(nil).ready()
				for _, f := range faults { // what is known is not opened twice
					s.push(cluster, f)
				}
				s.toldOnce()
				v.term()
			})
		}
	})
}

// starves makes a Deployment whose Pod waits for a ConfigMap that does not exist.
func starves(t *testing.T, kube *kubetest.Server, ns, name string) *corev1.Pod {
	t.Helper()
	_, rs := kube.Deployment(t, ns, name)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: rs.Name + "-x2k9q", Labels: rs.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}},
		Spec: corev1.PodSpec{NodeName: kubetest.NodeName, Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1", EnvFrom: []corev1.EnvFromSource{{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
		}}}}},
	}
	kube.Create(t, p)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "registry.invalid/app:1", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `configmap "settings" not found`},
	}}}}
	kube.UpdateStatus(t, p)
	return p
}

// Alerts about two workloads that wait for one ConfigMap are two incidents and one
// message, also when one is investigated again; it is over when both are.
func TestOneCauseOfTwoAlerts(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	h := newHouse(t)
	ns := kube.Namespace(t)
	pods := map[string]*corev1.Pod{"ledger": starves(t, kube, ns, "ledger"), "web": starves(t, kube, ns, "web")}
	_, err := h.load(nil, "listen: 127.0.0.1:0", "clusters: [{name: real, kubeconfig: "+kube.ReadOnly(t)+"}]", "slack: {webhook_url: "+h.slack.URL+"}", "dedupe_window: 1m", "agent: {executor: builtin}")
	h.must(err)
	h.run(nil)
	restart := func() {
		h.must(h.Stop(context.Background()))
		h.run(nil)
	}
	says := func(name, status string) {
		a := alert("KubeContainerWaiting", status, "2026-11-20T10:00:00Z", "namespace="+ns, "pod="+pods[name].Name, "container=app")
		if status == "resolved" {
			a["endsAt"] = time.Now().UTC().Format(time.RFC3339)
		}
		code, body := h.post(h.Addr(), "alertmanager/real", "", notification(a))
		h.want(code == 200, "%d %s", code, body)
	}
	says("ledger", "firing")
	says("web", "firing")
	h.toldOnce()
	young, old := h.incidents(h.Store())[0], h.incidents(h.Store())[1]
	post := h.slack.got()[0]
	h.want(strings.Contains(post, "ConfigMap "+ns+"/settings does not exist; 2 workloads wait for it"), "the message is %s", post)

	md := h.read("/incidents/" + young.ID + "/report?format=markdown")
	h.want(strings.Contains(md, "Caused by incident "+old.ID), "the report of the second does not name the first:\n%.300s", md)

	again, err := h.Retry(t.Context(), old.ID, "")
	h.must(err)
	h.eventually(func() string {
		var n int
		list, err := h.Store().Notifications(t.Context(), old.ID)
		h.must(err)
		for _, told := range list {
			if told.RunID == again.ID && told.State == store.NotificationSuppressed && told.Reason == store.SameOutcome {
				n++
			}
		}
		return strings.Repeat("the retry is not told as suppressed", 1-min(n, 1))
	})
	says("ledger", "resolved")
	h.ahead.Store(int64(2 * time.Minute))
	says("web", "firing") // still there
	restart()
	h.want(len(h.slack.got()) == 1, "%d messages while one is still there", len(h.slack.got()))
	says("web", "resolved")
	h.ahead.Store(int64(4 * time.Minute))
	h.eventually(func() string {
		if posts := h.slack.got(); len(posts) < 2 {
			return "nobody is told that it is over"
		}
		return ""
	})
	restart()
	posts := h.slack.got()
	h.want(len(posts) == 2 && strings.Contains(posts[1], "is over") && strings.Contains(posts[1], "1 more with the same cause"), "%d messages, the last is %s", len(posts), posts[len(posts)-1])
	h.eventually(func() string { // what was not told is recorded behind what was
		c, err := h.Store().Counts(t.Context())
		h.must(err)
		if c.Notifications[store.NotificationSent] != 2 || c.Notifications[store.NotificationSuppressed] != 3 {
			return fmt.Sprintf("counted %v", c.Notifications)
		}
		return ""
	})
}

// Two alerts within a moment, of which the second is more severe, are one message: that
// an incident rose is no news to who has not heard of it.
func TestNoRiseBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("slack: {webhook_url: "+h.slack.URL+"}", working)
	inc := h.fault("d1", "warning").Incident
	d := h.fault("d1", "critical")
	h.want(d.SeverityRose && d.Incident.ID == inc.ID, "%+v", d)
	h.eventually(func() string {
		list, err := h.Store().Notifications(t.Context(), inc.ID)
		h.must(err)
		if len(list) == 0 {
			return "nothing is recorded"
		}
		h.want(list[0].State == store.NotificationSuppressed && list[0].Reason == store.NotTold, "%+v", list[0])
		return ""
	})
	close(h.orders.gate)
	h.closed(inc.ID)
	h.eventually(func() string { return strings.Repeat("no message", 1-min(1, len(h.slack.got()))) })
	h.fault("d1", "critical")
	h.want(len(h.slack.got()) == 1 && !strings.Contains(h.slack.got()[0], "rose") && strings.Contains(h.slack.got()[0], "critical"), "messages %v", h.slack.got())
}

// read is what the API answers.
func (h *house) read(path string) string {
	h.Helper()
	resp, err := http.Get("http://" + h.Addr() + "/api/v1" + path)
	h.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	h.must(err)
	return string(body)
}
