package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// A row is a Scene, what is asked about, and what all rules about that workload and
// about the Scene name first, "" for nothing.
type sceneCase struct {
	name, manifests, kind, object string
	want, says                    string
}

func checkAsked(t *testing.T, cases []sceneCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := scenetest.New(t, c.manifests, "Service", "Pod")
			got := rankFindings(append(ApplyRules(inScene(s, c.kind, c.object)), ApplySceneRules(s)...))
			for _, n := range got {
				scenetest.CheckFinding(t, n)
			}
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("found %s of %s: %s", got[0].Cause, got[0].Object, got[0].Summary)
			case c.want == "":
			case len(got) == 0:
				t.Errorf("found nothing, want %s", c.want)
			case got[0].Cause != c.want || !strings.Contains(got[0].Summary, c.says):
				t.Errorf("found %s: %q, want %s with %q", got[0].Cause, got[0].Summary, c.want, c.says)
			}
		})
	}
}

func TestRolloutPaused(t *testing.T) {
	checkAsked(t, []sceneCase{
		{"changed while paused", scenetest.CartDeployment("replicas: 3, paused: true,", "replicas: 3, readyReplicas: 3"), "Deployment", "cart", "rollout-paused", "0 of 3 Pods"},
		{"paused on the way", scenetest.CartDeployment("replicas: 3, paused: true,", "replicas: 3, readyReplicas: 3, updatedReplicas: 1"), "Deployment", "cart", "rollout-paused", "1 of 3 Pods"},
		{"paused, nothing changed", scenetest.CartDeployment("replicas: 3, paused: true,", "replicas: 3, readyReplicas: 3, updatedReplicas: 3"), "Deployment", "cart", "", ""},
		{"under way", scenetest.CartDeployment("replicas: 3,", "replicas: 3, readyReplicas: 3, updatedReplicas: 1"), "Deployment", "cart", "", ""},
		{"stalled once, done since", scenetest.CartDeployment("replicas: 1,", "replicas: 1, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]"), "Deployment", "cart", "", ""},
	})
}

func TestScaledToZero(t *testing.T) {
	zero := scenetest.CartDeployment("replicas: 0,", "")
	green := "---" + strings.ReplaceAll(scenetest.CartDeployment("replicas: 2,", "replicas: 2, readyReplicas: 2"), "name: cart", "name: cart-green")
	keda := strings.Replace(zero, "labels: {app: cart}", "labels: {app: cart, scaledobject.keda.sh/name: cart}", 1)
	checkAsked(t, []sceneCase{
		{"asked about", zero, "Deployment", "cart", "scaled-to-zero", "spec.replicas is 0"},
		{"a Service needs it", zero + scenetest.CartService, "Deployment", "other", "scaled-to-zero", "nothing else stands behind Service shop/cart"},
		{"a Service has another", zero + scenetest.CartService + "\n" + green, "Deployment", "other", "", ""},
		{"nobody needs it", zero, "Deployment", "other", "", ""},
		{"rests as it should", keda + scenetest.CartService, "Deployment", "cart", "", ""},
	})
}

func job(spec, more string) string {
	return `
{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop, name: migrate, creationTimestamp: "2026-03-01T10:00:00Z"` + more + `}, spec: {` + spec + `}}`
}

func TestJobSuspended(t *testing.T) {
	checkAsked(t, []sceneCase{
		{"suspended", job("suspend: true", ""), "Job", "migrate", "job-suspended", "spec.suspend is true"},
		{"queued", job("suspend: true", ", labels: {kueue.x-k8s.io/queue-name: q}"), "Job", "migrate", "", ""},
		{"not suspended", job("suspend: false", ""), "Job", "migrate", "", ""},
	})
}

func cronJob(schedule, spec, status string) string {
	return `
{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: shop, name: backup, creationTimestamp: "2026-01-01T10:00:00Z"}, spec: {schedule: "` + schedule + `"` + spec + `}, status: {` + status + `}}
`
}

func cronEvent(kind, reason, message string) string {
	return `---
{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, type: ` + kind + `, reason: ` + reason + `, message: '` + message + `', involvedObject: {kind: CronJob, namespace: shop, name: backup}, lastTimestamp: "2026-03-01T11:58:00Z"}`
}

