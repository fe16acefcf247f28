package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

var prod = Cluster{Name: "prod"}

// fired is a notification of one group of alerts, each given by its labels.
func fired(t testing.TB, groupBy []string, alerts ...map[string]string) []byte {
	t.Helper()
	g := map[string]string{}
	var list []any
	for i, labels := range alerts {
		for _, by := range groupBy {
			g[by] = labels[by]
		}
		list = append(list, map[string]any{
			"status": "firing", "labels": labels, "startsAt": "2026-11-20T10:00:00Z", "endsAt": "0001-01-01T00:00:00Z",
			"generatorURL": "http://prometheus:9090/graph", "fingerprint": fmt.Sprintf("%016x", i+1),
			"annotations": map[string]string{"summary": "Something is wrong.", "description": "It has been so for a while."},
		})
	}
	b, err := json.Marshal(map[string]any{"version": "4", "groupKey": "{}:{}", "status": "firing", "receiver": "nightcrier",
		"groupLabels": g, "commonLabels": map[string]string{}, "commonAnnotations": map[string]string{}, "externalURL": "http://alertmanager:9093", "alerts": list})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// event is what intake will make of a delivery.
func event(t testing.TB, d nightcrier.Delivery) nightcrier.Event {
	t.Helper()
	if d.Reason != "" {
		t.Fatalf("refused as %s: %s", d.Reason, d.Detail)
	}
	ev, err := dialect.Parse(d.Reading)
	if err != nil {
		t.Fatalf("%v in %s", err, d.Reading)
	}
	return ev
}

func labels(pairs ...string) map[string]string {
	m := map[string]string{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		m[name] = value
	}
	return m
}

// The labels are those that Prometheus puts on alerts, its own among them: what was
// scraped (job, instance, endpoint, often pod, container and service) is rarely
// what is broken.
func TestWhatAnAlertIsAbout(t *testing.T) {
	t.Parallel()
	ksm := []string{"job=kube-state-metrics", "instance=10.42.0.9:8080", "endpoint=http", "service=kps-kube-state-metrics", "pod=kps-kube-state-metrics-6d4c6b9d8-zx2vl", "container=kube-state-metrics", "prometheus=monitoring/kps"}
	exporter := []string{"job=node-exporter", "instance=10.0.0.7:9100", "endpoint=http-metrics", "namespace=monitoring", "pod=kps-prometheus-node-exporter-7xk2p", "container=node-exporter", "service=kps-prometheus-node-exporter"}
	for name, c := range map[string]struct {
		labels    []string
		want      string // the resource
		faultType string
		severity  nightcrier.Severity
		container string
	}{
		"a Pod that crashes": {[]string{"alertname=KubePodCrashLooping", "namespace=shop", "pod=cart-6d4c6b9d8-x2x9z", "container=cart", "job=kube-state-metrics", "reason=CrashLoopBackOff", "severity=warning", "uid=1"},
			"shop/Pod/cart-6d4c6b9d8-x2x9z", "CrashLoop", nightcrier.Warning, "cart"},
		"the exporter itself crashes": {append([]string{"alertname=KubePodCrashLooping", "namespace=monitoring", "severity=critical"}, ksm...),
			"monitoring/Pod/kps-kube-state-metrics-6d4c6b9d8-zx2vl", "CrashLoop", nightcrier.Critical, ""},
		"a Deployment, seen by an exporter that labels itself": {append([]string{"alertname=KubeDeploymentReplicasMismatch", "namespace=shop", "deployment=cart", "severity=warning"}, ksm...),
			"shop/Deployment/cart", "Unavailable", nightcrier.Warning, ""},
		"labels that Prometheus set aside": {append([]string{"alertname=KubeDeploymentRolloutStuck", "namespace=monitoring", "exported_namespace=shop", "deployment=cart", "severity=warning"}, ksm...),
			"shop/Deployment/cart", "DeploymentFailure", nightcrier.Warning, ""},
		"a Pod set aside": {append([]string{"alertname=KubeContainerWaiting", "namespace=monitoring", "exported_namespace=shop", "exported_pod=cart-0", "exported_container=cart", "reason=ImagePullBackOff"}, ksm...),
			"shop/Pod/cart-0", "ImagePull", nightcrier.ErrorSeverity, "cart"},
		"a Pod that waits for no reason": {[]string{"alertname=KubeContainerWaiting", "namespace=shop", "pod=cart-0", "reason=ContainerCreating"},
			"shop/Pod/cart-0", "StartFailure", nightcrier.ErrorSeverity, ""},
		"the job is not the Job": {append([]string{"alertname=KubeJobFailed", "namespace=shop", "job_name=report-29312345", "condition=true", "severity=warning"}, ksm...),
			"shop/Job/report-29312345", "JobFailure", nightcrier.Warning, ""},
		"a StatefulSet": {append([]string{"alertname=KubeStatefulSetReplicasMismatch", "namespace=shop", "statefulset=db", "severity=warning"}, ksm...),
			"shop/StatefulSet/db", "Unavailable", nightcrier.Warning, ""},
		"a DaemonSet": {append([]string{"alertname=KubeDaemonSetRolloutStuck", "namespace=kube-system", "daemonset=cni", "severity=warning"}, ksm...),
			"kube-system/DaemonSet/cni", "Unavailable", nightcrier.Warning, ""},
		"a Node": {append([]string{"alertname=KubeNodeNotReady", "namespace=monitoring", "node=worker-3", "condition=Ready", "status=true", "severity=warning"}, ksm...),
			"Node/worker-3", "NodeUnhealthy", nightcrier.Warning, ""},
		"a Node that cannot be reached": {append([]string{"alertname=KubeNodeUnreachable", "node=ip-10-0-0-7.ec2.internal", "effect=NoSchedule", "severity=warning"}, ksm...),
			"Node/ip-10-0-0-7.ec2.internal", "NodeUnhealthy", nightcrier.Warning, ""},
		"a Node known by its address": {append([]string{"alertname=NodeFilesystemAlmostOutOfSpace", "device=/dev/sda1", "mountpoint=/", "severity=critical"}, exporter...),
			"Node/10.0.0.7", "NodePressure", nightcrier.Critical, ""},
		"a Node by an alert of one's own": {append([]string{"alertname=DiskOnFire", "nodename=worker-3"}, exporter...),
			"Node/worker-3", "DiskOnFire", nightcrier.Warning, ""},
		"a volume": {[]string{"alertname=KubePersistentVolumeFillingUp", "namespace=shop", "persistentvolumeclaim=data-db-0", "job=kubelet", "node=worker-3", "instance=10.0.0.7:10250", "endpoint=https-metrics", "service=kubelet", "severity=critical"},
			"shop/PersistentVolumeClaim/data-db-0", "VolumeFillingUp", nightcrier.Critical, ""},
		"an autoscaler": {append([]string{"alertname=KubeHpaMaxedOut", "namespace=shop", "horizontalpodautoscaler=cart", "severity=warning"}, ksm...),
			"shop/HorizontalPodAutoscaler/cart", "ScalingLimited", nightcrier.Warning, ""},
		"a quota": {append([]string{"alertname=KubeQuotaExceeded", "namespace=shop", "resourcequota=compute", "resource=cpu", "severity=warning"}, ksm...),
			"shop/ResourceQuota/compute", "QuotaExceeded", nightcrier.Warning, ""},
		"throttling, which informs": {[]string{"alertname=CPUThrottlingHigh", "namespace=shop", "pod=cart-0", "container=cart", "severity=info"},
			"shop/Pod/cart-0", "CPUThrottling", nightcrier.Info, "cart"},
		"a workload of a recording rule": {[]string{"alertname=SlowRequests", "namespace=shop", "workload=cart", "workload_type=deployment", "severity=page"},
			"shop/Deployment/cart", "SlowRequests", nightcrier.Critical, ""},
		"who made the Pod": {[]string{"alertname=Slow", "namespace=shop", "created_by_kind=ReplicaSet", "created_by_name=cart-6d4c6b9d8"},
			"shop/ReplicaSet/cart-6d4c6b9d8", "Slow", nightcrier.Warning, ""},
		"another book of rules": {[]string{"alertname=KubernetesJobFailed", "namespace=shop", "job_name=report-1", "severity=warning"},
			"shop/Job/report-1", "JobFailure", nightcrier.Warning, ""},
		"a target": {[]string{"alertname=TargetDown", "job=cart", "namespace=shop", "service=cart", "severity=warning"},
			"shop/Service/cart", "ServiceFailure", nightcrier.Warning, ""},
		"an application's own metric": {[]string{"alertname=CartErrors", "job=cart", "namespace=shop", "service=cart", "pod=cart-6d4c6b9d8-x2x9z", "container=cart", "endpoint=http", "instance=10.42.0.3:80", "severity=nonsense"},
			"shop/Pod/cart-6d4c6b9d8-x2x9z", "CartErrors", nightcrier.Warning, "cart"},
		"nothing a cluster has":      {[]string{"alertname=KubeAPIErrorBudgetBurn", "long=1h", "short=5m", "severity=critical"}, "Alert/KubeAPIErrorBudgetBurn", "KubeAPIErrorBudgetBurn", nightcrier.Critical, ""},
		"a Deployment of nowhere":    {[]string{"alertname=Broken", "deployment=cart"}, "Alert/Broken", "Broken", nightcrier.Warning, ""},
		"a severity of other people": {[]string{"alertname=Broken", "severity=P1"}, "Alert/Broken", "Broken", nightcrier.Warning, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := Alerts(prod, fired(t, []string{"alertname"}, labels(c.labels...)))
			if err != nil || len(list) != 1 {
				t.Fatalf("%d deliveries, %v", len(list), err)
			}
			ev := event(t, list[0])
			if ev.Resource.String() != c.want || ev.FaultType != c.faultType || ev.Severity != c.severity || ev.Container != c.container {
				t.Errorf("%s of %s (%s), container %q; want %s of %s (%s), container %q",
					ev.FaultType, ev.Resource, ev.Severity, ev.Container, c.faultType, c.want, c.severity, c.container)
			}
			if ev.Cluster != "prod" || ev.FaultID != "0000000000000001" || ev.OccurredAt.IsZero() || !strings.Contains(ev.Context, "Something is wrong.\nIt has been so") {
				t.Errorf("%+v", ev)
			}
		})
	}
}

