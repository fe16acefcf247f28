package deploy

import (
	"encoding/json"
	"strings"
	"testing"
)

// How far a workload is follows from its status, and only from one of its newest change.
func TestRolloutOf(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		state  rollout
		says   string
	}{
		"ready":              {`{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`, ready, "2 of 2 available"},
		"one by default":     {`{"metadata":{"generation":1},"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`, ready, "1 of 1"},
		"none wanted":        {`{"metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, ready, "0 of 0"},
		"of the last change": {`{"metadata":{"generation":3},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`, underWay, "has not seen the last change"},
		"no status yet":      {`{"metadata":{"generation":1},"spec":{"replicas":2}}`, underWay, "has not seen"},
		"old Pods are there": {`{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":2,"availableReplicas":2}}`, underWay, "2 of 2 are of the last change"},
		"not available":      {`{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":1}}`, underWay, "1 available"},
		"not updated":        {`{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":1,"availableReplicas":2}}`, underWay, "1 of 2"},
		"no progress":        {`{"status":{"conditions":[{"type":"Progressing","reason":"ProgressDeadlineExceeded","message":"m"}]}}`, broken, "failed: ProgressDeadlineExceeded m"},
		"a Job":              {`{"kind":"Job","spec":{"completions":3},"status":{"succeeded":1}}`, underWay, "1 of 3 done"},
		"a Job that is done": {`{"kind":"Job","status":{"succeeded":1,"conditions":[{"type":"Complete","status":"True"}]}}`, ready, "complete"},
		"a Job that failed":  {`{"kind":"Job","status":{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}}`, broken, "BackoffLimitExceeded"},
		"a Job that did not": {`{"kind":"Job","status":{"conditions":[{"type":"Failed","status":"False"},{"type":"Complete","status":"False"}]}}`, underWay, "0 of 1 done"},
		"nonsense":           {`{"spec":[],"status":{"conditions":"x","replicas":"2"}}`, underWay, "has not seen"},
	} {
		t.Run(name, func(t *testing.T) {
			var obj map[string]any
			if err := json.Unmarshal([]byte(c.object), &obj); err != nil {
				t.Fatal(err)
			}
			if state, why := rolloutOf(obj); state != c.state || !strings.Contains(why, c.says) {
				t.Errorf("%d: %s", state, why)
			}
		})
	}
}
