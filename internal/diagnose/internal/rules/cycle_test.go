package rules

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// upSince runs and is ready since so long ago.
func upSince(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		running(ago)(p)
		p.Status.ContainerStatuses[0].Ready = true
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(scenetest.Now.Add(-ago))}}
	}
}

// readyAgain says since when a Pod that has been up for longer is ready.
func readyAgain(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(scenetest.Now.Add(-ago))
	}
}

// restarted is up for ten seconds after its only end, so long ago.
func restarted(code int32, reason string, restarts int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		scenetest.Crashing(code, reason, time.Second)(p)
		upSince(10 * time.Second)(p)
		p.Status.ContainerStatuses[0].RestartCount = restarts
	}
}

func forgetEnd(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{}
}

// firstSeen says since when the last Event has been seen.
func firstSeen(f *scene.Facts, ago time.Duration) *scene.Facts {
	f.Events[len(f.Events)-1].Object.FirstTimestamp = metav1.NewTime(scenetest.Now.Add(-ago))
	return f
}

func claimed(f *scene.Facts) *scene.Facts {
	f.Claimed = nightcrier.FaultProbe
	return f
}

// A fault that comes and goes is the same one in the half in which all looks well, and is no
// surer there.
func TestBothHalvesOfACycle(t *testing.T) {
	const live, ready = "Liveness probe failed: HTTP probe failed with statuscode: 500", "Readiness probe failed: HTTP probe failed with statuscode: 503"
	const killing = "Container app failed liveness probe, will be restarted"
	web := httpGet("/live", intstr.FromInt32(8080))
	unhealthy := func(p *corev1.Pod, message string, times int32, ago time.Duration) *scene.Facts {
		return seenTimes(withEvent(scenetest.FactsOf(p), "Unhealthy", message, ago), times)
	}
	killed := func(p *corev1.Pod) *scene.Facts {
		return withEvent(unhealthy(p, live, 3, 12*time.Second), "Killing", killing, 11*time.Second)
	}
	for name, halves := range map[string]struct {
		bad, good *scene.Facts
		cause     string
	}{
		"crash loop":                       {scenetest.FactsOf(scenetest.DyingPod()), scenetest.FactsOf(scenetest.Pod(restarted(1, "Error", 5))), "crash-on-start"},
		"crash loop, its end forgotten":    {scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), forgetEnd)), scenetest.FactsOf(scenetest.Pod(restarted(1, "Error", 5), forgetEnd)), "crash-on-start"},
		"memory":                           {scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Second))), scenetest.FactsOf(scenetest.Pod(restarted(137, "OOMKilled", 1))), "oom-killed"},
		"liveness, killed with SIGKILL":    {killed(scenetest.Pod(scenetest.Crashing(137, "Error", time.Second), liveness(web))), killed(scenetest.Pod(restarted(137, "Error", 1), liveness(web))), "liveness-probe-failing"},
		"liveness, ended when asked to":    {killed(scenetest.Pod(scenetest.Crashing(0, "Completed", time.Second), liveness(web))), killed(scenetest.Pod(restarted(0, "Completed", 1), liveness(web))), "liveness-probe-failing"},
		"liveness, ended by SIGTERM":       {killed(scenetest.Pod(scenetest.Crashing(143, "Error", time.Second), liveness(web))), killed(scenetest.Pod(restarted(143, "Error", 1), liveness(web))), "liveness-probe-failing"},
		"liveness, its status is old":      {killed(scenetest.Pod(scenetest.Crashing(137, "Error", time.Second), liveness(web))), killed(scenetest.Pod(upSince(time.Minute), liveness(web))), "liveness-probe-failing"},
		"liveness, told before it is late": {killed(scenetest.Pod(scenetest.Crashing(137, "Error", time.Second), liveness(web))), claimed(unhealthy(scenetest.Pod(upSince(time.Minute), liveness(web)), live, 1, 3*time.Second)), "liveness-probe-failing"},
		"readiness comes and goes": {unhealthy(scenetest.Pod(running(time.Hour), readiness(web)), ready, 9, time.Minute),
			firstSeen(unhealthy(scenetest.Pod(upSince(time.Hour), readyAgain(30*time.Second), readiness(web)), ready, 9, time.Minute), 20*time.Minute), "readiness-probe-failing"},
		"readiness, told before it is late": {unhealthy(scenetest.Pod(running(time.Hour), readiness(web)), ready, 9, time.Minute),
			claimed(unhealthy(scenetest.Pod(upSince(time.Hour), readiness(web)), ready, 2, 5*time.Second)), "readiness-probe-failing"},
		"image": {scenetest.FactsOf(scenetest.Pod(waiting("ErrImagePull", `failed to pull "registry.invalid/cart:7": not found`))),
			withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ImagePullBackOff", `Back-off pulling image "registry.invalid/cart:7"`))), "Failed", `Failed to pull image "registry.invalid/cart:7": not found`, time.Minute), "image-not-found"},
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := ApplyRules(halves.bad), ApplyRules(halves.good)
			if len(bad) == 0 || len(good) == 0 || bad[0].Cause != halves.cause || good[0].Cause != halves.cause {
				t.Fatalf("%+v\n%+v", bad, good)
			}
			if good[0].Confidence.Probability() > bad[0].Confidence.Probability() {
				t.Errorf("surer while it looks well: %s, %s", good[0].Confidence, bad[0].Confidence)
			}
			scenetest.CheckFinding(t, good[0])
		})
	}
	check(t, []rulecase{
		{"failed once, and twice not since", claimed(unhealthy(scenetest.Pod(upSince(time.Hour), liveness(web)), live, 1, 40*time.Second)), nil},
		{"killed long ago", withEvent(scenetest.FactsOf(scenetest.Pod(restarted(143, "Error", 1), upSince(14*time.Minute), liveness(web))), "Killing", killing, 14*time.Minute), nil},
		{"started slowly", firstSeen(unhealthy(scenetest.Pod(upSince(3*time.Minute), readyAgain(time.Minute), readiness(web)), ready, 9, time.Minute), 170*time.Second), nil},
		{"ready again for long", firstSeen(unhealthy(scenetest.Pod(upSince(time.Hour), readyAgain(12*time.Minute), readiness(web)), ready, 9, 13*time.Minute), 20*time.Minute), nil},
		{"restarted long ago, its end forgotten", scenetest.FactsOf(scenetest.Pod(restarted(1, "Error", 5), upSince(time.Hour), forgetEnd)), nil},
		{"a node's restart", scenetest.FactsOf(scenetest.Pod(restarted(255, "Unknown", 1))), nil},
	})
}