// The labels of an installation that names them otherwise.
func TestConfiguredLabels(t *testing.T) {
	t.Parallel()
	c := Cluster{Name: "prod", AlertLabels: map[string]string{"namespace": "kubernetes_ns", "pod": "k8s_pod", "container": "k8s_container", "job_name": "batch_job"}}
	for want, l := range map[string]map[string]string{
		"shop/Pod/cart-0":   labels("alertname=Slow", "namespace=monitoring", "pod=prober-0", "kubernetes_ns=shop", "k8s_pod=cart-0", "k8s_container=cart"),
		"shop/Job/report-1": labels("alertname=KubeJobFailed", "kubernetes_ns=shop", "job_name=not-this", "batch_job=report-1"),
	} {
		list, err := Alerts(c, fired(t, nil, l))
		if err != nil {
			t.Fatal(err)
		}
		if ev := event(t, list[0]); ev.Resource.String() != want {
			t.Errorf("%v is about %s, want %s", l, ev.Resource, want)
		}
	}
}

// Alerts without an object are one fault where Alertmanager groups them, whatever
// else their labels say, and several where it does not.
func TestAlertsWithoutObject(t *testing.T) {
	t.Parallel()
	name := func(groupBy []string, l ...string) string {
		list, err := Alerts(prod, fired(t, groupBy, labels(l...)))
		if err != nil {
			t.Fatal(err)
		}
		ev := event(t, list[0])
		if ev.Owner != ev.Resource || ev.Resource.Kind != "Alert" {
			t.Errorf("%s is of %s", ev.Resource, ev.Owner)
		}
		return ev.Resource.Name
	}
	by := []string{"alertname", "region"}
	a, b := name(by, "alertname=Slow", "region=eu", "shard=1"), name(by, "alertname=Slow", "region=eu", "shard=2")
	c := name(by, "alertname=Slow", "region=us", "shard=1")
	if a != b || a == c || !strings.HasPrefix(a, "Slow-") {
		t.Errorf("%s, %s, %s", a, b, c)
	}
	odd, other := name(nil, "alertname=Küche brennt (!)"), name(nil, "alertname=K-che brennt -!-")
	if odd == other || !strings.HasPrefix(odd, "K-che-brennt") {
		t.Errorf("%s, %s", odd, other)
	}
	if unnamed := name(nil, "severity=page"); !strings.HasPrefix(unnamed, "unnamed-") {
		t.Errorf("an alert without a name is called %s", unnamed)
	}
}

