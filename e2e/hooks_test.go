package e2e

import (
	"strings"

	"nightcrier.dev/nightcrier/internal/run"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// hookEffects are the rows of the keys that say what others may post.
func hookEffects() map[string]func(*house) {
	// mapped is a row of a key of a mapping: what it makes of a payload.
	mapped := func(settings string, want func(nightcrier.Event) bool) func(*house) {
		return func(h *house) {
			h.start("listen: 127.0.0.1:0", "clusters: [{name: c1}, {name: c2}]", "webhooks: [{name: h, "+settings+"}]")
			status, body := h.post(h.Addr(), "h", "", map[string]any{
				"c": "c2", "ns": "shop", "app": "cart", "what": "Slow", "bad": "critical", "list": []string{"a", "b"}, "over": true, "id": 7})
			h.want(status == 200, "%d %s", status, body)
			list := h.events(store.EventFilter{})
			h.want(len(list) > 0 && want(list[0]), "%+v", list)
		}
	}
	return map[string]func(*house){
		"clusters[].alertmanager.token_env": func(h *house) {
			h.startHooks("T=token-of-c1-012345", "clusters: [{name: c1, alertmanager: {token_env: T}}]")
			without, _ := h.post(h.Addr(), "alertmanager/c1", "", notification())
			with, _ := h.post(h.Addr(), "alertmanager/c1", "token-of-c1-012345", notification())
			h.want(without == 401 && with == 200, "%d without, %d with the token", without, with)
		},
		"clusters[].alertmanager.labels": func(h *house) {
			h.start("listen: 127.0.0.1:0", "clusters: [{name: c1, alertmanager: {labels: {node: hostname}}}]")
			h.post(h.Addr(), "alertmanager/c1", "", notification(alert("Hot", "firing", "2026-11-20T10:00:00Z", "hostname=worker-3")))
			h.want(h.events(store.EventFilter{})[0].Resource.String() == "Node/worker-3", "%+v", h.events(store.EventFilter{}))
		},
		"webhook_listen": func(h *house) {
			h.startHooks("T=token-of-c1-012345", "webhook_listen: 127.0.0.1:0", "clusters: [{name: c1, alertmanager: {token_env: T}}]")
			status, _ := h.post(h.WebhookAddr(), "alertmanager/c1", "token-of-c1-012345", notification())
			h.want(status == 200 && h.get("http://"+h.WebhookAddr()+"/healthz") == 404, "%d", status)
		},
		"webhooks[].name": func(h *house) {
			h.start("listen: 127.0.0.1:0", "webhooks: [{name: pager, cluster: '\"c1\"'}]")
			status, _ := h.post(h.Addr(), "pager", "", "{}")
			other, _ := h.post(h.Addr(), "h", "", "{}")
			h.want(status == 200 && other == 404, "%d and %d", status, other)
		},
		"webhooks[].token_env": func(h *house) {
			h.startHooks("T=token-of-h-0123456", "webhooks: [{name: h, token_env: T, cluster: '\"c1\"'}]")
			without, _ := h.post(h.Addr(), "h", "", "{}")
			with, _ := h.post(h.Addr(), "h", "token-of-h-0123456", "{}")
			h.want(without == 401 && with == 200, "%d without, %d with the token", without, with)
		},
		"webhooks[].cluster":  mapped("cluster: body.c", func(e nightcrier.Event) bool { return e.Cluster == "c2" }),
		"webhooks[].items":    mapped("cluster: '\"c1\"', items: body.list, text: item", func(e nightcrier.Event) bool { return e.Context == "b" || e.Context == "a" }),
		"webhooks[].when":     mapped("cluster: '\"c1\"', when: body.id > 7.0", func(e nightcrier.Event) bool { return e.Reason == nightcrier.NotAFault }),
		"webhooks[].type":     mapped("cluster: '\"c1\"', type: body.what", func(e nightcrier.Event) bool { return e.FaultType == "Slow" }),
		"webhooks[].severity": mapped("cluster: '\"c1\"', severity: body.bad", func(e nightcrier.Event) bool { return e.Severity == nightcrier.Critical }),
		"webhooks[].text":     mapped("cluster: '\"c1\"', text: body.what", func(e nightcrier.Event) bool { return e.Context == "Slow" }),
		"webhooks[].cleared":  mapped("cluster: '\"c1\"', cleared: body.over", func(e nightcrier.Event) bool { return e.Cleared }),
		"webhooks[].object.kind": mapped("cluster: '\"c1\"', object: {kind: '\"DaemonSet\"', namespace: body.ns, name: body.app}",
			func(e nightcrier.Event) bool {
				return e.Resource.Kind == "DaemonSet" && e.Resource.APIVersion == "apps/v1"
			}),
		"webhooks[].object.namespace": mapped("cluster: '\"c1\"', object: {kind: '\"Pod\"', namespace: body.ns, name: body.app}",
			func(e nightcrier.Event) bool { return e.Resource.Namespace == "shop" }),
		"webhooks[].object.name": mapped("cluster: '\"c1\"', object: {kind: '\"Node\"', name: body.app}",
			func(e nightcrier.Event) bool { return e.Resource.String() == "Node/cart" }),
		"webhooks[].key": func(h *house) {
			h.start("listen: 127.0.0.1:0", "clusters: [{name: c1}]", "webhooks: [{name: h, cluster: '\"c1\"', key: body.id}]")
			for _, payload := range []string{`{"id":1,"at":1}`, `{"id":1,"at":2}`, `{"id":2,"at":2}`} {
				h.post(h.Addr(), "h", "", []byte(payload))
			}
			list := h.events(store.EventFilter{})
			h.want(len(list) == 2 && list[0].Repeats+list[1].Repeats == 1, "%+v", list)
		},
	}
}

// startHooks starts the product with a variable that holds a token, and checks that
// nothing tells it.
func (h *house) startHooks(variable string, text ...string) {
	h.Helper()
	_, err := h.load([]string{variable}, append([]string{"listen: 127.0.0.1:0"}, text...)...)
	h.must(err)
	h.run(func(o *app.Options) { o.Runs = func(c *run.Config) { c.Workers = h.orders } })
	_, token, _ := strings.Cut(variable, "=")
	h.t.Cleanup(func() { h.want(!strings.Contains(h.log.String(), token), "the token is in the log") })
}
