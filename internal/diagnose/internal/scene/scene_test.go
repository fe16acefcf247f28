package scene_test

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestSceneKeepsWhatItIsGiven(t *testing.T) {
	s := scenetest.New(t, `{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: cart}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {namespace: shop, name: w}}`)
	if scene.FindObject(s.Services, "shop", "cart") == nil || scene.FindObject(s.Services, "other", "cart") != nil || len(s.Others) != 1 {
		t.Errorf("kept %d services, %d others", len(s.Services), len(s.Others))
	}
	if err := s.Add("Pod", []byte(`{"spec": 3}`), scene.Ref{Source: "kubectl get pods"}); err == nil || !strings.Contains(err.Error(), "kubectl get pods") {
		t.Errorf("a Pod that is none: %v", err)
	}
}
