package kubetool

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pod tells where a Pod is and how its containers are.
func (r *reading) pod(doc any) error {
	var p corev1.Pod
	if err := convert(doc, &p); err != nil {
		return err
	}
	r.say("node: %s, IP: %s, QoS: %s, service account: %s\n", or(short(p.Spec.NodeName, 253), "none yet"), or(short(p.Status.PodIP, 64), "none"), short(string(p.Status.QOSClass), 64), short(p.Spec.ServiceAccountName, 253))
	r.containers("init container", p.Spec.InitContainers, p.Status.InitContainerStatuses)
	r.containers("container", p.Spec.Containers, p.Status.ContainerStatuses)
	var ephemeral []corev1.Container
	for _, c := range p.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(c.EphemeralContainerCommon))
	}
	r.containers("ephemeral container", ephemeral, p.Status.EphemeralContainerStatuses)
	r.volumes(p.Spec.Volumes)
	return nil
}

// template tells of the containers that a workload wants.
func (r *reading) template(doc any) error {
	var spec corev1.PodSpec
	if err := convert(at(doc, "spec", "template", "spec"), &spec); err != nil {
		return err
	}
	r.containers("init container", spec.InitContainers, nil)
	r.containers("container", spec.Containers, nil)
	r.volumes(spec.Volumes)
	return nil
}

func (r *reading) containers(what string, list []corev1.Container, states []corev1.ContainerStatus) {
	for _, c := range list {
		r.say("%s %s: image %s\n", what, short(c.Name, 63), short(c.Image, 300))
		for _, s := range states {
			if s.Name == c.Name {
				r.containerState(s)
			}
		}
		if res := resources(c.Resources); res != "" {
			r.say("  resources: %s\n", res)
		}
		if cmd := strings.Join(append(c.Command, c.Args...), " "); cmd != "" {
			r.say("  command: %s\n", short(cmd, 300))
		}
		r.probes(c)
		if from := comesFrom(c); from != "" {
			r.say("  environment: %s\n", from)
		}
	}
}

func (r *reading) containerState(s corev1.ContainerStatus) {
	r.say("  %s, ready %t, restarts %d\n", r.stateWords(s.State), s.Ready, s.RestartCount)
	if s.LastTerminationState.Terminated != nil {
		r.say("  before: %s\n", r.stateWords(s.LastTerminationState))
	}
}

// stateWords says what a container does, or did.
func (r *reading) stateWords(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running for " + or(age(r.now(), s.Running.StartedAt.Time), "an unknown time")
	case s.Waiting != nil:
		return strings.TrimSpace("waiting: " + short(s.Waiting.Reason, 100) + " " + bracketed(s.Waiting.Message))
	case s.Terminated != nil:
		t := s.Terminated
		text := fmt.Sprintf("ended %s with exit code %d", ago(r.now(), t.FinishedAt.Time), t.ExitCode)
		if t.Signal != 0 {
			text += fmt.Sprintf(", signal %d", t.Signal)
		}
		if !t.StartedAt.IsZero() && !t.FinishedAt.IsZero() {
			text += ", after " + t.FinishedAt.Sub(t.StartedAt.Time).Round(time.Second).String()
		}
		return strings.TrimSpace(text + ": " + short(t.Reason, 100) + " " + bracketed(t.Message))
	}
	return "no state reported"
}

func bracketed(message string) string {
	if message == "" {
		return ""
	}
	return "(" + short(message, 500) + ")"
}

func resources(r corev1.ResourceRequirements) string {
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

func (r *reading) probes(c corev1.Container) {
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"startup", c.StartupProbe}, {"liveness", c.LivenessProbe}, {"readiness", c.ReadinessProbe}} {
		if p.probe != nil {
			r.say("  %s probe: %s, delay %ds, period %ds, timeout %ds, fails after %d\n", p.name, short(asks(p.probe.ProbeHandler), 250),
				p.probe.InitialDelaySeconds, p.probe.PeriodSeconds, p.probe.TimeoutSeconds, p.probe.FailureThreshold)
		}
	}
}

func asks(h corev1.ProbeHandler) string {
	switch {
	case h.HTTPGet != nil:
		return fmt.Sprintf("GET %s on port %s", short(h.HTTPGet.Path, 200), h.HTTPGet.Port.String())
	case h.TCPSocket != nil:
		return "TCP on port " + h.TCPSocket.Port.String()
	case h.GRPC != nil:
		return fmt.Sprintf("gRPC on port %d", h.GRPC.Port)
	case h.Exec != nil:
		return "command " + short(strings.Join(h.Exec.Command, " "), 200)
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
	return short(strings.Join(parts, "; "), 1000)
}

// volumes names the volumes that need something else to be there.
func (r *reading) volumes(list []corev1.Volume) {
	for _, v := range list {
		switch {
		case v.PersistentVolumeClaim != nil:
			r.say("volume %s: PersistentVolumeClaim %s\n", short(v.Name, 63), short(v.PersistentVolumeClaim.ClaimName, 253))
		case v.ConfigMap != nil:
			r.say("volume %s: ConfigMap %s\n", short(v.Name, 63), short(v.ConfigMap.Name, 253))
		case v.Secret != nil:
			r.say("volume %s: Secret %s\n", short(v.Name, 63), short(v.Secret.SecretName, 253))
		}
	}
}
