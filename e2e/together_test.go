package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// What a watch, an MCP server and an alert say of one fault is one incident. The
// watch sees it, so its end is what the watch says.
func TestOneFaultFromThreeSources(t *testing.T) {
	t.Parallel()
	h, cluster := newHouse(t), apitest.New(t)
	_, err := h.load(nil, "listen: 127.0.0.1:0", "clusters: [{name: c1, watch: true, kubeconfig: "+cluster.Kubeconfig(t)+", mcp: {endpoint: "+h.peer.URL("c1")+"}}]")
	h.must(err)
	h.run(func(o *app.Options) {
		o.Runs = func(c *run.Config) { c.Workers = h.orders }
		o.WatchTimings, o.WatchPatience = watchTimings(), watchPatience
	})
	const pod = "cart-6d4c6b9d8-x2x9z"
	owned := func(name, kind, owner, rest string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"shop","uid":"uid-of-%s","labels":{"pod-template-hash":"6d4c6b9d8"},"creationTimestamp":"2026-01-01T00:00:00Z",
			"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":"u","controller":true}]}%s}`, name, name, kind, owner, rest)
	}
	status := func(ready bool, state string) string {
		return fmt.Sprintf(`,"spec":{"nodeName":"n1","containers":[{"name":"app"}]},"status":{"phase":"Running","containerStatuses":[{"name":"app","ready":%t,"restartCount":7,
			"lastState":{"terminated":{"exitCode":1,"reason":"Error","finishedAt":%q}},"state":%s}]}`, ready, time.Now().UTC().Format(time.RFC3339), state)
	}
	cluster.Put("replicasets", "shop", "cart-6d4c6b9d8", owned("cart-6d4c6b9d8", "Deployment", "cart", ""))
	cluster.Put("pods", "shop", pod, owned(pod, "ReplicaSet", "cart-6d4c6b9d8", status(false, `{"waiting":{"reason":"CrashLoopBackOff"}}`)))
	h.push("c1", []byte(`{"subscriptionId":"s","cluster":"theirs","faultId":"f1","faultType":"CrashLoop","severity":"critical","context":"it crashes",
		"resource":{"apiVersion":"v1","kind":"Pod","name":"`+pod+`","namespace":"shop","uid":"uid-of-`+pod+`"},"timestamp":"2026-11-20T10:00:00Z"}`))
	crash := alert("KubePodCrashLooping", "firing", "2026-11-20T10:00:00Z", "namespace=shop", "pod="+pod, "container=app")
	code, body := h.post(h.Addr(), "alertmanager/c1", "", notification(crash))
	h.want(code == 200, "%d %s", code, body)

	only := func() nightcrier.Incident {
		h.Helper()
		list := h.incidents(h.Store())
		h.want(len(list) <= 1, "%+v", list)
		if len(list) == 0 {
			return nightcrier.Incident{}
		}
		return list[0]
	}
	h.eventually(func() string {
		seenBy := slices.Sorted(slices.Values(only().SeenBy))
		if !slices.Equal(seenBy, []string{"mcp", "watch", "webhook"}) {
			return fmt.Sprintf("seen by %v", seenBy)
		}
		return ""
	})
	inc := only()
	h.want(inc.Owner.String() == "shop/Deployment/cart" && inc.Condition == nightcrier.ConditionActive, "%+v", inc)
	h.counts(1, 0)

	crash["status"], crash["endsAt"] = "resolved", "2026-11-20T11:00:00Z"
	h.post(h.Addr(), "alertmanager/c1", "", notification(crash))
	h.want(h.condition(inc.ID) == nightcrier.ConditionActive, "over, and the watch sees it")
	cluster.Put("pods", "shop", pod, owned(pod, "ReplicaSet", "cart-6d4c6b9d8", status(true, `{"running":{"startedAt":"2026-11-20T10:00:00Z"}}`)))
	h.eventually(func() string {
		return map[bool]string{false: "not over"}[h.condition(inc.ID) == nightcrier.ConditionCleared]
	})
	only()
}
