package rules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// logAt writes a line so often, one each half minute, the last so many minutes ago.
func logAt(line string, often, ago int) string {
	var out strings.Builder
	for i := range often {
		out.WriteString(scenetest.Now.Add(-scenetest.Minutes(ago)-scenetest.Minutes(often-1-i)/2).UTC().Format("2006-01-02T15:04:05Z") + " " + line + "\n")
	}
	return out.String()
}

// runs is a container that is ready and has this log.
func runs(t *testing.T, log, ready string, change ...func(*corev1.Pod)) *scene.Facts {
	f := scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(append(change, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true })...)), log)
	logs := f.Scene.Logs
	f.Scene = scenetest.New(t, strings.ReplaceAll(services, "READY", ready))
	f.Scene.Logs = logs
	return f
}

// askedAbout is the same where somebody asks about the workload.
func askedAbout(f *scene.Facts) *scene.Facts {
	f.Scene.Concern(f.Mend())
	return f
}

// A container may be ready and still not reach what it needs. Its complaints count while
// they are new and repeated, and where the cluster shows that they are right or somebody asks.
func TestComplainsWhileReady(t *testing.T) {
	const refused = "ERROR cannot connect to db:5432: connection refused"
	const wrong = "ERROR lookup payments on 10.96.0.10:53: no such host"
	const nameless = "could not charge the card: name resolver error: produced zero addresses\n"
	const pool = "ERROR HikariPool-1 - Connection is not available, request timed out after 30005ms"
	const telemetry = "WARN otel-collector:4317: connection refused"
	fine := strings.Repeat("INFO 200 GET /\n", scene.RecentLines)
	check(t, []rulecase{
		{"nobody behind it", runs(t, logAt(refused, 2, 1), "false"), []string{"dependency-refused"}},
		{"no such Service", runs(t, logAt(wrong, 2, 1), "true"), []string{"dependency-name-unresolved"}},
		{"no name in the log, one in the settings", runs(t, nameless+nameless+nameless, "true", env("PAYMENT_ADDR", "badAddress:50051")), []string{"dependency-name-unresolved"}},
		{"once", runs(t, logAt(refused, 1, 1), "false"), nil},
		{"hours ago", runs(t, logAt(refused, 2, 120), "false"), nil},
		{"twice, and somebody is behind it", runs(t, logAt(refused, 2, 1), "true"), nil},
		{"it answers now", runs(t, logAt(refused, 2, 1)+fine, "false"), nil},
		{"it says that it is over", runs(t, logAt(refused, 3, 2)+logAt("INFO connection re-established", 1, 1), "false"), nil},
		{"it has been quiet for much longer than between two", runs(t, logAt(refused, 8, 9), "false"), nil},
		{"a pool", askedAbout(runs(t, logAt(pool, 3, 1), "true")), []string{"pool-exhausted"}},
		{"a pool, since nothing answers", askedAbout(runs(t, logAt(refused, 3, 3)+logAt(pool, 4, 1), "true")), []string{"dependency-refused"}},
		{"a pool, at a level that complains of nothing", askedAbout(runs(t, logAt("DEBUG pool exhausted handler registered", 9, 1), "true")), nil},
	})
	for name, c := range map[string]struct {
		facts *scene.Facts
		want  nightcrier.Confidence
	}{
		"asked about":         {askedAbout(runs(t, logAt(refused, 3, 1), "true")), nightcrier.Medium},
		"does nothing else":   {runs(t, logAt(refused, 3, 1), "true"), nightcrier.Medium},
		"among much else":     {runs(t, fine+logAt(refused, 3, 1), "true"), nightcrier.Low},
		"traces, asked about": {askedAbout(runs(t, logAt(telemetry, 9, 1), "true")), nightcrier.Low},
	} {
		found := ApplyRules(c.facts)
		if len(found) != 1 || found[0].Confidence != c.want {
			t.Errorf("%s: %+v, want %s", name, found, c.want)
		}
	}
}

// Errors that no rule knows are told of who is asked about, with the innermost reason.
func TestLogsErrors(t *testing.T) {
	const unknown = "ERROR order 7: tax table has a negative rate"
	const traced = "ERROR request failed\n\tat a.b.C.d(C.java:1)\nCaused by: a.b.TaxException: region EU-9 is unknown\n\t... 12 more"
	for name, c := range map[string]struct {
		facts *scene.Facts
		want  string
	}{
		"asked about": {askedAbout(runs(t, logAt(unknown, 6, 1), "true")), "medium negative rate"},
		"nobody asks": {runs(t, logAt(unknown, 6, 1), "true"), "low negative rate"},
		"its cause":   {askedAbout(runs(t, logAt(traced, 6, 1), "true")), "medium region EU-9 is unknown"},
		"few":         {askedAbout(runs(t, logAt(unknown, 3, 1), "true")), ""},
		"among much":  {askedAbout(runs(t, strings.Repeat("INFO 200 GET /\n", scene.RecentLines)+logAt(unknown, 6, 1), "true")), ""},
		"over":        {askedAbout(runs(t, logAt(unknown, 6, 30), "true")), ""},
	} {
		got := ""
		for _, n := range ApplyRules(c.facts) {
			got = string(n.Confidence) + " " + n.Summary
		}
		confidence, words, _ := strings.Cut(c.want, " ")
		if !strings.HasPrefix(got, confidence) || !strings.Contains(got, words) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A process that is not ready says why in its log, which is then the reason of the probe that
// fails; what it says of anything else is not.
func TestWhyAProbeFails(t *testing.T) {
	for log, why := range map[string]string{
		"2026-03-01T11:59:50Z INFO found a problem in the catalogue, this instance cannot become ready until it is resolved\n": "cannot become ready until",
		"2026-03-01T11:59:50Z INFO GET /items 200 in 3 ms\n":                                                                   "",
	} {
		unready := func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		}
		f := withEvent(scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(unready)), log), "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", scenetest.Minutes(1))
		got := foundOf(ApplyRules(f), "readiness-probe-failing")
		if len(got) != 1 || !strings.Contains(got[0].Why, why) || (got[0].Why != "") != (why != "") || strings.Contains(got[0].Summary, "its log says") != (why != "") {
			t.Errorf("%s: %+v", log, got)
		}
	}
}

// What a client is shown is mended where it is shown: by the workload behind the Service that it
// names. Its own certificate, and one of who lies outside, stay its own.
func TestACertificateIsMendedWhereItIsShown(t *testing.T) {
	const stock = `
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: stock}, spec: {clusterIP: 10.96.0.9, selector: {app: stock}, ports: [{port: 443}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: stock}, spec: {replicas: 1, selector: {matchLabels: {app: stock}}, template: {metadata: {labels: {app: stock}}, spec: {containers: [{name: app}]}}}, status: {replicas: 1, readyReplicas: 1, observedGeneration: 1}}`
	for line, want := range map[string]string{
		`ERROR Get "https://stock.shop.svc.cluster.local/v1": tls: failed to verify certificate: x509: certificate has expired or is not yet valid`: "stock",
		`ERROR Get "https://api.example.com/v1": tls: failed to verify certificate: x509: certificate has expired or is not yet valid`:              "cart",
		`ERROR my own certificate has expired, nobody talks to me`:                                                                                  "cart",
	} {
		f := scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true })), logAt(line, 8, 0))
		logs := f.Scene.Logs
		f.Scene = scenetest.New(t, stock)
		f.Scene.Logs = logs
		got := foundOf(ApplyRules(askedAbout(f)), "certificate-expired")
		if len(got) != 1 || got[0].Object.Name != want || (want == "stock") != (len(got[0].Affected) == 1) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
