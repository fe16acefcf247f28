package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run"

	"nightcrier.dev/nightcrier/internal/face/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/store/storetest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

const hooks = "/api/v1/webhooks/"

// post sends a payload to a webhook and returns the answer's status and body.
func (h *house) post(addr, path, token string, body any) (int, string) {
	h.Helper()
	raw, ok := body.([]byte)
	if !ok {
		var err error
		raw, err = json.Marshal(body)
		h.must(err)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://"+addr+hooks+path, bytes.NewReader(raw))
	h.must(err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	h.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	h.must(err)
	return resp.StatusCode, string(text)
}

// alert is one of kube-prometheus, with the labels of the exporter in it.
func alert(name, status, startsAt string, labels ...string) map[string]any {
	all := map[string]string{"alertname": name, "severity": "critical", "job": "kube-state-metrics", "instance": "10.42.0.9:8080"}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		all[k] = v
	}
	return map[string]any{"status": status, "labels": all, "annotations": map[string]string{"summary": name + " says something is wrong"},
		"startsAt": startsAt, "endsAt": "0001-01-01T00:00:00Z", "fingerprint": nightcrier.DerivedID(append(labels, name)...)[:18]}
}

func notification(alerts ...any) map[string]any {
	return map[string]any{"version": "4", "groupKey": `{}:{namespace="shop"}`, "truncatedAlerts": 0, "status": "firing", "receiver": "nightcrier",
		"groupLabels": map[string]string{"namespace": "shop"}, "commonLabels": map[string]string{}, "commonAnnotations": map[string]string{},
		"externalURL": "http://alertmanager:9093", "alerts": alerts}
}

func (h *house) events(f store.EventFilter) []nightcrier.Event {
	h.Helper()
	f.Limit = 1000
	list, _, err := h.Store().Events(h.t.Context(), f)
	h.must(err)
	return list
}

func (h *house) condition(id string) nightcrier.Condition {
	h.Helper()
	inc, err := h.Store().Incident(h.t.Context(), id)
	h.must(err)
	return inc.Condition
}

// An alert that is sent all the time is one event of one incident, counted; its
// Deployment's other alerts join; it ends, and fires again.
func TestAlertsBecomeIncidents(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("listen: 127.0.0.1:0", "clusters: [{name: prod}]", "dedupe_window: 5m")
	const since = "2026-11-20T10:00:00Z"
	mismatch := alert("KubeDeploymentReplicasMismatch", "firing", since, "namespace=shop", "deployment=cart", "pod=kube-state-metrics-6d4c6b9d8-zx2vl", "container=kube-state-metrics")
	crash := alert("KubePodCrashLooping", "firing", since, "namespace=shop", "pod=cart-6d4c6b9d8-x2x9z", "container=cart")
	watchdog := alert("Watchdog", "firing", since)
	status, body := h.post(h.Addr(), "alertmanager/prod", "", notification(mismatch, crash, watchdog))
	h.want(status == 200 && body == `{"received":3,"opened":1,"joined":1,"suppressed":1,"repeated":0}`+"\n", "%d %s", status, body)
	first := h.ended()
	h.want(first.Owner.String() == "shop/Deployment/cart" && first.Severity == nightcrier.Critical && first.EventCount == 2, "%+v", first)
	h.want(strings.Contains(first.Context, "says something is wrong"), "%s", first.Context)

	for range 50 { // what repeat_interval does, long after the dedupe window
		h.ahead.Add(int64(time.Hour))
		_, body = h.post(h.Addr(), "alertmanager/prod", "", notification(mismatch, crash, watchdog))
	}
	h.want(body == `{"received":3,"opened":0,"joined":0,"suppressed":0,"repeated":3}`+"\n", "%s", body)
	list := h.events(store.EventFilter{})
	h.want(len(list) == 3 && list[0].Repeats == 50 && list[2].Repeats == 50, "%d events: %+v", len(list), list)
	again, err := h.Store().Incident(t.Context(), first.ID)
	h.must(err)
	h.want(again.EventCount == 102, "%d deliveries are counted", again.EventCount)

	mismatch["status"], mismatch["endsAt"] = "resolved", "2026-11-22T12:00:00Z"
	_, body = h.post(h.Addr(), "alertmanager/prod", "", notification(mismatch))
	cleared := h.events(store.EventFilter{})[0]
	h.want(cleared.Cleared && cleared.IncidentID == first.ID && !strings.Contains(body, `"opened":1`), "%s, %+v", body, cleared)
	h.want(h.condition(first.ID) == nightcrier.ConditionActive, "over, and a Pod of it still crashes")
	crash["status"] = "resolved"
	h.post(h.Addr(), "alertmanager/prod", "", notification(crash))
	h.want(h.condition(first.ID) == nightcrier.ConditionCleared, "not over, and all its alerts are")

	h.ahead.Add(int64(time.Hour))
	next := alert("KubeDeploymentReplicasMismatch", "firing", "2026-11-23T10:00:00Z", "namespace=shop", "deployment=cart")
	_, body = h.post(h.Addr(), "alertmanager/prod", "", notification(next))
	h.want(strings.Contains(body, `"opened":1`), "%s", body)
	second := h.ended()
	h.want(second.ID != first.ID && second.PreviousID == first.ID, "%+v", second)
	s := h.Statuses()[0]
	h.want(s.Source == "webhook" && s.Cluster == "prod" && s.Events == 156, "%+v", s)
}

// An alert that is about nothing in a cluster is investigated all the same, with
// and without a credential.
func TestAlertWithoutObject(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	path, _ := h.kubeconfig()
	h.start("listen: 127.0.0.1:0", "clusters: [{name: prod}, {name: seen, kubeconfig: "+path+"}]")
	for _, cluster := range []string{"prod", "seen"} {
		status, body := h.post(h.Addr(), "alertmanager/"+cluster, "", notification(alert("KubeAPIErrorBudgetBurn", "firing", "2026-11-20T10:00:00Z", "long=1h")))
		h.want(status == 200 && strings.Contains(body, `"opened":1`), "%d %s", status, body)
		inc := h.ended()
		h.want(inc.Cluster == cluster && inc.Status == nightcrier.Resolved && inc.Resource.Kind == "Alert", "%s of %s is %s: %s", inc.Resource, inc.Cluster, inc.Status, inc.FailureReason)
		md := h.inWorkspace(inc, "output/investigation.md")
		h.want(strings.Contains(md, "KubeAPIErrorBudgetBurn"), "%s", md)
	}
}

// What cannot be a name in a cluster is kept with its reason, and so is that
// alerts were left out.
func TestHostileAlerts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("listen: 127.0.0.1:0", "clusters: [{name: prod}]")
	n := notification(alert("KubePodCrashLooping", "firing", "2026-11-20T10:00:00Z", "namespace=shop", "pod=../../etc"), map[string]any{"labels": 7})
	n["truncatedAlerts"] = 12
	status, body := h.post(h.Addr(), "alertmanager/prod", "", n)
	h.want(status == 200 && strings.Contains(body, `"suppressed":3`), "%d %s", status, body)
	status, _ = h.post(h.Addr(), "alertmanager/prod", "", []byte("not JSON"))
	h.want(status == 400, "%d", status)
	h.want(len(h.events(store.EventFilter{Reason: nightcrier.Malformed})) == 3, "not all malformed ones are kept")
	left := h.events(store.EventFilter{Reason: nightcrier.SubscriptionErr})
	h.want(len(left) == 1 && strings.Contains(left[0].Context, "left 12 alerts"), "%+v", left)
	h.want(strings.Contains(h.Statuses()[0].LastError, "payload"), "%+v", h.Statuses())
	h.want(strings.Contains(h.log.String(), "left 12 alerts"), "nobody says that alerts were left out")
}

