package e2e

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// What is in progress when it is looked at is looked at again by itself when it is late, and the
// report then says what it has come to; before that, and after it, nobody looks.
func TestWhatIsInProgressIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	h := newHouse(t)
	ns := kube.Namespace(t)
	kube.Create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	_, err := h.load(nil, "listen: 127.0.0.1:0", "clusters: [{name: real, kubeconfig: "+kube.ReadOnly(t)+"}]", "agent: {executor: builtin}")
	h.must(err)
	h.run(nil)
	code, body := h.post(h.Addr(), "alertmanager/real", "", notification(alert("ServiceUnreachable", "firing", time.Now().UTC().Format(time.RFC3339), "namespace="+ns, "service=web")))
	h.want(code == 200, "%d %s", code, body)
	var id string
	h.eventually(func() string {
		list := h.incidents(h.Store())
		if len(list) != 1 {
			return "there is no incident"
		}
		id = list[0].ID
		return ""
	})
	report := func() (rep nightcrier.Report) {
		t.Helper()
		raw, err := h.Store().Report(t.Context(), h.closed(id).ID)
		h.must(err)
		h.must(json.Unmarshal(raw, &rep))
		return rep
	}
	first := report()
	h.want(first.Verdict == nightcrier.VerdictUndetermined && !first.LookAgainAt.IsZero(), "the first look says %s, and looks again at %s", first.Verdict, first.LookAgainAt)
	runs := func() int {
		list, err := h.Store().Runs(t.Context(), id)
		h.must(err)
		return len(list)
	}
	queued, err := h.Store().RetryDue(t.Context())
	h.must(err)
	h.want(len(queued) == 0 && runs() == 1, "it was looked at again before it is late")

	h.ahead.Store(int64(11 * time.Minute))
	h.logs("incident is looked at again")
	h.eventually(func() string {
		if runs() < 2 {
			return "there is no second run"
		}
		return ""
	})
	then := report()
	h.want(then.Verdict == nightcrier.VerdictFault && then.RootCause != nil && then.RootCause.Cause == "service-load-balancer-pending" && then.LookAgainAt.IsZero(),
		"the second look says %s, cause %+v, and looks again at %s", then.Verdict, then.RootCause, then.LookAgainAt)
	queued, err = h.Store().RetryDue(t.Context())
	h.must(err)
	h.want(len(queued) == 0 && runs() == 2, "it is looked at a third time")
}
