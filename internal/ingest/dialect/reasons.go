package dialect

import (
	"cmp"
	"strings"

	"nightcrier.dev/nightcrier"
)

// meaning is what a reason of Kubernetes means to us.
type meaning struct {
	of string // the fault type
	// severity is set where the reason is of another than its fault type.
	severity nightcrier.Severity
	// evenNormal marks a fault that Kubernetes reports with type Normal.
	evenNormal bool
	// benign marks a warning that is no fault.
	benign bool
}

// reasons is the one table from the reasons of Kubernetes (of events, of container states
// and of conditions) to fault types.
var reasons = map[string]meaning{
	"CrashLoopBackOff": {of: nightcrier.FaultCrashLoop},
	"BackOff":          {of: nightcrier.FaultCrashLoop},
	"OOMKilling":       {of: nightcrier.FaultOOMKilled},

	"ErrImagePull":      {of: nightcrier.FaultImagePull},
	"ImagePullBackOff":  {of: nightcrier.FaultImagePull},
	"ErrImageNeverPull": {of: nightcrier.FaultImagePull},
	"InvalidImageName":  {of: nightcrier.FaultImagePull},
	"InspectFailed":     {of: nightcrier.FaultImagePull},
	"ImageInspectError": {of: nightcrier.FaultImagePull},

	"Failed":                     {of: nightcrier.FaultStart},
	"CreateContainerConfigError": {of: nightcrier.FaultStart},
	"CreateContainerError":       {of: nightcrier.FaultStart},
	"RunContainerError":          {of: nightcrier.FaultStart},
	"FailedCreatePodSandBox":     {of: nightcrier.FaultStart},
	"FailedPostStartHook":        {of: nightcrier.FaultStart},
	"NetworkNotReady":            {of: nightcrier.FaultStart},

	"Unhealthy":    {of: nightcrier.FaultProbe},
	"ProbeWarning": {of: nightcrier.FaultProbe},

	"FailedScheduling": {of: nightcrier.FaultUnschedulable},

	"FailedAttachVolume":     {of: nightcrier.FaultMount},
	"FailedMapVolume":        {of: nightcrier.FaultMount},
	"VolumeResizeFailed":     {of: nightcrier.FaultProvisioning},
	"VolumeFailedRecycle":    {of: nightcrier.FaultProvisioning},
	"ClaimLost":              {of: nightcrier.FaultProvisioning, severity: nightcrier.Critical},
	"ClaimMisbound":          {of: nightcrier.FaultProvisioning},
	"FailedBinding":          {of: nightcrier.FaultProvisioning},
	"FileSystemResizeFailed": {of: nightcrier.FaultProvisioning},

	"ProgressDeadlineExceeded": {of: nightcrier.FaultDeployment},
	"ReplicaSetCreateError":    {of: nightcrier.FaultCreate},

	"BackoffLimitExceeded": {of: nightcrier.FaultJob},
	"DeadlineExceeded":     {of: nightcrier.FaultJob, severity: nightcrier.Warning},
	"PodFailurePolicy":     {of: nightcrier.FaultJob, severity: nightcrier.Warning},
	"MissSchedule":         {of: nightcrier.FaultMissedSchedule},
	"TooManyMissedTimes":   {of: nightcrier.FaultMissedSchedule},

	"NodeNotReady":              {of: nightcrier.FaultNodeUnhealthy, evenNormal: true},
	"KubeletNotReady":           {of: nightcrier.FaultNodeUnhealthy},
	"NetworkUnavailable":        {of: nightcrier.FaultNodeUnhealthy, severity: nightcrier.ErrorSeverity},
	"Rebooted":                  {of: nightcrier.FaultNodeUnhealthy, severity: nightcrier.Warning},
	"NodeHasDiskPressure":       {of: nightcrier.FaultNodePressure, evenNormal: true},
	"NodeHasMemoryPressure":     {of: nightcrier.FaultNodePressure, evenNormal: true},
	"NodeHasInsufficientMemory": {of: nightcrier.FaultNodePressure, evenNormal: true},
	"NodeHasPIDPressure":        {of: nightcrier.FaultNodePressure, evenNormal: true},
	"EvictionThresholdMet":      {of: nightcrier.FaultNodePressure},
	"SystemOOM":                 {of: nightcrier.FaultNodePressure},
	"FreeDiskSpaceFailed":       {of: nightcrier.FaultNodePressure, severity: nightcrier.Warning},
	"ImageGCFailed":             {of: nightcrier.FaultNodePressure, severity: nightcrier.Warning},

	"SyncLoadBalancerFailed": {of: nightcrier.FaultService},

	// The kubelet says this once at every start, about a disk that is fine.
	"InvalidDiskCapacity": {benign: true},
	// Alerts that are there to fire all the time, or to hold others back.
	"Watchdog":      {benign: true},
	"InfoInhibitor": {benign: true},
}

// fault is what is reported with a reason.
type fault struct {
	faultType          string
	severity           nightcrier.Severity
	evenNormal, benign bool
}

// faultOf looks up what a reason means; a fault type stands for itself.
func faultOf(reason string) (fault, bool) {
	if m, ok := reasons[reason]; ok {
		known, _ := nightcrier.FaultTypeCalled(m.of)
		return fault{m.of, cmp.Or(m.severity, known.Severity), m.evenNormal, m.benign}, true
	}
	known, ok := nightcrier.FaultTypeCalled(reason)
	if !ok || known.ID != reason {
		return fault{}, false
	}
	return fault{faultType: reason, severity: known.Severity}, true
}

// Meaning says which fault type a reason of Kubernetes stands for, and how severe
// that is; a fault type stands for itself. It is false for a reason that the
// table does not have.
func Meaning(reason string) (faultType string, severity nightcrier.Severity, known bool) {
	f, ok := faultOf(reason)
	return f.faultType, f.severity, ok && !f.benign
}

// classifyReason looks a reason up. Two reasons of the kubelet mean several things
// and are told apart by its message. An unknown reason is its own fault type,
// a warning.
func classifyReason(reason, message string) fault {
	switch {
	case reason == "BackOff" && strings.Contains(message, "pulling image"):
		reason = "ImagePullBackOff"
	case reason == "BackOff" && strings.Contains(message, "image volume"):
		reason = "FailedMount"
	case reason == "Failed" && strings.Contains(message, "pull image"):
		reason = "ErrImagePull"
	case reason == "Failed":
		if f, ok := faultOf(strings.TrimPrefix(message, "Error: ")); ok {
			return f
		}
	}
	if f, ok := faultOf(reason); ok {
		return f
	}
	return fault{faultType: reason, severity: nightcrier.Warning}
}