// One alert sent thousands of times leaves a store of the size that one leaves; the
// benchmark BenchmarkAlertRepeated sends it more often.
func TestOneAlertManyTimes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("listen: 127.0.0.1:0", "clusters: [{name: prod}]", working, "log: {level: warn}")
	one := alert("KubePodCrashLooping", "firing", "2026-11-20T10:00:00Z", "namespace=shop", "pod=cart-6d4c6b9d8-x2x9z")
	one["annotations"] = map[string]string{"description": strings.Repeat("It is still so. ", 50)}
	var same []any
	for range 200 {
		same = append(same, one)
	}
	for range 10 {
		status, body := h.post(h.Addr(), "alertmanager/prod", "", notification(same...))
		h.want(status == 200 && strings.Contains(body, `"received":200`), "%d %s", status, body)
	}
	list := h.events(store.EventFilter{})
	h.want(len(list) == 1 && list[0].Repeats == 1999, "%d events, %+v", len(list), list[0])
	inc, err := h.Store().Incident(t.Context(), list[0].IncidentID)
	h.must(err)
	h.want(inc.EventCount == 2000 && len(inc.EventIDs) == 1, "%+v", inc)
	h.must(h.App.Stop(t.Context()))
	info, err := os.Stat(h.root + "/nightcrier.db")
	h.must(err)
	h.want(info.Size() < 1<<20, "the store has %d bytes", info.Size())
}

