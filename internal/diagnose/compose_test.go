package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// shop is a namespace of three workloads, each behind its Service: web talks to cart
// and cart to db, by their settings; web stands behind an Ingress.
var shop = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: shop, name: front}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 8080}}}}]}}]}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: shop, name: web}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data}, spec: {storageClassName: fast, volumeName: pv-1}, status: {phase: Bound}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: cart-config}, data: {DB_ADDR: "db:5432"}}
---
` + workloadNamed("web", `{name: CART_URL, value: "http://cart:8080"}`, "") + "\n---\n" +
	workloadNamed("cart", `{name: X, valueFrom: {configMapKeyRef: {name: cart-config, key: DB_ADDR}}}`, "") + "\n---\n" +
	workloadNamed("db", `{name: MODE, value: web}`, `{name: d, persistentVolumeClaim: {claimName: data}}`)

// workloadNamed is a Deployment that is well, its Pod and its Service.
func workloadNamed(name, env, volume string) string {
	return strings.NewReplacer("NAME", name, "ENV", env, "VOLUME", volume).Replace(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: NAME}, spec: {replicas: 1, selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {volumes: [VOLUME], containers: [{name: app, env: [ENV], ports: [{containerPort: 8080}]}]}}}, status: {replicas: 1, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: NAME-5d4f8c7b9d-x2x4z, creationTimestamp: "2026-03-01T10:00:00Z", labels: {app: NAME, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: NAME-5d4f8c7b9d, uid: u, controller: true}]}, spec: {nodeName: n1, volumes: [VOLUME], containers: [{name: app, env: [ENV], ports: [{containerPort: 8080}]}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: app, ready: true, state: {running: {startedAt: "2026-03-01T10:00:00Z"}}}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: NAME}, spec: {clusterIP: 10.0.0.9, selector: {app: NAME}, ports: [{port: 8080, targetPort: 8080}]}}`)
}

func in(kind, name string) nightcrier.Object {
	if kind == "Node" || kind == "StorageClass" || kind == "PersistentVolume" {
		return nightcrier.Object{Kind: kind, Name: name}
	}
	return nightcrier.Object{Kind: kind, Namespace: "shop", Name: name}
}

func trouble(cause, kind, name string) Finding {
	return Finding{Cause: cause, Entry: causeOf(cause), Object: in(kind, name), Confidence: nightcrier.High, Summary: cause + " of " + name}
}

