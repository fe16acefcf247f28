package mcpserver_test

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func TestToolsOverHTTP(t *testing.T) {
	s := kubetest.Start(t)
	ns := shop(t, s)
	url, _ := serve(t, config(cluster(t, "prod", s.Kubeconfig)))
	c := connect(t, url, nil)
	if v := c.InitializeResult().ProtocolVersion; v != "2025-11-25" {
		t.Errorf("protocol %s", v)
	}
	text := c.must(t, "kubernetes_list", map[string]any{"kind": "pods", "namespace": ns})
	if !strings.Contains(text, "CrashLoopBackOff") {
		t.Errorf("list:\n%s", text)
	}
	if text, bad := c.call(t, "kubernetes_get", map[string]any{"kind": "pod", "namespace": ns, "name": "nobody"}); !bad || !strings.Contains(text, "not found") {
		t.Errorf("a read that fails: %t %s", bad, text)
	}
	if text, bad := c.call(t, "kubernetes_list", map[string]any{"kind": "pods", "context": "x"}); !bad || !strings.Contains(text, `"context" is not known`) {
		t.Errorf("a context where there is one cluster: %t %s", bad, text)
	}
}

func TestFaultsArePushed(t *testing.T) {
	s := kubetest.Start(t)
	ns := shop(t, s)
	url, _ := serve(t, config(cluster(t, "prod", s.Kubeconfig)))
	c := connect(t, url, nil)
	c.level(t, "warning")
	id := c.subscribe(t, map[string]any{"mode": "faults", "namespaces": []string{ns}})
	n := c.next(t, of(ns))
	if n.SubscriptionID != id || n.Cluster != "prod" || n.FaultType != "CrashLoop" || !strings.HasPrefix(n.Owner.Name, "cart") || n.FaultID == "" || n.logger != "kubernetes/faults" {
		t.Errorf("%s", n.raw)
	}
	if text := c.must(t, "events_list_subscriptions", nil); !strings.Contains(text, id) || !strings.Contains(text, `"degraded": false`) || !strings.Contains(text, `"total": 1`) {
		t.Errorf("list:\n%s", text)
	}
	for range 2 {
		c.must(t, "events_unsubscribe", map[string]any{"subscriptionId": id})
	}
	if text := c.must(t, "events_list_subscriptions", nil); !strings.Contains(text, `"total": 0`) {
		t.Errorf("list:\n%s", text)
	}
}

// What the cluster says may hold secrets; no notification does.
func TestNotificationsAreMasked(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	url, _ := serve(t, config(cluster(t, "prod", s.Kubeconfig)))
	c := connect(t, url, nil)
	c.level(t, "info")
	c.subscribe(t, map[string]any{"mode": "events", "namespaces": []string{ns}})
	pod := s.Pod(t, ns, "cart", nil)
	s.Warn(t, pod, "Failed", "login failed: password=canary-of-an-event \x1b[2J")
	n := c.next(t, func(n notification) bool { return n.Event != nil && n.Event.Reason == "Failed" })
	if strings.Contains(n.raw, "canary") || !strings.Contains(n.Event.Message, "login failed: password=‹secret:") {
		t.Errorf("%s", n.raw)
	}
}

// A fault's context is bounded: the part of a secret that is left by a cut is not
// known for one any more.
func TestFaultsAreMaskedBeforeTheyAreCut(t *testing.T) {
	const token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for _, before := range []int{300, 380, 400, 420, 440, 460} {
		f := newFake()
		prod := f.cluster("prod")
		prod.Mask = mask.New([]byte("key")).Bytes
		url, _ := serve(t, config(prod))
		c := connect(t, url, nil)
		c.level(t, "warning")
		c.subscribe(t, map[string]any{"mode": "faults"})
		f.send(t, f.pods, strings.Replace(crashing("cart"), `"exitCode":1`, `"exitCode":1,"message":"`+strings.Repeat("x ", before/2)+token+`"`, 1))
		if n := c.next(t, named("cart")); strings.Contains(n.raw, token[:12]) {
			t.Errorf("%d bytes before it: %s", before, n.raw)
		}
	}
}
