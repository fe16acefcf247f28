package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// What has just failed and looks well again is neither recovered nor healthy before nothing
// worse can come of it.
func TestTheGoodHalfIsNoAllClear(t *testing.T) {
	fine := nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "fine"}
	shop := func(ago time.Duration) string {
		well := strings.ReplaceAll(scenetest.WellWorkload("fine", "{name: A, value: b}", ""), "{name: app, env", "{name: app, livenessProbe: {httpGet: {path: /live, port: 8080}, periodSeconds: 10, failureThreshold: 3}, env")
		return well + "\n---\n" + fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e1}, type: Warning, reason: Unhealthy, count: 1, message: "Liveness probe failed: HTTP probe failed with statuscode: 500", involvedObject: {kind: Pod, namespace: shop, name: fine-5d4f8c7b9d-x2x4z}, lastTimestamp: %q}`, scenetest.Ago(ago))
	}
	probe := nightcrier.Event{FaultType: nightcrier.FaultProbe, Context: "Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 500, seen 1 time"}
	for name, c := range map[string]struct {
		ago     time.Duration
		event   nightcrier.Event
		verdict nightcrier.Verdict
		again   bool
	}{
		"the sender says so":         {5 * time.Second, probe, nightcrier.VerdictFault, false},
		"nobody says so":             {5 * time.Second, nightcrier.Event{}, nightcrier.VerdictUndetermined, true},
		"it has succeeded since":     {time.Minute, probe, nightcrier.VerdictHealthy, false},
		"nobody says so, long since": {time.Minute, nightcrier.Event{}, nightcrier.VerdictHealthy, false},
	} {
		r := judged(t, shop(c.ago), fine, c.event)
		if r.Verdict != c.verdict || r.LookAgainAt.IsZero() == c.again || c.verdict == nightcrier.VerdictFault && r.RootCause.Cause != "liveness-probe-failing" {
			t.Errorf("%s: %s, %+v, again at %s", name, r.Verdict, r.RootCause, r.LookAgainAt)
		}
	}
}

// A failed Job whose controller's newest run succeeded is history; what failed again is not.
func TestAFailedJobAndItsSuccessors(t *testing.T) {
	job := func(name, at, condition string) string {
		return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop, name: %s, creationTimestamp: %q, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: u, controller: true}]}, spec: {}, status: {conditions: [{type: %s, status: "True", reason: BackoffLimitExceeded}]}}`, name, at, condition)
	}
	cron := `{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: shop, name: nightly, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {schedule: "0 3 * * *", timeZone: UTC}, status: {lastScheduleTime: "2026-03-01T03:00:00Z"}}`
	target := nightcrier.Resource{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "nightly-1"}
	failed := nightcrier.Event{FaultType: nightcrier.FaultJob}
	for later, recovered := range map[string]bool{"Complete": true, "Failed": false} {
		docs := scenetest.JoinDocs(cron, job("nightly-1", "2026-02-26T03:00:00Z", "Failed"), job("nightly-2", "2026-02-28T03:00:00Z", "Complete"), job("nightly-3", "2026-03-01T03:00:00Z", later))
		r := judged(t, docs, target, failed)
		if (r.Verdict == nightcrier.VerdictRecovered) != recovered {
			t.Errorf("%s: %s, %+v", later, r.Verdict, r.RootCause)
		}
		if recovered && !strings.Contains(r.Hypotheses[0].Statement, "nightly-3") {
			t.Errorf("the later run is not told: %+v", r.Hypotheses)
		}
	}
}

// What an operator's Job is still making is in progress, and so is a node that is launched;
// neither is for ever.
func TestWhatIsBeingMade(t *testing.T) {
	shop := nightcrier.Resource{Kind: "Namespace", Name: "shop"}
	well := scenetest.WellWorkload("fine", "{name: A, value: b}", "")
	job := func(started, status string) string {
		return scenetest.JoinDocs(well, fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop, name: db-3-join, creationTimestamp: %[1]q, ownerReferences: [{apiVersion: db.example.org/v1, kind: Cluster, name: db, uid: u, controller: true}]}, spec: {}, status: {startTime: %[1]q, %[2]s}}`, started, status),
			fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db-3-join-x2x4z, creationTimestamp: %[1]q, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: db-3-join, uid: u, controller: true}]}, spec: {containers: [{name: join}]}, status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: %[1]q}], containerStatuses: [{name: join, ready: true, state: {running: {startedAt: %[1]q}}}]}}`, started))
	}
	waits := `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:56:00Z"}, spec: {containers: [{name: app}]}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient cpu."}]}}`
	claim := func(made string) string {
		return scenetest.JoinDocs(well, waits, fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: general-1, creationTimestamp: %q}, status: {conditions: [{type: Launched, status: "True"}, {type: Registered, status: Unknown, reason: NodeNotFound, message: node not registered with cluster}]}}`, made))
	}
	for name, c := range map[string]struct {
		docs string
		says string
	}{
		"a Job that runs":      {job(scenetest.Ago(13*time.Minute), "active: 1"), "Job/shop/db-3-join is in progress"},
		"a Job that runs on":   {job(scenetest.Ago(3*time.Hour), "active: 1"), ""},
		"a node that comes":    {claim(scenetest.Ago(3 * time.Minute)), "NodeClaim"},
		"a node older than it": {claim(scenetest.Ago(9 * time.Minute)), ""},
	} {
		r := judged(t, c.docs, shop, nightcrier.Event{})
		if under := r.Verdict == nightcrier.VerdictUndetermined && !r.LookAgainAt.IsZero(); under != (c.says != "") {
			t.Errorf("%s: %s, %+v, %+v", name, r.Verdict, r.RootCause, r.Hypotheses)
		}
	}
}
