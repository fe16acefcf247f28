package rules

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

const services = `
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {clusterIP: 10.0.0.9, selector: {app: db}, ports: [{port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: redis}, spec: {clusterIP: None, selector: {app: redis}, ports: [{port: 6379}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: bank, name: ledger}, spec: {clusterIP: 10.0.0.7, selector: {app: ledger}, ports: [{port: 80}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], conditions: {ready: READY}}]`

func TestOtherSide(t *testing.T) {
	in := func(f *scene.Facts, ready string) *scene.Facts {
		logs := f.Scene.Logs
		f.Scene = scenetest.New(t, strings.ReplaceAll(services, "READY", ready))
		f.Scene.Logs = logs
		return f
	}
	for name, tt := range map[string]struct {
		line, ready string
		says        string
		depends     string
		sure        nightcrier.Confidence
	}{
		"nobody behind it":         {"fatal: cannot connect to db:5432: connection refused", "false", "Service db has no ready Pods", "Service shop/db", nightcrier.High},
		"somebody is":              {"fatal: connect to db:5432: connection refused", "true", "db:5432", "Service shop/db", nightcrier.Medium},
		"by its address":           {"fatal: dial tcp 10.0.0.9:5432: connect: connection refused", "true", "10.0.0.9", "Service shop/db", nightcrier.Medium},
		"a port it does not serve": {"fatal: dial tcp 10.0.0.9:5433: i/o timeout", "true", "Service db does not serve port 5433 but 5432", "Service shop/db", nightcrier.High},
		"in another namespace":     {"fatal: dial tcp ledger.bank.svc.cluster.local:80: i/o timeout", "true", "ledger.bank.svc", "Service bank/ledger", nightcrier.High},
		"a Pod of a set":           {"fatal: connect to redis-0.redis:6379: connection refused", "true", "redis-0.redis:6379", "Service shop/redis", nightcrier.High},
		"a wrong name":             {"fatal: lookup dbb on 10.96.0.10:53: no such host", "true", "there is no Service dbb in namespace shop (db is meant?)", "", nightcrier.High},
		"a name of the world":      {"fatal: lookup api.example.com on 10.96.0.10:53: no such host", "true", "api.example.com", "", nightcrier.Medium},
		"a right name":             {"fatal: lookup db on 10.96.0.10:53: no such host", "true", "db", "Service kube-system/kube-dns", nightcrier.Medium},
	} {
		t.Run(name, func(t *testing.T) {
			n := ApplyRules(in(scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), tt.line), tt.ready))[0]
			depends := slices.ContainsFunc(n.DependsOn, func(o nightcrier.Object) bool { return o.String() == tt.depends })
			if !strings.HasPrefix(n.Cause, "dependency-") || !strings.Contains(n.Summary, tt.says) || n.Confidence != tt.sure || depends == (tt.depends == "") {
				t.Errorf("%+v", n)
			}
		})
	}
}

// Without a log, an address that is configured and cannot be right is the best
// guess; with one that tells something else it is none.
func TestNamesNoService(t *testing.T) {
	of := func(f *scene.Facts) *scene.Facts {
		f.Scene = scenetest.New(t, strings.ReplaceAll(services, "READY", "true"))
		return f
	}
	with := func(name, value string) *scene.Facts {
		return of(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 0), env(name, value))))
	}
	fromMap := with("X", "x")
	fromMap.Scene.ConfigMaps = []scene.Read[corev1.ConfigMap]{{Object: corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "conf"}, Data: map[string]string{"DB_HOST": "dbb"},
	}, Ref: scene.Ref{Evidence: "E9", Source: "get configmaps"}}}
	fromMap.Pods[0].Object.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}}
	const crash = "crash-on-start"
	check(t, []rulecase{
		{"no such name", with("DB_ADDR", "dbb:5432"), []string{"dependency-name-unresolved", crash}},
		{"no such name in a URL", with("DATABASE", "postgres://u:p@dbb:5432/shop"), []string{"dependency-name-unresolved", crash}},
		{"no such name in a ConfigMap", fromMap, []string{"dependency-name-unresolved", crash}},
		{"no such port", with("DB_ADDR", "db:5433"), []string{"dependency-refused", crash}},
		{"right", with("DB_ADDR", "db:5432"), []string{crash}},
		{"the world", with("API_URL", "https://api.example.com"), []string{crash}},
		{"no host at all", with("MODE", "production"), []string{crash}},
		{"a path of a class", with("HANDLER", "app:main"), []string{crash}},
		{"its own address", with("LISTEN_HOST", "localhost"), []string{crash}},
		{"what it sends traces to", with("OTEL_EXPORTER_ENDPOINT", "http://collector:4317"), []string{crash}},
		{"the log tells something else", scenetest.WithLog(with("DB_ADDR", "dbb:5432"), "panic: nil pointer"), []string{crash}},
		{"well", of(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0), env("DB_ADDR", "dbb:5432")))), nil},
	})
	if got := ApplyRules(fromMap)[0]; len(got.DependsOn) != 1 || got.DependsOn[0].Kind != "ConfigMap" || !strings.Contains(got.Summary, "db is meant?") {
		t.Errorf("%+v", got)
	}
}

// A slip in an address is found though nothing fails yet; a name that is merely
// not there may be of something optional.
func TestMisnamed(t *testing.T) {
	of := func(addr string) *scene.Scene {
		return scenetest.New(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: cart}
spec: {replicas: 1, selector: {matchLabels: {app: cart}}, template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: app, image: cart, env: [{name: CATALOG_ADDR, value: "`+addr+`"}]}]}}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: catalog}, spec: {clusterIP: 10.0.0.9, ports: [{port: 3550}]}}`)
	}
	for addr, want := range map[string][]string{
		"catalg:3550":     {"dependency-name-unresolved Deployment cart"},
		"catalog:3551":    {"dependency-refused Deployment cart"},
		"catalog:3550":    nil,
		"recommend:3550":  nil,
		"catalog.com:443": nil,
		"":                nil,
	} {
		t.Run(addr, func(t *testing.T) {
			var got []string
			for _, n := range ApplySceneRules(of(addr)) {
				got = append(got, n.Cause+" "+n.Object.Kind+" "+n.Object.Name)
				scenetest.CheckFinding(t, n)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