// One occurrence is one event, however often it is sent; its end is another, and
// so is the next time.
func TestIdentity(t *testing.T) {
	t.Parallel()
	id := func(change func(a map[string]any), cluster string) string {
		a := map[string]any{"status": "firing", "labels": labels("alertname=Slow"), "startsAt": "2026-11-20T10:00:00Z", "fingerprint": "abc"}
		if change != nil {
			change(a)
		}
		list, err := Alerts(Cluster{Name: cluster}, encodeJSON(map[string]any{"alerts": []any{a}}))
		if err != nil || len(list) != 1 || !nightcrier.ValidID(list[0].EventID) {
			t.Fatal(list, err)
		}
		return list[0].EventID
	}
	set := func(key string, v any) func(map[string]any) { return func(a map[string]any) { a[key] = v } }
	first := id(nil, "prod")
	for name, same := range map[string]func(map[string]any){
		"sent again": nil, "with other annotations": set("annotations", labels("summary=now 7")), "with another end": set("endsAt", "2026-11-20T11:00:00Z"),
	} {
		if id(same, "prod") != first {
			t.Errorf("%s: another event", name)
		}
	}
	seen := map[string]string{first: "the first"}
	for name, got := range map[string]string{
		"its end": id(set("status", "resolved"), "prod"), "the next time": id(set("startsAt", "2026-11-20T12:00:00Z"), "prod"),
		"another alert": id(set("fingerprint", "abd"), "prod"), "another cluster": id(nil, "stage"), "no fingerprint": id(set("fingerprint", ""), "prod"),
	} {
		if seen[got] != "" {
			t.Errorf("%s is the same event as %s", name, seen[got])
		}
		seen[got] = name
	}
}

