package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// httpGet is a probe of a path and port, by HTTP.
func httpGet(path string, port intstr.IntOrString) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port}}, PeriodSeconds: 10, FailureThreshold: 3, TimeoutSeconds: 1}
}

func readiness(p *corev1.Probe) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = p }
}

func liveness(p *corev1.Probe) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].LivenessProbe = p }
}

func startup(p *corev1.Probe) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].StartupProbe = p }
}

func declares(name string, port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: name, ContainerPort: port}}
	}
}

func env(name, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// running has been up for so long and is not ready.
func running(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(scenetest.Now.Add(-ago))}}
	}
}

func TestProbe(t *testing.T) {
	const live = "Liveness probe failed: HTTP probe failed with statuscode: 500"
	const refused = `Readiness probe failed: Get "http://10.0.0.1:8080/": dial tcp 10.0.0.1:8080: connect: connection refused`
	killed := func(kind string) *scene.Facts {
		return withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour))), "Killing", "Container app failed "+kind+" probe, will be restarted", time.Minute)
	}
	check(t, []rulecase{
		{"killed by liveness", withEvent(killed("liveness"), "Unhealthy", live, time.Minute), []string{"liveness-probe-failing", "container-crash"}},
		{"killed by liveness, says docker", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour))), "Killing", "Killing container with id docker://app:Container failed liveness probe.. Container will be killed and recreated.", time.Minute), []string{"liveness-probe-failing", "container-crash"}},
		{"killed by startup", withEvent(killed("startup"), "Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503", time.Minute), []string{"startup-probe-failing", "container-crash"}},
		{"stopped for another reason", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "Killing", "Stopping container app", time.Minute), nil},
		{"dies by itself, the probe fails too", withEvent(scenetest.FactsOf(scenetest.DyingPod()), "Unhealthy", live, time.Minute), []string{"crash-on-start"}},
		{"about to be killed", seenTimes(withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "Unhealthy", live, time.Second), 3), []string{"liveness-probe-failing"}},
		{"not often enough", seenTimes(withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "Unhealthy", live, time.Second), 2), nil},
		{"well since", seenTimes(withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "Unhealthy", live, time.Minute), 3), nil},
		{"dies by itself, the probe fails often", seenTimes(withEvent(scenetest.FactsOf(scenetest.DyingPod()), "Unhealthy", live, time.Second), 3), []string{"crash-on-start"}},
		{"readiness", withEvent(scenetest.FactsOf(scenetest.Pod()), "Unhealthy", refused, time.Minute), []string{"readiness-probe-failing"}},
		{"readiness, only just started", withEvent(scenetest.FactsOf(scenetest.Pod(running(5*time.Second))), "Unhealthy", refused, time.Second), nil},
		{"ready again", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "Unhealthy", refused, time.Minute), nil},
		{"an old complaint", withEvent(scenetest.FactsOf(scenetest.Pod()), "Unhealthy", refused, scene.FreshFor), nil},
		{"of a Pod that is being deleted", withEvent(scenetest.FactsOf(scenetest.Pod(func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp })), "Unhealthy", refused, time.Minute), nil},
	})
}

// What the state alone shows, when no Event is left.
func TestProbeWithoutEvents(t *testing.T) {
	web := httpGet("/", intstr.FromInt32(8080))
	notStarted := func(p *corev1.Pod) { no := false; p.Status.ContainerStatuses[0].Started = &no }
	check(t, []rulecase{
		{"running for an hour, never ready", scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(web))), []string{"readiness-probe-failing"}},
		{"running for a minute", scenetest.FactsOf(scenetest.Pod(running(time.Minute), readiness(web))), nil},
		{"running for an hour without a probe", scenetest.FactsOf(scenetest.Pod(running(time.Hour))), nil},
		{"running, and not started", scenetest.FactsOf(scenetest.Pod(running(time.Hour), notStarted, readiness(web))), nil},
		{"killed each time when liveness gives up", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", 55*time.Second), liveness(web))), []string{"liveness-probe-failing", "crash-on-start"}},
		{"ends by itself when liveness gives up", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(143, "Error", 30*time.Second), liveness(web))), []string{"liveness-probe-failing", "crash-on-start"}},
		{"killed each time when startup gives up", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", 55*time.Second), liveness(web), startup(web))), []string{"startup-probe-failing", "crash-on-start"}},
		{"killed after an hour", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour), liveness(web))), []string{"container-crash"}},
		{"killed at once", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Second), liveness(web))), []string{"crash-on-start"}},
		{"ends with an error of its own", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 30*time.Second), liveness(web))), []string{"crash-on-start"}},
		{"well for long", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", 55*time.Second), liveness(web), scenetest.Ready(24*time.Hour))), nil},
	})
}