// startExample starts the product with one of the examples.
func (h *house) startExample(name string, env ...string) {
	h.Helper()
	var err error
	h.cfg, _, err = config.Load(config.Options{File: "../examples/" + name + ".yaml", Dir: h.root, Env: append(env, "PATH="+os.Getenv("PATH"))})
	h.must(err)
	h.cfg.WorkspaceRoot, h.cfg.Listen, h.cfg.HealthListen, h.cfg.WebhookListen = h.root, "127.0.0.1:0", "", "127.0.0.1:0"
	h.run(func(o *app.Options) { o.Runs = func(c *run.Config) { c.Workers = h.orders } })
}

func TestExampleAlertmanager(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startExample("alertmanager", "PROD_1_ALERT_TOKEN=token-of-prod-1", "PROD_2_ALERT_TOKEN=token-of-prod-2")
	n := notification(alert("Slow", "firing", "2026-11-20T10:00:00Z", "kubernetes_namespace=shop", "kubernetes_pod_name=cart-0"))
	for _, c := range []struct {
		addr, cluster, token string
		status               int
	}{
		{h.WebhookAddr(), "prod-2", "token-of-prod-1", 401}, {h.WebhookAddr(), "prod-2", "", 401}, {h.Addr(), "prod-2", "", 401},
		{h.WebhookAddr(), "nowhere", "token-of-prod-1", 401}, {h.Addr(), "nowhere", "", 404},
		{h.WebhookAddr(), "prod-2", "token-of-prod-2", 200},
	} {
		status, body := h.post(c.addr, "alertmanager/"+c.cluster, c.token, n)
		h.want(status == c.status && (status != 401 || body == ""), "%s with %q: %d %s", c.cluster, c.token, status, body)
	}
	list := h.events(store.EventFilter{})
	h.want(len(list) == 1 && list[0].Resource.String() == "shop/Pod/cart-0" && list[0].Cluster == "prod-2", "%+v", list)
	for _, path := range []string{"/healthz", "/metrics", "/api/v1/incidents", "/api/v1/openapi.json"} {
		h.want(h.get("http://"+h.WebhookAddr()+path) == 404, "%s is served to other machines", path)
	}
}

func TestExamplePagerDuty(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startExample("pagerduty", "PAGERDUTY_TOKEN=token-of-pagerduty")
	send := func(kind, id, service string) string {
		raw := strings.NewReplacer("$KIND", kind, "$ID", id, "$SERVICE", service).Replace(pagerDuty)
		status, body := h.post(h.WebhookAddr(), "pagerduty", "token-of-pagerduty", []byte(raw))
		h.want(status == 200, "%d %s", status, body)
		return body
	}
	for range 3 {
		send("incident.triggered", "PGR0VU2", "prod-1/shop/cart")
	}
	send("incident.acknowledged", "PGR0VU2", "prod-1/shop/cart")
	send("incident.triggered", "PGR0VU3", "Checkout")
	send("incident.triggered", "PGR0VU4", "elsewhere/shop/cart")
	send("incident.resolved", "PGR0VU2", "prod-1/shop/cart")
	got := map[string]string{}
	for _, ev := range h.events(store.EventFilter{}) {
		got[string(ev.Raw)[strings.Index(string(ev.Raw), `"incident.`)+1:][:20]+ev.Resource.String()] =
			fmt.Sprintf("%s %s %s %s x%d", ev.Cluster, ev.FaultType, ev.Severity, ev.Reason, ev.Repeats+1)
	}
	for event, want := range map[string]string{
		"incident.triggered\",shop/Deployment/cart": "prod-1 Paged critical  x3",
		"incident.acknowledge/":                     "  info not_a_fault x1",
	} {
		h.want(got[event] == want, "%s: %q, want %q\n%v", event, got[event], want, got)
	}
	cleared := 0
	for _, ev := range h.events(store.EventFilter{}) {
		switch {
		case ev.Cleared:
			cleared++
		case ev.Reason == nightcrier.Malformed:
			h.want(strings.Contains(ev.Detail, `"elsewhere", which is not configured`), "%+v", ev)
		case ev.Resource.Kind == "Alert":
			h.want(strings.HasPrefix(ev.Resource.Name, "Paged-") && strings.Contains(ev.Context, "A little bump in the road"), "%+v", ev)
		}
	}
	h.want(cleared == 1 && len(h.events(store.EventFilter{})) == 5, "%d cleared: %v", cleared, got)
	h.want(!strings.Contains(h.log.String(), "token-of-pagerduty"), "the token is in the log")
}

