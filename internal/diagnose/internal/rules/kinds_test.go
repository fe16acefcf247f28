package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// What a scene of several objects shows, and what of it must stand in the summary and in the
// first step.
func TestKindsOfScenes(t *testing.T) {
	route := func(reason, ns string) string {
		return `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: web2, name: front}, spec: {rules: [{backendRefs: [{name: cart, namespace: shop, port: 80}]}]}, status: {parents: [{controllerName: c, conditions: [{type: Accepted, status: "True"}, {type: ResolvedRefs, status: "False", reason: ` + reason + `, message: "backend ref to shop/cart is refused"}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {namespace: shop, name: from-web}, spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: ` + ns + `}], to: [{group: "", kind: Service}]}}`
	}
	clock := func(status, log string) *scene.Scene {
		s := scenetest.New(t, `{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: NTPProblem, status: "`+status+`", message: "chronyd is not running"}, {type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart}, spec: {nodeName: n1}}`)
		s.Logs = []scene.LogExcerpt{{Namespace: "shop", Pod: "cart", Container: "app", Evidence: "E4", Text: log}}
		return s
	}
	quota := func(used string, suspended string) string {
		job := func(name, of string) string {
			return `{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop, name: ` + name + `, creationTimestamp: "2026-03-01T11:00:00Z", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: ` + of + `, uid: u, controller: true}]}, status: {conditions: [{type: Complete, status: "True"}]}}`
		}
		return scenetest.JoinDocs(`{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: shop, name: counts}, spec: {}, status: {hard: {count/jobs.batch: "3"}, used: {count/jobs.batch: "`+used+`"}}}`,
			`{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: shop, name: nightly, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {schedule: "0 3 * * *", timeZone: UTC, suspend: `+suspended+`}, status: {lastScheduleTime: "2026-02-27T03:00:00Z"}}`,
			`{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: shop, name: often, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {schedule: "0 * * * *", successfulJobsHistoryLimit: 50}, status: {lastScheduleTime: "2026-03-01T12:00:00Z"}}`,
			job("often-1", "often"), job("often-2", "often"), job("often-3", "often"))
	}
	pools := func(limit, size string) *scene.Scene {
		pod := func(name, ordinal, env string) string {
			return strings.Replace(scenetest.WellWorkload(name, env, ""), "5d4f8c7b9d-x2x4z", "5d4f8c7b9d-x2x4"+ordinal, 1)
		}
		s := scenetest.New(t, scenetest.JoinDocs(pod("db", "a", `{name: MAX_CONNECTIONS, value: "`+limit+`"}`), pod("cart", "a", `{name: DB_ADDR, value: "db:8080"}, {name: DB_POOL_SIZE, value: "5"}`),
			pod("mail", "a", `{name: DB_ADDR, value: "db:8080"}, {name: DB_POOL_MAX, value: "`+size+`"}`)))
		s.Logs = []scene.LogExcerpt{{Namespace: "shop", Pod: "cart-5d4f8c7b9d-x2x4a", Container: "app", Evidence: "E4", Text: "FATAL: sorry, too many clients already\n"}}
		return s
	}
	for name, tt := range map[string]struct {
		scene       *scene.Scene
		cause       string
		object      nightcrier.Object
		says, first string
		sure        nightcrier.Confidence
	}{
		"a grant names another namespace": {scenetest.New(t, route("RefNotPermitted", "web")), "route-not-permitted", nightcrier.Object{Kind: "HTTPRoute", Namespace: "web2", Name: "front"}, "RefNotPermitted", "Add namespace web2 to spec.from of ReferenceGrant shop/from-web", nightcrier.High},
		"a grant names it":                {scenetest.New(t, route("RefNotPermitted", "web2")), "route-not-permitted", nightcrier.Object{Kind: "HTTPRoute", Namespace: "web2", Name: "front"}, "RefNotPermitted", "Mend in HTTPRoute web2/front", nightcrier.Medium},
		"no backend":                      {scenetest.New(t, route("BackendNotFound", "web2")), "route-refused", nightcrier.Object{Kind: "HTTPRoute", Namespace: "web2", Name: "front"}, "BackendNotFound", "Mend in HTTPRoute web2/front", nightcrier.High},
		"all refs resolved":               {scene: scenetest.New(t, strings.Replace(route("RefNotPermitted", "web"), `type: ResolvedRefs, status: "False"`, `type: ResolvedRefs, status: "True"`, 1))},
		"clock":                           {clock("True", "err: token used before issued\n"), "node-clock-wrong", nightcrier.Object{Kind: "Node", Name: "n1"}, "token used before issued", "Start the time service of node n1", nightcrier.High},
		"clock, nobody complains":         {scene: clock("True", "GET / 200\n")},
		"clock is kept":                   {scene: clock("False", "err: token used before issued\n")},
		"pools of one":                    {pools("60", "80"), "connections-exhausted", scenetest.InShop("Deployment", "mail"), "DB_POOL_MAX is 80", "Lower env DB_POOL_MAX of Deployment shop/mail", nightcrier.High},
		"pools that fit":                  {scene: pools("600", "80")},
		"small pools":                     {scene: pools("600", "4")},
		"quota of Jobs":                   {scenetest.New(t, quota("3", "false")), "quota-exceeded", nightcrier.Object{Kind: "CronJob", Namespace: "shop", Name: "nightly"}, "count/jobs.batch: 3 of 3 used", "Delete the Jobs of CronJob shop/often", nightcrier.High},
		"suspended, and the quota full":   {scene: scenetest.New(t, quota("3", "true"))},
		"room for a Job":                  {scenetest.New(t, quota("2", "false")), "cronjob-missed", nightcrier.Object{Kind: "CronJob", Namespace: "shop", Name: "nightly"}, "has not started", "Set startingDeadlineSeconds", nightcrier.Medium},
	} {
		t.Run(name, func(t *testing.T) {
			got := ApplySceneRules(tt.scene)
			if tt.cause == "" {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) == 0 || got[0].Cause != tt.cause || got[0].Object != tt.object || got[0].Confidence != tt.sure || !strings.Contains(got[0].Summary, tt.says) || !strings.Contains(got[0].Actions[0].Action, tt.first) {
				t.Fatalf("%+v", got)
			}
			scenetest.CheckFinding(t, got[0])
		})
	}
}

