package rules

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestReplicasFoughtOver(t *testing.T) {
	at := func(ago time.Duration) string { return scenetest.Now.Add(-ago).UTC().Format(time.RFC3339) }
	event := func(kind, reason, message string, count int, ago time.Duration) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: %q}, involvedObject: {kind: %s, namespace: shop, name: web}, reason: %s, message: %q, count: %d, lastTimestamp: %q}`,
			fmt.Sprint(kind, message), kind, reason, message, count, at(ago))
	}
	scaler := `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: shop, name: web, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: web}}, status: {currentReplicas: 2, desiredReplicas: 8}}`
	up := event("Deployment", "ScalingReplicaSet", "Scaled up replica set web-1 from 2 to 8", 5, time.Minute)
	down := event("Deployment", "ScalingReplicaSet", "Scaled down replica set web-1 from 8 to 2", 5, time.Minute)
	decidesUp := event("HorizontalPodAutoscaler", "SuccessfulRescale", "New size: 8; reason: cpu above target", 5, time.Minute)
	decidesDown := event("HorizontalPodAutoscaler", "SuccessfulRescale", "New size: 2; reason: All metrics below target", 5, time.Minute)
	old := event("Deployment", "ScalingReplicaSet", "Scaled down replica set web-1 from 8 to 2", 5, 3*time.Hour)
	other := event("Deployment", "ScalingReplicaSet", "Scaled down replica set web-0 from 8 to 2", 5, time.Minute)
	found := []string{"controllers-fight Deployment web"}
	checkScenes(t, []scenecase{
		{"it decides up, and somebody down", scenetest.JoinDocs(scaler, up, down, decidesUp), nil, found},
		{"it decides both", scenetest.JoinDocs(scaler, up, down, decidesUp, decidesDown), nil, nil},
		{"it decides the same again and again", scenetest.JoinDocs(scaler, decidesUp), nil, found},
		{"it went up once", scenetest.JoinDocs(scaler, event("HorizontalPodAutoscaler", "SuccessfulRescale", "New size: 8; reason: cpu above target", 1, time.Minute)), nil, nil},
		{"it swung hours ago", scenetest.JoinDocs(scaler, up, old), nil, nil},
		{"a rollout", scenetest.JoinDocs(scaler, up, other), nil, nil},
	})
}