// It is Sunday, the 1st of March 2026, 12:00 in UTC.
func TestCronJobs(t *testing.T) {
	const active = `, active: [{name: backup-1}]`
	running := `---
{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop, name: backup-1, creationTimestamp: "2026-03-01T10:00:00Z", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: backup, controller: true}]}, status: {active: 1}}`
	many := "Cannot determine if job needs to be started: too many missed start time (> 100). Set or decrease .spec.startingDeadlineSeconds or check clock skew"
	checkAsked(t, []sceneCase{
		{"on time", cronJob("*/5 * * * *", "", `lastScheduleTime: "2026-03-01T11:55:00Z"`), "CronJob", "backup", "", ""},
		{"a little late", cronJob("*/5 * * * *", "", `lastScheduleTime: "2026-03-01T11:50:00Z"`), "CronJob", "backup", "", ""},
		{"hours behind", cronJob("*/5 * * * *", "", `lastScheduleTime: "2026-03-01T09:00:00Z"`), "CronJob", "backup", "cronjob-missed", "the first at 2026-03-01T09:05:00Z"},
		{"with too short a deadline", cronJob("*/5 * * * *", ", startingDeadlineSeconds: 5", `lastScheduleTime: "2026-03-01T09:00:00Z"`), "CronJob", "backup", "cronjob-missed", "startingDeadlineSeconds is 5"},
		{"daily, last night", cronJob("0 2 * * *", "", `lastScheduleTime: "2026-03-01T02:00:00Z"`), "CronJob", "backup", "", ""},
		{"daily, in a zone of the controller's own", cronJob("0 2 * * *", "", `lastScheduleTime: "2026-02-28T12:00:00Z"`), "CronJob", "backup", "", ""},
		{"in working hours of a zone of the controller's own", cronJob("*/5 1-3 * * *", "", `lastScheduleTime: "2026-03-01T01:55:00Z"`), "CronJob", "backup", "", ""},
		{"daily, a week behind", cronJob("0 2 * * *", "", `lastScheduleTime: "2026-02-22T02:00:00Z"`), "CronJob", "backup", "cronjob-missed", ""},
		{"never ran, made months ago", cronJob("@hourly", "", ""), "CronJob", "backup", "cronjob-missed", "since it was made"},
		{"too many missed", cronJob("0 2 * * *", "", `lastScheduleTime: "2026-03-01T02:00:00Z"`) + cronEvent("Warning", "FailedNeedsStart", many), "CronJob", "backup", "cronjob-missed", ""},
		{"missed, but ran since", cronJob("*/5 * * * *", "", `lastScheduleTime: "2026-03-01T12:00:00Z"`) + cronEvent("Warning", "MissSchedule", "Missed scheduled time to start a job"), "CronJob", "backup", "", ""},
		{"suspended", cronJob("*/5 * * * *", ", suspend: true", `lastScheduleTime: "2026-03-01T09:00:00Z"`), "CronJob", "backup", "cronjob-suspended", "last ran at 2026-03-01T09:00:00Z"},
		{"suspended, and nobody asks", cronJob("*/5 * * * *", ", suspend: true", `lastScheduleTime: "2026-03-01T09:00:00Z"`), "CronJob", "other", "", ""},
		{"a Job runs on", cronJob("*/5 * * * *", ", concurrencyPolicy: Forbid", `lastScheduleTime: "2026-03-01T10:00:00Z"`+active) + running, "CronJob", "backup", "cronjob-overlap-forbidden", "Job backup-1 still runs since 2026-03-01T10:00:00Z"},
		{"a Job takes a little longer", cronJob("*/5 * * * *", ", concurrencyPolicy: Forbid", `lastScheduleTime: "2026-03-01T11:50:00Z"`+active) + running, "CronJob", "backup", "", ""},
		{"Jobs may overlap", cronJob("0 * * * *", ", concurrencyPolicy: Allow", `lastScheduleTime: "2026-03-01T11:00:00Z"`+active) + running, "CronJob", "backup", "", ""},
		{"a day that never comes", cronJob("0 0 31 2 *", "", ""), "CronJob", "backup", "cronjob-schedule-invalid", "0 0 31 2 *"},
		{"a schedule that nobody can read", cronJob("every day", "", ""), "CronJob", "backup", "cronjob-schedule-invalid", "every day"},
		{"a zone that nobody knows", cronJob("0 2 * * *", ", timeZone: Mars/Olympus", "") + cronEvent("Warning", "UnknownTimeZone", `invalid timeZone: "Mars/Olympus"`), "CronJob", "backup", "cronjob-schedule-invalid", "Mars/Olympus"},
		{"a zone that bites", cronJob("TZ=0", "", ""), "CronJob", "backup", "", ""},
	})
}

