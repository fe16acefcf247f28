package webhook

import (
	"strings"

	"nightcrier.dev/nightcrier"
)

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
	"KubePodCrashLooping":    {nightcrier.FaultCrashLoop, "Pod", false},
	"KubePodNotReady":        {nightcrier.FaultPodNotReady, "Pod", false},
	"KubePodNotHealthy":      {nightcrier.FaultPodNotReady, "Pod", false},
	"KubeContainerWaiting":   {nightcrier.FaultStart, "Pod", true},
	"KubeContainerOomKiller": {nightcrier.FaultOOMKilled, "Pod", false},
	"KubeContainerOOMKilled": {nightcrier.FaultOOMKilled, "Pod", false},
	"CPUThrottlingHigh":      {nightcrier.FaultCPUThrottling, "Pod", false},

	"KubeDeploymentReplicasMismatch":    {nightcrier.FaultUnavailable, "Deployment", false},
	"KubeDeploymentRolloutStuck":        {nightcrier.FaultDeployment, "Deployment", false},
	"KubeDeploymentGenerationMismatch":  {nightcrier.FaultDeployment, "Deployment", false},
	"KubeStatefulSetReplicasMismatch":   {nightcrier.FaultUnavailable, "StatefulSet", false},
	"KubeStatefulSetGenerationMismatch": {nightcrier.FaultUnavailable, "StatefulSet", false},
	"KubeStatefulSetUpdateNotRolledOut": {nightcrier.FaultUnavailable, "StatefulSet", false},
	"KubeDaemonSetRolloutStuck":         {nightcrier.FaultUnavailable, "DaemonSet", false},
	"KubeDaemonSetNotScheduled":         {nightcrier.FaultUnavailable, "DaemonSet", false},
	"KubeDaemonSetMisScheduled":         {nightcrier.FaultUnavailable, "DaemonSet", false},
	"KubePdbNotEnoughHealthyPods":       {"", "PodDisruptionBudget", false},
	"KubeHpaReplicasMismatch":           {nightcrier.FaultScaling, "HorizontalPodAutoscaler", false},
	"KubeHpaMaxedOut":                   {nightcrier.FaultScalingLimited, "HorizontalPodAutoscaler", false},

	"KubeJobFailed":       {nightcrier.FaultJob, "Job", false},
	"KubeJobNotCompleted": {nightcrier.FaultJob, "Job", false},
	"KubeJobCompletion":   {nightcrier.FaultJob, "Job", false},
	"KubeCronJobRunning":  {nightcrier.FaultJob, "CronJob", false},

	"KubeNodeNotReady":               {nightcrier.FaultNodeUnhealthy, "Node", false},
	"KubeNodeUnreachable":            {nightcrier.FaultNodeUnhealthy, "Node", false},
	"KubeNodeReadinessFlapping":      {nightcrier.FaultNodeUnhealthy, "Node", false},
	"KubeNodePressure":               {nightcrier.FaultNodePressure, "Node", false},
	"KubeNodeEviction":               {nightcrier.FaultNodePressure, "Node", false},
	"KubeletTooManyPods":             {"", "Node", false},
	"KubeletPlegDurationHigh":        {"", "Node", false},
	"KubeletPodStartUpLatencyHigh":   {"", "Node", false},
	"NodeFilesystemSpaceFillingUp":   {nightcrier.FaultNodePressure, "Node", false},
	"NodeFilesystemAlmostOutOfSpace": {nightcrier.FaultNodePressure, "Node", false},
	"NodeFilesystemFilesFillingUp":   {nightcrier.FaultNodePressure, "Node", false},
	"NodeFilesystemAlmostOutOfFiles": {nightcrier.FaultNodePressure, "Node", false},
	"NodeMemoryHighUtilization":      {nightcrier.FaultNodePressure, "Node", false},

	"KubePersistentVolumeFillingUp":       {nightcrier.FaultVolumeFillingUp, "PersistentVolumeClaim", false},
	"KubePersistentVolumeInodesFillingUp": {nightcrier.FaultVolumeFillingUp, "PersistentVolumeClaim", false},
	"KubePersistentVolumeErrors":          {nightcrier.FaultProvisioning, "PersistentVolume", false},
	"KubeQuotaExceeded":                   {nightcrier.FaultQuota, "ResourceQuota", false},
	"KubeQuotaFullyUsed":                  {nightcrier.FaultQuota, "ResourceQuota", false},
	"KubeQuotaAlmostFull":                 {nightcrier.FaultQuota, "ResourceQuota", false},
	"TargetDown":                          {nightcrier.FaultService, "Service", false},
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
