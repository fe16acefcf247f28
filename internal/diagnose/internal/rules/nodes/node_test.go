package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestWhyANodeIsBad(t *testing.T) {
	for _, tt := range []struct {
		give corev1.NodeCondition
		want string
	}{
		{corev1.NodeCondition{}, ""},
		{corev1.NodeCondition{Reason: "KubeletNotReady"}, " (KubeletNotReady)"},
		{corev1.NodeCondition{Message: "PLEG is not healthy.\n"}, ": PLEG is not healthy"},
		{corev1.NodeCondition{Reason: "KubeletNotReady", Message: "PLEG\x1b[31m is not healthy"}, " (KubeletNotReady): PLEG is not healthy"},
	} {
		if got := conditionReason(tt.give); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.give, got, tt.want)
		}
	}
}

// What fails on one node alone, while the same Pod runs on another, is the node's; what has
// no twin that is well, or fails on two, may be the Pod's own.
func TestBlameNode(t *testing.T) {
	pod := func(name, node, image string, ready bool) *corev1.Pod {
		p := scenetest.Pod(func(p *corev1.Pod) {
			p.Name, p.Spec.NodeName, p.Spec.Containers[0].Image = name, node, image
		})
		if ready {
			scenetest.Ready(time.Hour)(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"runs elsewhere":             {[]*corev1.Pod{pod("a", "n1", "x", false), pod("b", "n2", "x", true)}, "Node"},
		"fails on two":               {[]*corev1.Pod{pod("a", "n1", "x", false), pod("b", "n2", "x", false), pod("c", "n3", "x", true)}, "Deployment"},
		"runs there too":             {[]*corev1.Pod{pod("a", "n1", "x", false), pod("b", "n1", "x", true), pod("c", "n2", "x", true)}, "Deployment"},
		"another image is elsewhere": {[]*corev1.Pod{pod("a", "n1", "x", false), pod("b", "n2", "y", true)}, "Deployment"},
		"alone":                      {[]*corev1.Pod{pod("a", "n1", "x", false)}, "Deployment"},
	} {
		f := scenetest.FactsOf(c.pods...)
		f.CountPods(f.Pods)
		if n := BlameNode(f, scene.Finding{Cause: "files-exhausted", Object: f.Mend()}); n.Object.Kind != c.want {
			t.Errorf("%s: %s, want a %s", name, n.Object, c.want)
		}
		if n := BlameNode(f, scene.Finding{Cause: "missing-secret", Object: f.Mend()}); n.Object != f.Mend() {
			t.Errorf("%s: what no node has to do with is blamed on %s", name, n.Object)
		}
	}
}
