package rules

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// No rule begins once its time is over, and that it did not is known.
func TestRulesEndInTime(t *testing.T) {
	s := scenetest.New(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {storageClassName: gold, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`, "StorageClass")
	if len(ApplySceneRules(s)) == 0 || s.Late {
		t.Fatal("the rules find nothing in time either")
	}
	s.Until = time.Now().Add(-time.Second)
	if found := ApplySceneRules(s); len(found) != 0 || !s.Late {
		t.Errorf("found %+v after the end", found)
	}
}