func TestStatefulSetWaits(t *testing.T) {
	set := func(policy string) string {
		return `
{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: shop, name: db}, spec: {replicas: 3, serviceName: db` + policy + `}, status: {replicas: 2, readyReplicas: 1}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {clusterIP: None}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db-0, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db-1, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {nodeName: n1}, status: {phase: Running}}`
	}
	checkAsked(t, []sceneCase{
		{"the second is not ready", set(""), "StatefulSet", "db", "statefulset-waits-for-predecessor", "2 of 3 Pods: Pod db-1 is not ready"},
		{"all at once", set(", podManagementPolicy: Parallel"), "StatefulSet", "db", "", ""},
		{"only just made", strings.Replace(set(""), "db-1, creationTimestamp: \"2026-03-01T10:00:00Z\"", "db-1, creationTimestamp: \"2026-03-01T11:59:30Z\"", 1), "StatefulSet", "db", "", ""},
		{"has all it wants", strings.Replace(set(""), "replicas: 3", "replicas: 2", 1), "StatefulSet", "db", "", ""},
	})
}

func TestGoverningService(t *testing.T) {
	const set = `
{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: shop, name: db}, spec: {replicas: 1, serviceName: db-peers}, status: {replicas: 1, readyReplicas: 1}}`
	const unready = `
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {nodeName: n1, containers: [{name: web, env: [{name: DB, value: "db-0.db-peers:5432"}]}]}, status: {phase: Running}}`
	checkAsked(t, []sceneCase{
		{"nobody misses it", set, "StatefulSet", "db", "", ""},
		{"a Pod that is told the name is not ready", set + unready, "StatefulSet", "db", "statefulset-service-missing", "db-peers"},
		{"the Service is there", set + unready + `
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db-peers}, spec: {clusterIP: None}}`, "StatefulSet", "db", "", ""},
	})
	s := scenetest.New(t, set, "Service")
	s.Logs = []scene.LogExcerpt{{Namespace: "shop", Pod: "web", Evidence: "E7", Text: "dial tcp: lookup db-0.db-peers.shop.svc.cluster.local: no such host\n"}}
	checkScene(t, s, "statefulset-service-missing StatefulSet db")
	s.Logs[0].Text = "connected to db-0.db-peers\n"
	checkScene(t, s)
}

func TestDaemonSets(t *testing.T) {
	nodes := func(taint string) string {
		return `
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, spec: {taints: [{key: ` + taint + `, effect: NoSchedule}]}, status: {conditions: [{type: Ready, status: "True"}]}}
---
`
	}
	set := func(spec, status string) string {
		return `{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: shop, name: agent, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {template: {spec: {` + spec + `}}}, status: {` + status + `}}`
	}
	one := "desiredNumberScheduled: 1, currentNumberScheduled: 1, numberReady: 1"
	none := "desiredNumberScheduled: 0, currentNumberScheduled: 0"
	checkAsked(t, []sceneCase{
		{"a taint", nodes("dedicated") + set("", one), "DaemonSet", "agent", "daemonset-not-covering", "node n2 has the taint dedicated:NoSchedule"},
		{"the control plane's taint", nodes("node-role.kubernetes.io/control-plane") + set("", one), "DaemonSet", "agent", "", ""},
		{"no node has the label", nodes("dedicated") + set("nodeSelector: {gpu: 'yes'}", none), "DaemonSet", "agent", "daemonset-not-covering", "does not match its node selector"},
		{"nobody asks", nodes("dedicated") + set("nodeSelector: {gpu: 'yes'}", none), "DaemonSet", "other", "", ""},
		{"tolerates all", nodes("dedicated") + set("tolerations: [{operator: Exists}]", "desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 2"), "DaemonSet", "agent", "", ""},
		{"misscheduled", set("", one+", numberMisscheduled: 2"), "DaemonSet", "agent", "daemonset-misscheduled", "2 nodes"},
		{"Pods are not made", set("", "desiredNumberScheduled: 3, currentNumberScheduled: 1, numberReady: 1"), "DaemonSet", "agent", "daemonset-not-covering", "runs on 1 nodes and should on 3"},
	})
}