// A Pod that lacks what its siblings of the same template have was made otherwise; of two
// nobody knows which.
func TestSidecarOfSiblings(t *testing.T) {
	pod := func(name, containers string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-5d4f8c7b9d-` + name + `, creationTimestamp: "2026-03-01T10:00:00Z", labels: {app: cart, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-5d4f8c7b9d, uid: u, controller: true}]}, spec: {containers: [` + containers + `]}, status: {phase: Running}}`
	}
	with, without := "{name: app}, {name: proxy}", "{name: app}"
	for name, tt := range map[string]struct {
		pods  []string
		found bool
	}{
		"one lacks it": {[]string{pod("a", with), pod("b", with), pod("c", without)}, true},
		"all have it":  {[]string{pod("a", with), pod("b", with), pod("c", with)}, false},
		"one has it":   {[]string{pod("a", without), pod("b", without), pod("c", with)}, false},
		"of two":       {[]string{pod("a", with), pod("b", without)}, false},
		"of a new set": {[]string{pod("a", with), pod("b", with), strings.ReplaceAll(pod("c", without), "5d4f8c7b9d", "6b7f8c7b9d")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenetest.New(t, scenetest.JoinDocs(append(tt.pods, scenetest.DeploymentOf("cart", "app: cart", scenetest.App8080))...))
			f := s.NewFacts(scenetest.Cart, "apps/v1")
			f.FillFromScene()
			got := ApplyRules(f)
			if found := len(got) > 0 && got[0].Cause == "sidecar-missing"; found != tt.found {
				t.Fatalf("%+v", got)
			}
			if tt.found {
				scenetest.CheckFinding(t, got[0])
			}
		})
	}
}