func TestWhatIsWrongWithAProbe(t *testing.T) {
	const get = `Get "http://10.0.0.1:9090/healthz": `
	const refused = get + "dial tcp 10.0.0.1:9090: connect: connection refused"
	at := func(port int32) *corev1.Probe { return httpGet("/healthz", intstr.FromInt32(port)) }
	config := func(f *scene.Facts) *scene.Facts {
		f.Scene.ConfigMaps = []scene.Read[corev1.ConfigMap]{{Object: corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-conf"}, Data: map[string]string{"PORT": "9999"},
		}, Ref: scene.Ref{Evidence: "E9", Source: "get configmaps"}}}
		f.Pods[0].Object.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cart-conf"}}}}
		return f
	}
	for name, tt := range map[string]struct {
		facts   *scene.Facts
		message string
		says    string
		sure    nightcrier.Confidence
	}{
		"path":           {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(8080)))), "HTTP probe failed with statuscode: 404", "no such path", nightcrier.High},
		"not allowed":    {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(8080)))), "HTTP probe failed with statuscode: 401", "no right", nightcrier.High},
		"ill":            {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(8080)))), "HTTP probe failed with statuscode: 503", "not well", nightcrier.Medium},
		"slow":           {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(8080)))), get + "context deadline exceeded (Client.Timeout exceeded while awaiting headers)", "timeoutSeconds 1", nightcrier.Medium},
		"scheme":         {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(8080)))), get + "http: server gave HTTP response to HTTPS client", "speaks HTTP", nightcrier.High},
		"command":        {scenetest.FactsOf(scenetest.Pod(running(time.Hour))), `OCI runtime exec failed: exec failed: unable to start container process: exec: "pg_isready": executable file not found in $PATH: unknown`, "command does not exist", nightcrier.High},
		"grpc":           {scenetest.FactsOf(scenetest.Pod(running(time.Hour))), "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service", "gRPC health protocol", nightcrier.High},
		"nothing known":  {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)))), refused, "nothing listens there", nightcrier.Medium},
		"declared port":  {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)), declares("http", 8080))), refused, "declares port 8080, not 9090", nightcrier.High},
		"right port":     {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)), declares("http", 9090))), refused, "nothing listens there", nightcrier.Medium},
		"env":            {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)), declares("http", 9090), env("PORT", "8080"))), refused, "env PORT makes the process listen on port 8080, not 9090", nightcrier.High},
		"env of others":  {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)), declares("http", 9090), env("DB_PORT", "5432"))), refused, "nothing listens there", nightcrier.Medium},
		"config map":     {config(scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090))))), refused, "ConfigMap cart-conf, key PORT", nightcrier.High},
		"log":            {scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)))), "INFO Server listening on http://0.0.0.0:8080\n"), refused, "the process listens on 8080", nightcrier.High},
		"log of another": {scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090)))), "INFO running 250 migrations\n"), refused, "nothing listens there", nightcrier.Medium},
		"no such name":   {scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(httpGet("/", intstr.FromString("web"))), declares("http", 8080))), "couldn't find port: web", "names port web", nightcrier.High},
	} {
		t.Run(name, func(t *testing.T) {
			got := ApplyRules(withEvent(tt.facts, "Unhealthy", "Readiness probe failed: "+tt.message, time.Minute))
			if len(got) != 1 || got[0].Cause != "readiness-probe-failing" || !strings.Contains(got[0].Summary, tt.says) || got[0].Confidence != tt.sure {
				t.Errorf("%+v", got)
			}
			if told := strings.Contains(got[0].Actions[0].Action, tt.says); told != (tt.sure == nightcrier.High) {
				t.Errorf("%+v: what is known to be wrong is what to mend", got[0].Actions)
			}
		})
	}
	got := ApplyRules(config(scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(at(9090))))))
	if want := (nightcrier.Object{Kind: "ConfigMap", Namespace: "shop", Name: "cart-conf"}); len(got) != 1 || !slices.Contains(got[0].DependsOn, want) {
		t.Errorf("without events: %+v", got)
	}
}

func TestSlowStart(t *testing.T) {
	f := withEvent(withEvent(scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", 40*time.Second), liveness(httpGet("/", intstr.FromInt32(8080))), declares("http", 8080))), "INFO loading 400000 products\n"), "Killing", "Container app failed liveness probe, will be restarted", time.Minute), "Unhealthy", "Liveness probe failed: dial tcp 10.0.0.1:8080: connect: connection refused", time.Minute)
	if got := ApplyRules(f)[0]; !strings.Contains(got.Summary, "starts more slowly than the 30s") || !strings.Contains(got.Actions[0].Action, "startup probe") {
		t.Errorf("%q, %+v", got.Summary, got.Actions)
	}
}

// A probe that provably asks the wrong port outranks what the log complains of;
// one that merely fails does not.
func TestProbeOrDependency(t *testing.T) {
	const refused = "Readiness probe failed: dial tcp 10.0.0.1:9090: connect: connection refused"
	const noise = "error: dial tcp: lookup tracing: no such host"
	check(t, []rulecase{
		{"wrong port", scenetest.WithLog(withEvent(scenetest.FactsOf(scenetest.Pod(running(time.Hour), readiness(httpGet("/", intstr.FromInt32(9090))), declares("http", 8080))), "Unhealthy", refused, time.Minute), noise), []string{"readiness-probe-failing", "dependency-name-unresolved"}},
		{"not well", scenetest.WithLog(withEvent(scenetest.FactsOf(scenetest.Pod(running(time.Hour))), "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", time.Minute), noise), []string{"dependency-name-unresolved", "readiness-probe-failing"}},
	})
}
