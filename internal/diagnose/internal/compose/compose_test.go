package compose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func trouble(cause, kind, name string) scene.Finding {
	return scene.Finding{Cause: cause, Entry: rules.CauseOf(cause), Object: scenetest.InShop(kind, name), Confidence: nightcrier.High, Summary: cause + " of " + name}
}

func TestComposition(t *testing.T) {
	waits := trouble("readiness-probe-failing", "Deployment", "web")
	waits.Observed = []scene.Observation{{Quote: "Readiness probe failed: HTTP probe failed with statuscode: 503"}}
	wrong := trouble("readiness-probe-failing", "Deployment", "web")
	wrong.Observed = []scene.Observation{{Quote: "Readiness probe failed: dial tcp 10.1.0.4:8081: connect: connection refused"}}
	hint := trouble("dependency-timeout", "Deployment", "db")
	hint.Confidence = nightcrier.Low
	needs := trouble("service-pods-not-ready", "Service", "cart")
	needs.DependsOn = []nightcrier.Object{scenetest.InShop("Deployment", "cart")}
	around := trouble("readiness-probe-failing", "Deployment", "a")
	around.DependsOn = []nightcrier.Object{scenetest.InShop("Deployment", "b")}
	back := trouble("readiness-probe-failing", "Deployment", "b")
	back.DependsOn = []nightcrier.Object{scenetest.InShop("Deployment", "a")}
	cases := []struct {
		name     string
		target   nightcrier.Object
		findings []scene.Finding
		log      string // of web
		root     string
		follows  string // what follows from the root, with what it follows from
		second   string // H2
	}{
		{"one trouble is its own root", scenetest.InShop("Namespace", "shop"), []scene.Finding{trouble("oom-killed", "Deployment", "cart")}, "", "oom-killed Deployment cart", "", ""},
		{"a Service follows from its workload", scenetest.InShop("Namespace", "shop"), []scene.Finding{trouble("service-pods-not-ready", "Service", "cart"), trouble("readiness-probe-failing", "Deployment", "cart")},
			"", "readiness-probe-failing Deployment cart", "service-pods-not-ready Service cart < Deployment cart", ""},
		{"three steps", scenetest.InShop("Namespace", "shop"), []scene.Finding{needs, waits, trouble("oom-killed", "Deployment", "cart")},
			"", "oom-killed Deployment cart", "readiness-probe-failing Deployment web < Service cart, service-pods-not-ready Service cart < Deployment cart", ""},
		{"who is not served at all has a fault of its own", scenetest.InShop("Deployment", "web"), []scene.Finding{wrong, trouble("oom-killed", "Deployment", "cart")},
			"", "readiness-probe-failing Deployment web", "", ""},
		{"a claim's class", scenetest.InShop("Deployment", "db"), []scene.Finding{trouble("unschedulable-volume", "Deployment", "db"), trouble("volume-not-provisioned", "StorageClass", "fast")},
			"", "volume-not-provisioned StorageClass fast", "unschedulable-volume Deployment db < PersistentVolumeClaim data", ""},
		{"who states its own reason is not explained by a setting", scenetest.InShop("Deployment", "web"), []scene.Finding{trouble("oom-killed", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"", "oom-killed Deployment web", "", ""},
		{"a crash is not explained by a setting alone", scenetest.InShop("Deployment", "web"), []scene.Finding{trouble("crash-on-start", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"", "crash-on-start Deployment web", "", ""},
		{"but by what its log says", scenetest.InShop("Deployment", "web"), []scene.Finding{trouble("crash-on-start", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"fatal: dial tcp: lookup cart on 10.96.0.10:53: no such host", "image-not-found Deployment cart", "crash-on-start Deployment web < Service cart", ""},
		{"a log that names another", scenetest.InShop("Deployment", "web"), []scene.Finding{trouble("crash-on-start", "Deployment", "web"), trouble("image-not-found", "Deployment", "cart")},
			"fatal: cannot find template cartoon in shopping cart page", "crash-on-start Deployment web", "", ""},
		{"trouble elsewhere is no business of the target", scenetest.InShop("Deployment", "cart"), []scene.Finding{trouble("oom-killed", "Deployment", "web")}, "", "", "", ""},
		{"what leads to the target is", scenetest.InShop("Deployment", "web"), []scene.Finding{trouble("service-target-port-mismatch", "Service", "web")}, "", "service-target-port-mismatch Service web", "", ""},
		{"its own trouble comes first", scenetest.InShop("Deployment", "web"), []scene.Finding{trouble("service-target-port-mismatch", "Service", "web"), trouble("liveness-probe-failing", "Deployment", "web")},
			"", "liveness-probe-failing Deployment web", "", "service-target-port-mismatch Service web"},
		{"a cycle ends", scenetest.InShop("Namespace", "shop"), []scene.Finding{around, back}, "", "readiness-probe-failing Deployment a", "readiness-probe-failing Deployment b < Deployment a", ""},
		{"a hint explains nothing", scenetest.InShop("Namespace", "shop"), []scene.Finding{trouble("readiness-probe-failing", "Deployment", "cart"), hint},
			"", "readiness-probe-failing Deployment cart", "", "dependency-timeout Deployment db"},
		{"two roots", scenetest.InShop("Namespace", "shop"), []scene.Finding{trouble("quota-exceeded", "Deployment", "db"), trouble("image-not-found", "Deployment", "cart"), needs},
			"", "image-not-found Deployment cart", "service-pods-not-ready Service cart < Deployment cart", "quota-exceeded Deployment db"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, scenetest.WellShop), Target: resourceOf(c.target), Owner: resourceOf(c.target)}
			if c.log != "" {
				f.Scene.Logs = []scene.LogExcerpt{{Namespace: "shop", Pod: "web-5d4f8c7b9d-x2x4z", Container: "app", Text: c.log}}
			}
			for range 2 { // the order in which rules run decides nothing
				got := Compose(f, nil, c.findings)
				var root, second string
				if len(got.Findings) > 0 {
					root = scenetest.Headline(got.Findings[0])
				}
				if len(got.Findings) > 1 {
					second = scenetest.Headline(got.Findings[1])
				}
				var follows []string
				for _, n := range got.Consequences {
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

func resourceOf(o nightcrier.Object) nightcrier.Resource {
	if o.Kind == "Namespace" {
		return nightcrier.Resource{Kind: o.Kind, Name: o.Name}
	}
	return nightcrier.Resource{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// What is broken elsewhere is the root of a namespace's trouble only where something
// in the namespace needs it.
func TestTroubleElsewhere(t *testing.T) {
	f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, scenetest.WellShop), Target: nightcrier.Resource{Kind: scene.NamespaceKind, Name: "shop"}}
	dns := nightcrier.Object{Kind: "Deployment", Namespace: scene.SystemNamespace, Name: "coredns"}
	away := scene.Finding{Cause: "cluster-dns-unhealthy", Object: dns, Confidence: nightcrier.High, Summary: "DNS is away"}
	if c := Compose(f, nil, []scene.Finding{away}); len(c.Findings) != 0 {
		t.Errorf("nobody in the namespace needs it: %+v", c.Findings)
	}
	unresolved := trouble("dependency-name-unresolved", "Deployment", "web")
	unresolved.DependsOn = []nightcrier.Object{dns}
	c := Compose(f, nil, []scene.Finding{away, unresolved})
	if len(c.Findings) == 0 || c.Findings[0].Object != dns || len(c.Consequences) != 1 || c.Consequences[0].Because != dns {
		t.Errorf("the root is %+v, with %+v", c.Findings, c.Consequences)
	}
}

// How a container ended is no second explanation beside why it did; of another
// container it is one.
func TestHowItEndedIsNoOtherExplanation(t *testing.T) {
	f := scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), "exec /bin/shipper: exec format error")
	two := scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))
	two.Name = "other"
	for name, c := range map[string]struct {
		all  []scene.Finding
		want []string
	}{
		"the same end": {rules.ApplyRules(f), []string{"image-platform-mismatch"}},
		"another end":  {append(rules.ApplyRules(f)[:1], rules.ApplyRules(scenetest.FactsOf(two))...), []string{"image-platform-mismatch", "crash-on-start"}},
		"alone":        {rules.ApplyRules(scenetest.FactsOf(scenetest.DyingPod())), []string{"crash-on-start"}},
	} {
		var got []string
		for _, n := range Compose(f, c.all, nil).Findings {
			got = append(got, n.Cause)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