func TestResolvedAndQuiet(t *testing.T) {
	t.Parallel()
	payload := `{"alerts":[
		{"status":"resolved","labels":{"alertname":"KubePodCrashLooping","namespace":"shop","pod":"cart-0"}},
		{"status":"firing","labels":{"alertname":"Watchdog","severity":"none"}},
		{"status":"firing","labels":{"alertname":"InfoInhibitor","namespace":"shop","severity":"critical"}}],"truncatedAlerts":7,"groupKey":"{}:{x=\"y\"}"}`
	list, err := Alerts(prod, []byte(payload))
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	if ev := event(t, list[0]); !ev.Cleared || ev.Resource.Name != "cart-0" {
		t.Errorf("%+v", ev)
	}
	for _, d := range list[1:3] {
		if ev := event(t, d); ev.Reason != nightcrier.NotAFault {
			t.Errorf("%+v", ev)
		}
	}
	if ev := event(t, list[3]); ev.Reason != nightcrier.SubscriptionErr || !strings.Contains(ev.Context, "left 7 alerts of group {}:{x=\"y\"} out") {
		t.Errorf("%+v", ev)
	}
}

// TestAnUnknownNumberIsLeftOut: that it cannot be read how many alerts were left out keeps
// those that are there.
func TestAnUnknownNumberIsLeftOut(t *testing.T) {
	t.Parallel()
	for count, says := range map[string]string{
		`"many"`: `left an unknown number of alerts (truncatedAlerts is "many") of group`, `-1`: "left an unknown number", `1e999999`: "left an unknown number", `7.5`: "left an unknown number",
		`{"n":1}`: "left an unknown number", `"` + strings.Repeat("x", 1<<20) + `"`: `(truncatedAlerts is "too long")`, `true`: "left an unknown number",
		`3`: "left 3 alerts of group", `0`: "", `null`: "",
	} {
		list, err := Alerts(prod, []byte(`{"truncatedAlerts":`+count+`,"alerts":[{"labels":{"alertname":"KubePodCrashLooping","namespace":"shop","pod":"cart-0"}}]}`))
		if err != nil || len(list) == 0 || event(t, list[0]).Resource.Name != "cart-0" {
			t.Errorf("%.40s: %d deliveries: %v", count, len(list), err)
			continue
		}
		if want := 1 + min(len(says), 1); len(list) != want {
			t.Errorf("%.40s: %d deliveries, want %d", count, len(list), want)
			continue
		}
		if says != "" {
			if ev := event(t, list[1]); ev.Reason != nightcrier.SubscriptionErr || !strings.Contains(ev.Context, says) {
				t.Errorf("%.40s: %s, %q", count, ev.Reason, ev.Context)
			}
		}
		if _, err := Alerts(prod, list[len(list)-1].Raw); err != nil {
			t.Errorf("%.40s: what is kept cannot be read again: %v", count, err)
		}
	}
}