func TestExampleGrafana(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startExample("grafana", "GRAFANA_TOKEN=token-of-grafana")
	for range 2 {
		status, body := h.post(h.WebhookAddr(), "grafana", "token-of-grafana", []byte(grafana))
		h.want(status == 200 && strings.Contains(body, `"received":3`), "%d %s", status, body)
	}
	got := map[string]bool{}
	for _, ev := range h.events(store.EventFilter{}) {
		got[fmt.Sprintf("%s %s %s %t %s x%d", ev.FaultType, ev.Resource.Kind, ev.Severity, ev.Cleared, ev.Reason, ev.Repeats+1)] = true
	}
	for _, want := range []string{"High-memory-usage Pod warning false  x2", "Disk-full Node error false  x2"} {
		h.want(got[want], "no %q in %v", want, got)
	}
	h.want(len(got) == 3, "%v", got)
}

// pagerDuty is a V3 webhook of PagerDuty.
const pagerDuty = `{"event":{"id":"01BVTHDL2B6JYEOTDTOJBPRJCH","event_type":"$KIND","resource_type":"incident","occurred_at":"2026-11-20T10:00:00.000Z",
	"agent":{"html_url":"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV","self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Tenex Engineer","type":"user_reference"},
	"client":{"name":"PagerDuty"},
	"data":{"id":"$ID","type":"incident","self":"https://api.pagerduty.com/incidents/$ID","html_url":"https://acme.pagerduty.com/incidents/$ID","number":2,"status":"triggered",
		"incident_key":"d3640fbd41094207a1c11e58e46b1662","created_at":"2026-11-20T10:00:00Z","title":"A little bump in the road",
		"service":{"html_url":"https://acme.pagerduty.com/services/PF9KMXH","id":"PF9KMXH","self":"https://api.pagerduty.com/services/PF9KMXH","summary":"$SERVICE","type":"service_reference"},
		"assignees":[],"escalation_policy":{"id":"PUS0KTE","summary":"Default","type":"escalation_policy_reference"},"teams":[],"priority":null,"urgency":"high",
		"conference_bridge":null,"resolve_reason":null}}}`

// grafana is a notification of Grafana's alerting.
const grafana = `{"receiver":"nightcrier","status":"firing","orgId":1,"alerts":[
	{"status":"firing","labels":{"alertname":"High memory usage","namespace":"shop","pod":"cart-0","severity":"warning","grafana_folder":"shop"},
	 "annotations":{"summary":"It fills up","description":"Memory of cart-0 is at 97 %"},"startsAt":"2026-11-20T09:51:03.157076+02:00","endsAt":"0001-01-01T00:00:00Z",
	 "generatorURL":"https://grafana.example/alerting/1afz29v7z/edit","fingerprint":"c6eadffa33fcdf37","silenceURL":"https://grafana.example/alerting/silence/new",
	 "dashboardURL":"","panelURL":"","values":{"B":44.23943737541908,"C":1},"valueString":"[ var='B' labels={} value=44.2 ]"},
	{"status":"firing","labels":{"alertname":"Disk full","node":"worker-3"},"annotations":{"summary":"Nothing fits"},"startsAt":"2026-11-20T09:51:03.157076+02:00","fingerprint":"c6eadffa33fcdf38"},
	{"status":"resolved","labels":{"alertname":"High CPU","deployment":"cart","namespace":"shop"},"startsAt":"2026-11-20T08:51:03Z","endsAt":"2026-11-20T09:51:03Z","fingerprint":"c6eadffa33fcdf39"}],
	"groupLabels":{},"commonLabels":{},"commonAnnotations":{},"externalURL":"https://grafana.example/","version":"1","groupKey":"{}:{}","truncatedAlerts":0,"title":"[FIRING:2]","state":"alerting","message":"**Firing**"}`