func TestComposition(t *testing.T) {
	waits := trouble("readiness-probe-failing", "Deployment", "web")
	waits.Observed = []Observation{{Quote: "Readiness probe failed: HTTP probe failed with statuscode: 503"}}
	wrong := trouble("readiness-probe-failing", "Deployment", "web")
	wrong.Observed = []Observation{{Quote: "Readiness probe failed: dial tcp 10.1.0.4:8081: connect: connection refused"}}
	hint := trouble("dependency-timeout", "Deployment", "db")
	hint.Confidence = nightcrier.Low
	needs := trouble("service-pods-not-ready", "Service", "cart")
	needs.DependsOn = []nightcrier.Object{in("Deployment", "cart")}
	around := trouble("readiness-probe-failing", "Deployment", "a")
	around.DependsOn = []nightcrier.Object{in("Deployment", "b")}
	back := trouble("readiness-probe-failing", "Deployment", "b")
	back.DependsOn = []nightcrier.Object{in("Deployment", "a")}
	cases := []struct {
		name     string
		target   nightcrier.Object
		findings []Finding
		log      string // of web
		root     string
		follows  string // what follows from the root, with what it follows from
		second   string // H2
	}{
		{"one trouble is its own root", in("Namespace", "shop"), []Finding{trouble("oom-killed", "Deployment", "cart")}, "", "oom-killed Deployment cart", "", ""},
		{"a Service follows from its workload", in("Namespace", "shop"), []Finding{trouble("service-pods-not-ready", "Service", "cart"), trouble("readiness-probe-failing", "Deployment", "cart")},
			"", "readiness-probe-failing Deployment cart", "service-pods-not-ready Service cart < Deployment cart", ""},
		{"three steps", in("Namespace", "shop"), []Finding{needs, waits, trouble("oom-killed", "Deployment", "cart")},
			"", "oom-killed Deployment cart", "readiness-probe-failing Deployment web < Service cart, service-pods-not-ready Service cart < Deployment cart", ""},
		{"who is not served at all has a fault of its own", in("Deployment", "web"), []Finding{wrong, trouble("oom-killed", "Deployment", "cart")},
			"", "readiness-probe-failing Deployment web", "", ""},
		{"a claim's class", in("Deployment", "db"), []Finding{trouble("unschedulable-volume", "Deployment", "db"), trouble("volume-not-provisioned", "StorageClass", "fast")},
			"", "volume-not-provisioned StorageClass fast", "unschedulable-volume Deployment db < PersistentVolumeClaim data", ""},
		{"who states its own reason is not explained by a setting", in("Deployment", "web"), []Finding{trouble("oom-killed", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"", "oom-killed Deployment web", "", ""},
		{"a crash is not explained by a setting alone", in("Deployment", "web"), []Finding{trouble("crash-on-start", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"", "crash-on-start Deployment web", "", ""},
		{"but by what its log says", in("Deployment", "web"), []Finding{trouble("crash-on-start", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"fatal: dial tcp: lookup cart on 10.96.0.10:53: no such host", "image-not-found Deployment cart", "crash-on-start Deployment web < Service cart", ""},
		{"a log that names another", in("Deployment", "web"), []Finding{trouble("crash-on-start", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"fatal: cannot find template cartoon in shopping cart page", "crash-on-start Deployment web", "", ""},
		{"trouble elsewhere is no business of the target", in("Deployment", "cart"), []Finding{trouble("oom-killed", "Deployment", "web")}, "", "", "", ""},
		{"what leads to the target is", in("Deployment", "web"), []Finding{trouble("service-target-port-mismatch", "Service", "web")}, "", "service-target-port-mismatch Service web", "", ""},
		{"its own trouble comes first", in("Deployment", "web"), []Finding{trouble("service-target-port-mismatch", "Service", "web"), trouble("liveness-probe-failing", "Deployment", "web")},
			"", "liveness-probe-failing Deployment web", "", "service-target-port-mismatch Service web"},
		{"a cycle ends", in("Namespace", "shop"), []Finding{around, back}, "", "readiness-probe-failing Deployment a", "readiness-probe-failing Deployment b < Deployment a", ""},
		{"a hint explains nothing", in("Namespace", "shop"), []Finding{trouble("readiness-probe-failing", "Deployment", "cart"), hint},
			"", "readiness-probe-failing Deployment cart", "", "dependency-timeout Deployment db"},
		{"two roots", in("Namespace", "shop"), []Finding{trouble("quota-exceeded", "Deployment", "db"), trouble("image-not-found", "Deployment", "cart"), needs},
			"", "image-not-found Deployment cart", "service-pods-not-ready Service cart < Deployment cart", "quota-exceeded Deployment db"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := &Facts{Now: now, Scene: sceneOf(t, shop), Target: resourceOf(c.target), Owner: resourceOf(c.target)}
			if c.log != "" {
				f.Scene.Logs = []LogExcerpt{{Namespace: "shop", Pod: "web-5d4f8c7b9d-x2x4z", Container: "app", Text: c.log}}
			}
			for range 2 { // the order in which rules run decides nothing
				got := composeFindings(f, nil, c.findings)
				var root, second string
				if len(got.findings) > 0 {
					root = headline(got.findings[0])
				}
				if len(got.findings) > 1 {
					second = headline(got.findings[1])
				}
				var follows []string
				for _, n := range got.consequences {
					follows = append(follows, fmt.Sprintf("%s %s %s < %s %s", n.Cause, n.Object.Kind, n.Object.Name, n.Because.Kind, n.Because.Name))
				}
				slices.Sort(follows)
				if root != c.root || strings.Join(follows, ", ") != c.follows || second != c.second {
					t.Errorf("root %q, then %q, want %q, then %q; follows %q, want %q", root, second, c.root, c.second, follows, c.follows)
				}
				if c.name != "a cycle ends" { // there the first is as good as the second
					slices.Reverse(c.findings)
				}
			}
		})
	}
}

// explainFacts runs all rules and composes what they find.
func explainFacts(f *Facts) composed {
	own, all := judgeFacts(f)
	return composeFindings(f, own, all)
}

func headline(n Finding) string { return n.Cause + " " + n.Object.Kind + " " + n.Object.Name }

func resourceOf(o nightcrier.Object) nightcrier.Resource {
	if o.Kind == "Namespace" {
		return nightcrier.Resource{Kind: o.Kind, Name: o.Name}
	}
	return nightcrier.Resource{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// What is well in every way is found to be, by all rules together.
func TestAWellNamespaceHasNoFindings(t *testing.T) {
	f := &Facts{Now: now, Scene: sceneOf(t, shop), Target: nightcrier.Resource{Kind: "Namespace", Name: "shop"}, Owner: nightcrier.Resource{Kind: "Namespace", Name: "shop"}}
	for _, n := range explainFacts(f).findings {
		t.Errorf("%s: %s", headline(n), n.Summary)
	}
}

func BenchmarkJudge(b *testing.B) {
	var docs []string
	for i := range 50 {
		docs = append(docs, workloadNamed(fmt.Sprintf("w%d", i), fmt.Sprintf(`{name: NEXT_URL, value: "http://w%d:8080"}`, (i+1)%50), ""))
	}
	s := sceneOf(b, strings.Join(docs, "\n---\n"))
	b.ResetTimer()
	for b.Loop() {
		r := nightcrier.Resource{Kind: "Namespace", Name: "shop"}
		explainFacts(&Facts{Now: now, Scene: s, Target: r, Owner: r})
	}
	b.ReportMetric(float64(len(docs))*float64(b.N)/b.Elapsed().Seconds(), "workloads/s")
}

// What is broken elsewhere is the root of a namespace's trouble only where something
// in the namespace needs it.
func TestTroubleElsewhere(t *testing.T) {
	f := &Facts{Now: now, Scene: sceneOf(t, shop), Target: nightcrier.Resource{Kind: namespaceKind, Name: "shop"}}
	dns := nightcrier.Object{Kind: "Deployment", Namespace: systemNamespace, Name: "coredns"}
	away := Finding{Cause: "cluster-dns-unhealthy", Object: dns, Confidence: nightcrier.High, Summary: "DNS is away"}
	if c := composeFindings(f, nil, []Finding{away}); len(c.findings) != 0 {
		t.Errorf("nobody in the namespace needs it: %+v", c.findings)
	}
	unresolved := trouble("dependency-name-unresolved", "Deployment", "web")
	unresolved.DependsOn = []nightcrier.Object{dns}
	c := composeFindings(f, nil, []Finding{away, unresolved})
	if len(c.findings) == 0 || c.findings[0].Object != dns || len(c.consequences) != 1 || c.consequences[0].Because != dns {
		t.Errorf("the root is %+v, with %+v", c.findings, c.consequences)
	}
}

// How a container ended is no second explanation beside why it did; of another
// container it is one.
func TestHowItEndedIsNoOtherExplanation(t *testing.T) {
	f := about(dies()).logs("exec /bin/shipper: exec format error")
	two := pod(crashing(1, "Error", time.Second))
	two.Name = "other"
	for name, c := range map[string]struct {
		all  []Finding
		want []string
	}{
		"the same end": {applyRules(f), []string{"image-platform-mismatch"}},
		"another end":  {append(applyRules(f)[:1], applyRules(about(two))...), []string{"image-platform-mismatch", "crash-on-start"}},
		"alone":        {applyRules(about(dies())), []string{"crash-on-start"}},
	} {
		var got []string
		for _, n := range composeFindings(f, c.all, nil).findings {
			got = append(got, n.Cause)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
