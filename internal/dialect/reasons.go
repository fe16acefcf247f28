package dialect

import (
	"strings"

	"nightcrier.dev/nightcrier"
)

// fault is what a reason of Kubernetes means to us.
type fault struct {
	faultType string
	severity  nightcrier.Severity
	// evenNormal marks a fault that Kubernetes reports with type Normal.
	evenNormal bool
	// benign marks a warning that is no fault.
	benign bool
}

// faults is the one table from reasons (of events, of container states and of
// conditions) to fault types and severities. The fault types of the flat
// dialects stand in it as well, so that they normalise to themselves.
var faults = map[string]fault{
	"CrashLoop":        {faultType: "CrashLoop", severity: nightcrier.Critical},
	"CrashLoopBackOff": {faultType: "CrashLoop", severity: nightcrier.Critical},
	"BackOff":          {faultType: "CrashLoop", severity: nightcrier.Critical},
	"PodCrash":         {faultType: "PodCrash", severity: nightcrier.Warning},
	"OOMKilled":        {faultType: "OOMKilled", severity: nightcrier.ErrorSeverity},
	"OOMKilling":       {faultType: "OOMKilled", severity: nightcrier.ErrorSeverity},

	"ImagePull":         {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},
	"ErrImagePull":      {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},
	"ImagePullBackOff":  {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},
	"ErrImageNeverPull": {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},
	"InvalidImageName":  {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},
	"InspectFailed":     {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},
	"ImageInspectError": {faultType: "ImagePull", severity: nightcrier.ErrorSeverity},

	"Failed":                     {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"StartFailure":               {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"CreateContainerConfigError": {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"CreateContainerError":       {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"RunContainerError":          {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"FailedCreatePodSandBox":     {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"FailedPostStartHook":        {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},
	"NetworkNotReady":            {faultType: "StartFailure", severity: nightcrier.ErrorSeverity},

	"Unhealthy":    {faultType: "ProbeFailed", severity: nightcrier.Warning},
	"ProbeFailed":  {faultType: "ProbeFailed", severity: nightcrier.Warning},
	"ProbeWarning": {faultType: "ProbeFailed", severity: nightcrier.Warning},

	"Unschedulable":    {faultType: "Unschedulable", severity: nightcrier.ErrorSeverity},
	"FailedScheduling": {faultType: "Unschedulable", severity: nightcrier.ErrorSeverity},
	"Evicted":          {faultType: "Evicted", severity: nightcrier.ErrorSeverity},
	"Preempted":        {faultType: "Preempted", severity: nightcrier.Warning},

	"FailedMount":            {faultType: "FailedMount", severity: nightcrier.ErrorSeverity},
	"FailedAttachVolume":     {faultType: "FailedMount", severity: nightcrier.ErrorSeverity},
	"FailedMapVolume":        {faultType: "FailedMount", severity: nightcrier.ErrorSeverity},
	"ProvisioningFailed":     {faultType: "ProvisioningFailed", severity: nightcrier.ErrorSeverity},
	"VolumeResizeFailed":     {faultType: "ProvisioningFailed", severity: nightcrier.ErrorSeverity},
	"VolumeFailedRecycle":    {faultType: "ProvisioningFailed", severity: nightcrier.ErrorSeverity},
	"ClaimLost":              {faultType: "ProvisioningFailed", severity: nightcrier.Critical},
	"ClaimMisbound":          {faultType: "ProvisioningFailed", severity: nightcrier.ErrorSeverity},
	"FailedBinding":          {faultType: "ProvisioningFailed", severity: nightcrier.ErrorSeverity},
	"FileSystemResizeFailed": {faultType: "ProvisioningFailed", severity: nightcrier.ErrorSeverity},

	"DeploymentFailure":        {faultType: "DeploymentFailure", severity: nightcrier.Critical},
	"ProgressDeadlineExceeded": {faultType: "DeploymentFailure", severity: nightcrier.Critical},
	"Unavailable":              {faultType: "Unavailable", severity: nightcrier.ErrorSeverity},
	"NamespaceStuck":           {faultType: "NamespaceStuck", severity: nightcrier.Warning},
	"FailedCreate":             {faultType: "FailedCreate", severity: nightcrier.ErrorSeverity},
	"ReplicaSetCreateError":    {faultType: "FailedCreate", severity: nightcrier.ErrorSeverity},

	"JobFailure":           {faultType: "JobFailure", severity: nightcrier.Critical},
	"BackoffLimitExceeded": {faultType: "JobFailure", severity: nightcrier.Critical},
	"DeadlineExceeded":     {faultType: "JobFailure", severity: nightcrier.Warning},
	"PodFailurePolicy":     {faultType: "JobFailure", severity: nightcrier.Warning},
	"MissedSchedule":       {faultType: "MissedSchedule", severity: nightcrier.Warning},
	"MissSchedule":         {faultType: "MissedSchedule", severity: nightcrier.Warning},
	"TooManyMissedTimes":   {faultType: "MissedSchedule", severity: nightcrier.Warning},

	"ScalingFailed":  {faultType: "ScalingFailed", severity: nightcrier.Warning},
	"ScalingLimited": {faultType: "ScalingLimited", severity: nightcrier.Info},

	"NodeUnhealthy":             {faultType: "NodeUnhealthy", severity: nightcrier.Critical},
	"NodeNotReady":              {faultType: "NodeUnhealthy", severity: nightcrier.Critical, evenNormal: true},
	"KubeletNotReady":           {faultType: "NodeUnhealthy", severity: nightcrier.Critical},
	"NetworkUnavailable":        {faultType: "NodeUnhealthy", severity: nightcrier.ErrorSeverity},
	"Rebooted":                  {faultType: "NodeUnhealthy", severity: nightcrier.Warning},
	"NodePressure":              {faultType: "NodePressure", severity: nightcrier.ErrorSeverity},
	"NodeHasDiskPressure":       {faultType: "NodePressure", severity: nightcrier.ErrorSeverity, evenNormal: true},
	"NodeHasMemoryPressure":     {faultType: "NodePressure", severity: nightcrier.ErrorSeverity, evenNormal: true},
	"NodeHasInsufficientMemory": {faultType: "NodePressure", severity: nightcrier.ErrorSeverity, evenNormal: true},
	"NodeHasPIDPressure":        {faultType: "NodePressure", severity: nightcrier.ErrorSeverity, evenNormal: true},
	"EvictionThresholdMet":      {faultType: "NodePressure", severity: nightcrier.ErrorSeverity},
	"SystemOOM":                 {faultType: "NodePressure", severity: nightcrier.ErrorSeverity},
	"FreeDiskSpaceFailed":       {faultType: "NodePressure", severity: nightcrier.Warning},
	"ImageGCFailed":             {faultType: "NodePressure", severity: nightcrier.Warning},

	"ServiceFailure":         {faultType: "ServiceFailure", severity: nightcrier.ErrorSeverity},
	"SyncLoadBalancerFailed": {faultType: "ServiceFailure", severity: nightcrier.ErrorSeverity},
	"WebhookFailure":         {faultType: "WebhookFailure", severity: nightcrier.ErrorSeverity},
	"APIServiceUnavailable":  {faultType: "APIServiceUnavailable", severity: nightcrier.ErrorSeverity},
	"APIUnready":             {faultType: "APIUnready", severity: nightcrier.Critical},

	// The kubelet says this once at every start, about a disk that is fine.
	"InvalidDiskCapacity": {benign: true},
	// Alerts that are there to fire all the time, or to hold others back.
	"Watchdog":      {benign: true},
	"InfoInhibitor": {benign: true},
}

// Meaning says which fault type a reason of Kubernetes stands for, and how severe
// that is; a fault type stands for itself. It is false for a reason that the
// table does not have.
func Meaning(reason string) (faultType string, severity nightcrier.Severity, known bool) {
	f, ok := faults[reason]
	return f.faultType, f.severity, ok && !f.benign
}

// classify looks a reason up. Two reasons of the kubelet mean several things
// and are told apart by its message. An unknown reason is its own fault type,
// a warning.
func classify(reason, message string) fault {
	switch {
	case reason == "BackOff" && strings.Contains(message, "pulling image"):
		reason = "ImagePullBackOff"
	case reason == "BackOff" && strings.Contains(message, "image volume"):
		reason = "FailedMount"
	case reason == "Failed" && strings.Contains(message, "pull image"):
		reason = "ErrImagePull"
	case reason == "Failed":
		if f, ok := faults[strings.TrimPrefix(message, "Error: ")]; ok {
			return f
		}
	}
	if f, ok := faults[reason]; ok {
		return f
	}
	return fault{faultType: reason, severity: nightcrier.Warning}
}