// TestAlertsOnARealCluster: alerts about a Pod and about its Deployment, and what
// the cluster's MCP server says, are one incident, at the workload that the API
// server says is the owner; its cause is found from the alert alone.
func TestAlertsOnARealCluster(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	p := newPatient(t, kube)
	h := newHouse(t)
	h.start("listen: 127.0.0.1:0", "clusters: [{name: real, mcp: {endpoint: "+h.peer.URL("real")+"}, kubeconfig: "+kube.ReadOnly(t)+"}]")
	crash := alert("KubePodCrashLooping", "firing", "2026-11-20T03:05:00Z", "namespace="+p.ns, "pod="+p.pod.Name, "container=app")
	status, body := h.post(h.Addr(), "alertmanager/real", "", notification(crash))
	h.want(status == 200 && strings.Contains(body, `"opened":1`), "%d %s", status, body)
	first := h.ended()
	h.checkReport(first, p, "builtin", "permission-denied")

	down := alert("KubeDeploymentReplicasMismatch", "firing", "2026-11-20T03:06:00Z", "namespace="+p.ns, "deployment=cart", "pod=kube-state-metrics-0")
	h.post(h.Addr(), "alertmanager/real", "", notification(crash, down))
	h.push("real", p.fault(t))
	h.eventually(func() string {
		inc, err := h.Store().Incident(t.Context(), first.ID)
		h.must(err)
		if inc.EventCount == 4 && len(inc.EventIDs) == 3 {
			return ""
		}
		return fmt.Sprintf("%d events of %d", len(inc.EventIDs), inc.EventCount)
	})
	h.want(len(h.incidents(h.Store())) == 1, "there are several incidents")
	h.post(h.Addr(), "alertmanager/real", "", notification(alert("KubeAPIErrorBudgetBurn", "firing", "2026-11-20T10:00:00Z", "long=1h")))
	itself := h.ended()
	h.want(itself.Resource.Kind == "Alert" && itself.Status == nightcrier.Resolved, "%s is %s: %s", itself.Resource, itself.Status, itself.FailureReason)
	sources := map[string]bool{}
	for _, s := range h.Statuses() {
		sources[s.Source] = s.Events > 0 && s.Cluster == "real"
	}
	h.want(sources["mcp"] && sources["webhook"], "%+v", h.Statuses())
	resp, err := http.Get("http://" + h.Addr() + "/metrics")
	h.must(err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	h.must(err)
	h.want(strings.Contains(string(metrics), `nightcrier_source_events_total{cluster="real",source="webhook"} 4`), "the metrics do not count alerts")
}

// overSocket sends a payload to the server's socket; 0 is no answer.
func (s *site) overSocket(path string, body any) int {
	s.Helper()
	raw, err := json.Marshal(body)
	s.must(err)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.root, api.SocketName))
	}}}
	resp, err := c.Post("http://localhost"+hooks+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		return 0
	}
	s.must(resp.Body.Close())
	return resp.StatusCode
}

// TestAlertsSurviveAKill kills the server within a group of alerts, at every other
// of its log lines. The sender gets no success, sends again, and nothing is lost or
// twice there.
func TestAlertsSurviveAKill(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dsn func(testing.TB) string) {
		s := newSite(t, dsn(t))
		const pods = "bcdfghjklmnp" // by the letter that tells them apart
		var group []any
		for _, pod := range pods {
			group = append(group, alert("KubePodCrashLooping", "firing", "2026-11-20T10:00:00Z", "namespace=shop", fmt.Sprintf("pod=cart-6d4c6b9d8-x2x%cz", pod)))
		}
		kills := 0
		for at := int64(5); at < 15; at += 2 {
			v := s.serve(func(o *order) { o.DieAtLog = at })
			if v.word() == "ready" && s.overSocket("alertmanager/"+cluster, notification(group...)) != 200 {
				kills++
			}
			v.kill()
		}
		if kills == 0 {
			t.Error("the server was never killed within a group")
		}
		v := s.serve(nil).ready()
		if status := s.overSocket("alertmanager/"+cluster, notification(group...)); status != 200 {
			t.Errorf("the group is answered with %d", status)
		}
		inc := s.ended()
		v.term()
		s.look(func(st *store.Store) {
			list, _, err := st.Events(t.Context(), store.EventFilter{Limit: 1000})
			s.must(err)
			if len(list) != len(pods) || len(s.incidents(st)) != 1 || inc.EventCount < len(pods) {
				t.Errorf("%d events of %d alerts, %d incidents, %d deliveries", len(list), len(pods), len(s.incidents(st)), inc.EventCount)
			}
			s.must(storetest.Invariants(t.Context(), st))
		})
	})
}