// What is kept of an alert can be given to triage again.
func TestRawIsReadable(t *testing.T) {
	t.Parallel()
	list, err := Alerts(prod, fired(t, []string{"namespace"}, labels("alertname=Slow", "namespace=shop"), labels("alertname=Slower", "namespace=shop")))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	again, err := Alerts(prod, list[1].Raw)
	if err != nil || len(again) != 1 || again[0].EventID != list[1].EventID || string(again[0].Reading) != string(list[1].Reading) {
		t.Errorf("%s, %v", again, err)
	}
}

func TestForemost(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"labels":{"alertname":"A","severity":"warning"}}`: "A +0",
		`[{"labels":{"alertname":"A","severity":"warning"},"status":{"state":"active"}},{"labels":{"alertname":"B","severity":"critical"}},{"labels":{"alertname":"Watchdog"}}]`: "B +1",
		`{"alerts":[{"status":"resolved","labels":{"alertname":"A"}}]}`: "no alert of the payload fires",
		`{"alerts":[]}`: "holds no alert",
		`{"alerts":[{"status":"burning","labels":{"alertname":"A"}}]}`: `field status is "burning"`,
	} {
		list, err := Alerts(prod, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		d, others, err := Foremost(list)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%s +%d", event(t, d).FaultType, others)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", payload, got, want)
		}
	}
}

// An annotation of several lines is masked by itself, before the labels stand behind it: it
// may be a part of a log, of which the end shows what it was.
func TestAnnotationsAreExcerptsOfLogs(t *testing.T) {
	t.Parallel()
	c := Cluster{Name: "lab", MaskLog: func(text string) string { return strings.ReplaceAll(text, "open", "masked") }}
	payload := []byte(`{"labels":{"alertname":"A"},"annotations":{"summary":"open","description":"two lines\nopen"}}`)
	list, err := Alerts(c, payload)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	ev, err := dialect.Parse(list[0].Reading)
	if want := "open\ntwo lines\nmasked\nAlert firing with alertname: A"; err != nil || ev.Context != want {
		t.Errorf("%q, want %q: %v", ev.Context, want, err)
	}
}
