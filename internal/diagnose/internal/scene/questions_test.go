package scene_test

import (
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// Who made fewer Pods than it should is not well, though all that it made are.
func TestLacksPods(t *testing.T) {
	for status, want := range map[string]bool{
		"observedGeneration: 1, replicas: 1, readyReplicas: 1": true,
		"observedGeneration: 1, replicas: 2, readyReplicas: 1": false,
		"": false, // no controller has looked at it
	} {
		s := scenetest.New(t, scenetest.CartDeployment("replicas: 2,", status))
		if got := s.AllWorkloads()[0].LacksPods(); got != want {
			t.Errorf("{%s}: %t", status, got)
		}
	}
}

// A Service leads to its workload even while that has no Pods.
func TestAServiceOfAWorkloadWithoutPods(t *testing.T) {
	s := scenetest.New(t, scenetest.CartDeployment("replicas: 1, selector: {matchLabels: {app: cart}},", "")+scenetest.CartService)
	if _, leads := scene.DrawGraph(s).ReachFrom(scenetest.InShop("Service", "cart"), scene.ByMake)[scenetest.InShop("Deployment", "cart")]; !leads {
		t.Error("the Service does not lead to its workload")
	}
}

// Of a namespace of which nothing was found nothing is said to be missing.
func TestAnEmptyNamespaceIsDoubted(t *testing.T) {
	s := &scene.Scene{Pods: scenetest.New(t, scenetest.WellWorkload("web", "", "")).Pods}
	for ns, want := range map[string]bool{"shop": true, "data": false} {
		s.SetComplete("Service", ns)
		s.DoubtNamespace(ns, "Service")
		if got := s.Complete("Service", ns); got != want {
			t.Errorf("%s is complete: %t", ns, got)
		}
	}
}
