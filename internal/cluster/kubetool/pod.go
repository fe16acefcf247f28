package kubetool

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// writePod tells where a Pod is and how its containers are.
func (r *reading) writePod(doc any) error {
	var p corev1.Pod
	if err := convertInto(doc, &p); err != nil {
		return err
	}
	r.writeTextf("node: %s, IP: %s, QoS: %s, service account: %s\n", cmp.Or(shortLine(p.Spec.NodeName, 253), "none yet"), cmp.Or(shortLine(p.Status.PodIP, 64), "none"), shortLine(string(p.Status.QOSClass), 64), shortLine(p.Spec.ServiceAccountName, 253))
	r.writeContainers("init container", p.Spec.InitContainers, p.Status.InitContainerStatuses)
	r.writeContainers("container", p.Spec.Containers, p.Status.ContainerStatuses)
	var ephemeral []corev1.Container
	for _, c := range p.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(c.EphemeralContainerCommon))
	}
	r.writeContainers("ephemeral container", ephemeral, p.Status.EphemeralContainerStatuses)
	r.writeVolumes(p.Spec.Volumes)
	return nil
}

// writeTemplate tells of the containers that a workload wants.
func (r *reading) writeTemplate(doc any) error {
	var spec corev1.PodSpec
	if err := convertInto(ValueAt(doc, "spec", "template", "spec"), &spec); err != nil {
		return err
	}
	r.writeContainers("init container", spec.InitContainers, nil)
	r.writeContainers("container", spec.Containers, nil)
	r.writeVolumes(spec.Volumes)
	return nil
}

func (r *reading) writeContainers(what string, list []corev1.Container, states []corev1.ContainerStatus) {
	for _, c := range list {
		r.writeTextf("%s %s: image %s\n", what, shortLine(c.Name, 63), shortLine(c.Image, 300))
		for _, s := range states {
			if s.Name == c.Name {
				r.containerState(s)
			}
		}
		if res := describeResources(c.Resources); res != "" {
			r.writeTextf("  resources: %s\n", res)
		}
		if cmd := strings.Join(append(c.Command, c.Args...), " "); cmd != "" {
			r.writeTextf("  command: %s\n", shortLine(cmd, 300))
		}
		r.writeProbes(c)
		if from := comesFrom(c); from != "" {
			r.writeTextf("  environment: %s\n", from)
		}
	}
}

func (r *reading) containerState(s corev1.ContainerStatus) {
	r.writeTextf("  %s, ready %t, restarts %d\n", r.stateWords(s.State), s.Ready, s.RestartCount)
	if s.LastTerminationState.Terminated != nil {
		r.writeTextf("  before: %s\n", r.stateWords(s.LastTerminationState))
	}
}

// stateWords says what a container does, or did.
func (r *reading) stateWords(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running for " + cmp.Or(formatAge(r.currentTime(), s.Running.StartedAt.Time), "an unknown time")
	case s.Waiting != nil:
		return strings.TrimSpace("waiting: " + shortLine(s.Waiting.Reason, 100) + " " + inBrackets(s.Waiting.Message))
	case s.Terminated != nil:
		t := s.Terminated
		text := fmt.Sprintf("ended %s with exit code %d", formatAgo(r.currentTime(), t.FinishedAt.Time), t.ExitCode)
		if t.Signal != 0 {
			text += fmt.Sprintf(", signal %d", t.Signal)
		}
		if !t.StartedAt.IsZero() && !t.FinishedAt.IsZero() {
			text += ", after " + t.FinishedAt.Sub(t.StartedAt.Time).Round(time.Second).String()
		}
		return strings.TrimSpace(text + ": " + shortLine(t.Reason, 100) + " " + inBrackets(t.Message))
	}
	return "no state reported"
}

func inBrackets(message string) string {
	if message == "" {
		return ""
	}
	return "(" + shortLine(message, 500) + ")"
}

func describeResources(r corev1.ResourceRequirements) string {
	var parts []string
	for _, group := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, res := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := group.list[res]; ok {
				parts = append(parts, fmt.Sprintf("%s.%s=%s", group.name, res, q.String()))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func (r *reading) writeProbes(c corev1.Container) {
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"startup", c.StartupProbe}, {"liveness", c.LivenessProbe}, {"readiness", c.ReadinessProbe}} {
		if p.probe != nil {
			r.writeTextf("  %s probe: %s, delay %ds, period %ds, timeout %ds, fails after %d\n", p.name, shortLine(describeProbe(p.probe.ProbeHandler), 250),
				p.probe.InitialDelaySeconds, p.probe.PeriodSeconds, p.probe.TimeoutSeconds, p.probe.FailureThreshold)
		}
	}
}

func describeProbe(h corev1.ProbeHandler) string {
	switch {
	case h.HTTPGet != nil:
		return fmt.Sprintf("GET %s on port %s", shortLine(h.HTTPGet.Path, 200), h.HTTPGet.Port.String())
	case h.TCPSocket != nil:
		return "TCP on port " + h.TCPSocket.Port.String()
	case h.GRPC != nil:
		return fmt.Sprintf("gRPC on port %d", h.GRPC.Port)
	case h.Exec != nil:
		return "command " + shortLine(strings.Join(h.Exec.Command, " "), 200)
	}
	return "nothing"
}

// comesFrom names the ConfigMaps and Secrets that a container's environment
// needs, and how many variables stand in the manifest; kubernetes_get has them.
func comesFrom(c corev1.Container) string {
	var parts []string
	plain := 0
	for _, e := range c.EnvFrom {
		switch {
		case e.ConfigMapRef != nil:
			parts = append(parts, "all of ConfigMap "+e.ConfigMapRef.Name)
		case e.SecretRef != nil:
			parts = append(parts, "all of Secret "+e.SecretRef.Name)
		}
	}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
			plain++
		case e.ValueFrom.ConfigMapKeyRef != nil:
			parts = append(parts, fmt.Sprintf("%s from ConfigMap %s key %s", e.Name, e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Key))
		case e.ValueFrom.SecretKeyRef != nil:
			parts = append(parts, fmt.Sprintf("%s from Secret %s key %s", e.Name, e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key))
		}
	}
	if plain > 0 {
		parts = append(parts, fmt.Sprintf("%d plain variables", plain))
	}
	return shortLine(strings.Join(parts, "; "), 1000)
}

// writeVolumes names the volumes that need something else to be there.
func (r *reading) writeVolumes(list []corev1.Volume) {
	for _, v := range list {
		switch {
		case v.PersistentVolumeClaim != nil:
			r.writeTextf("volume %s: PersistentVolumeClaim %s\n", shortLine(v.Name, 63), shortLine(v.PersistentVolumeClaim.ClaimName, 253))
		case v.ConfigMap != nil:
			r.writeTextf("volume %s: ConfigMap %s\n", shortLine(v.Name, 63), shortLine(v.ConfigMap.Name, 253))
		case v.Secret != nil:
			r.writeTextf("volume %s: Secret %s\n", shortLine(v.Name, 63), shortLine(v.Secret.SecretName, 253))
		}
	}
}
