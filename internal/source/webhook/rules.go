package webhook

import "strings"

// rule is what the name of an alert says.
type rule struct {
	// faultType is what we call it, kind what it is about.
	faultType, kind string
	// byReason: the label reason says more exactly what it is.
	byReason bool
}

// rules are the alerts of kube-prometheus and the like whose name we know. An
// alert that is not here is a fault type of its own.
var rules = map[string]rule{
	"KubePodCrashLooping":    {"CrashLoop", "Pod", false},
	"KubePodNotReady":        {"PodNotReady", "Pod", false},
	"KubePodNotHealthy":      {"PodNotReady", "Pod", false},
	"KubeContainerWaiting":   {"StartFailure", "Pod", true},
	"KubeContainerOomKiller": {"OOMKilled", "Pod", false},
	"KubeContainerOOMKilled": {"OOMKilled", "Pod", false},
	"CPUThrottlingHigh":      {"CPUThrottling", "Pod", false},

	"KubeDeploymentReplicasMismatch":    {"Unavailable", "Deployment", false},
	"KubeDeploymentRolloutStuck":        {"DeploymentFailure", "Deployment", false},
	"KubeDeploymentGenerationMismatch":  {"DeploymentFailure", "Deployment", false},
	"KubeStatefulSetReplicasMismatch":   {"Unavailable", "StatefulSet", false},
	"KubeStatefulSetGenerationMismatch": {"Unavailable", "StatefulSet", false},
	"KubeStatefulSetUpdateNotRolledOut": {"Unavailable", "StatefulSet", false},
	"KubeDaemonSetRolloutStuck":         {"Unavailable", "DaemonSet", false},
	"KubeDaemonSetNotScheduled":         {"Unavailable", "DaemonSet", false},
	"KubeDaemonSetMisScheduled":         {"Unavailable", "DaemonSet", false},
	"KubePdbNotEnoughHealthyPods":       {"", "PodDisruptionBudget", false},
	"KubeHpaReplicasMismatch":           {"ScalingFailed", "HorizontalPodAutoscaler", false},
	"KubeHpaMaxedOut":                   {"ScalingLimited", "HorizontalPodAutoscaler", false},

	"KubeJobFailed":       {"JobFailure", "Job", false},
	"KubeJobNotCompleted": {"JobFailure", "Job", false},
	"KubeJobCompletion":   {"JobFailure", "Job", false},
	"KubeCronJobRunning":  {"JobFailure", "CronJob", false},

	"KubeNodeNotReady":               {"NodeUnhealthy", "Node", false},
	"KubeNodeUnreachable":            {"NodeUnhealthy", "Node", false},
	"KubeNodeReadinessFlapping":      {"NodeUnhealthy", "Node", false},
	"KubeNodePressure":               {"NodePressure", "Node", false},
	"KubeNodeEviction":               {"NodePressure", "Node", false},
	"KubeletTooManyPods":             {"", "Node", false},
	"KubeletPlegDurationHigh":        {"", "Node", false},
	"KubeletPodStartUpLatencyHigh":   {"", "Node", false},
	"NodeFilesystemSpaceFillingUp":   {"NodePressure", "Node", false},
	"NodeFilesystemAlmostOutOfSpace": {"NodePressure", "Node", false},
	"NodeFilesystemFilesFillingUp":   {"NodePressure", "Node", false},
	"NodeFilesystemAlmostOutOfFiles": {"NodePressure", "Node", false},
	"NodeMemoryHighUtilization":      {"NodePressure", "Node", false},

	"KubePersistentVolumeFillingUp":       {"VolumeFillingUp", "PersistentVolumeClaim", false},
	"KubePersistentVolumeInodesFillingUp": {"VolumeFillingUp", "PersistentVolumeClaim", false},
	"KubePersistentVolumeErrors":          {"ProvisioningFailed", "PersistentVolume", false},
	"KubeQuotaExceeded":                   {"QuotaExceeded", "ResourceQuota", false},
	"KubeQuotaFullyUsed":                  {"QuotaExceeded", "ResourceQuota", false},
	"KubeQuotaAlmostFull":                 {"QuotaExceeded", "ResourceQuota", false},
	"TargetDown":                          {"ServiceFailure", "Service", false},
}

// ordinary are reasons of waiting that say nothing of a fault.
var ordinary = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// ruleOf finds the rule of an alert; the rule books that say Kubernetes where
// others say Kube mean the same.
func ruleOf(alertname string) rule {
	if rest, ok := strings.CutPrefix(alertname, "Kubernetes"); ok {
		alertname = "Kube" + rest
	}
	return rules[alertname]
}
