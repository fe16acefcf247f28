package diagnose

import (
	"testing"
	"time"
)

// No rule begins once its time is over, and that it did not is known.
func TestRulesEndInTime(t *testing.T) {
	s := sceneOf(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {storageClassName: gold, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`, "StorageClass")
	if len(applyScene(s)) == 0 || s.late {
		t.Fatal("the rules find nothing in time either")
	}
	s.until = time.Now().Add(-time.Second)
	if found := applyScene(s); len(found) != 0 || !s.late {
		t.Errorf("found %+v after the end", found)
	}
}
