package pods

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestMissedRunsAreBounded(t *testing.T) {
	s := scenetest.New(t, `{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: shop, name: tick, creationTimestamp: "1970-01-01T00:00:00Z"}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {containers: [{name: app}]}}}}}, status: {lastScheduleTime: "1970-01-01T00:00:00Z"}}`)
	if n, _ := missedRuns(s, &s.CronJobs[0].Object); n != countedRuns {
		t.Errorf("counted %d", n)
	}
	if s.Now.Sub(scenetest.Now) > time.Second {
		t.Error("the clock moved")
	}
}
