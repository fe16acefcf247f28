package rules

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// A variable is set once: who started before its Secret was changed runs with the old value.
func TestConfigurationOutdated(t *testing.T) {
	const refused = `FATAL: password authentication failed for user "shop"`
	takes := func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password"}}})
	}
	changed := func(after time.Duration, log string, change ...func(*corev1.Pod)) *scene.Facts {
		f := askedAbout(runs(t, log, "true", change...))
		f.AskedAbout = true
		p := &f.Pods[0].Object
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Now.Add(-time.Hour))}}
		at := metav1.NewTime(f.Now.Add(-time.Hour + after))
		secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "db", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "external-secrets", Time: &at}}}}
		f.Scene.Secrets = []scene.Read[corev1.Secret]{{Object: secret, Ref: scene.Ref{Evidence: "E1"}}}
		f.CountPods(f.Pods)
		return f
	}
	for name, c := range map[string]struct {
		f    *scene.Facts
		want bool
	}{
		"changed since, and refused":     {changed(30*time.Minute, logAt(refused, 4, 1), takes), true},
		"changed before":                 {changed(-30*time.Minute, logAt(refused, 4, 1), takes), false},
		"changed since, nobody refused":  {changed(30*time.Minute, strings.Repeat("INFO ok\n", 9), takes), false},
		"refused, and does not take it":  {changed(30*time.Minute, logAt(refused, 4, 1)), false},
		"another trouble than a refusal": {changed(30*time.Minute, logAt("ERROR cannot connect to db:5432: connection refused", 4, 1), takes), false},
	} {
		if got := len(foundOf(ApplyRules(c.f), "configuration-outdated")) > 0; got != c.want {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
}
