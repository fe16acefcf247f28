package nightcrier

import (
	"slices"
	"strings"
)

// FaultType is a kind of fault, as it shows from outside. Why it is there is a cause, which
// only a diagnosis can name.
type FaultType struct {
	ID string
	// Class is the class of every fault of the type, "" where its object decides.
	Class Class
	// Severity is that of a report that names none.
	Severity Severity
	// Meaning is one sentence for people.
	Meaning string
	// Also are words that senders have for it besides; that which Kubernetes says of
	// objects is the business of who reads those.
	Also []string
}

// The ids of the fault types, as payloads, the API and metrics have them. A source may
// report others: they are types of their own, of which nothing is known.
const (
	FaultCrashLoop         = "CrashLoop"
	FaultPodCrash          = "PodCrash"
	FaultOOMKilled         = "OOMKilled"
	FaultImagePull         = "ImagePull"
	FaultStart             = "StartFailure"
	FaultProbe             = "ProbeFailed"
	FaultPodNotReady       = "PodNotReady"
	FaultCPUThrottling     = "CPUThrottling"
	FaultUnavailable       = "Unavailable"
	FaultDeployment        = "DeploymentFailure"
	FaultCreate            = "FailedCreate"
	FaultScaling           = "ScalingFailed"
	FaultScalingLimited    = "ScalingLimited"
	FaultQuota             = "QuotaExceeded"
	FaultNamespaceStuck    = "NamespaceStuck"
	FaultUnschedulable     = "Unschedulable"
	FaultEvicted           = "Evicted"
	FaultPreempted         = "Preempted"
	FaultMount             = "FailedMount"
	FaultProvisioning      = "ProvisioningFailed"
	FaultVolumeFillingUp   = "VolumeFillingUp"
	FaultJob               = "JobFailure"
	FaultMissedSchedule    = "MissedSchedule"
	FaultNodeUnhealthy     = "NodeUnhealthy"
	FaultNodePressure      = "NodePressure"
	FaultService           = "ServiceFailure"
	FaultWebhook           = "WebhookFailure"
	FaultAPIService        = "APIServiceUnavailable"
	FaultAPIServerNotReady = "APIUnready"
)

// faultTypes is the one list of what a fault can be.
var faultTypes = []FaultType{
	{ID: FaultCrashLoop, Class: ClassWorkload, Severity: Critical, Meaning: "A container ends again and again.", Also: []string{"CrashLoopBackOff"}},
	{ID: FaultPodCrash, Class: ClassWorkload, Severity: Warning, Meaning: "A container ended with an error and was started again."},
	{ID: FaultOOMKilled, Class: ClassWorkload, Severity: ErrorSeverity, Meaning: "A container was killed for the memory that it took.", Also: []string{"OOM"}},
	{ID: FaultImagePull, Class: ClassWorkload, Severity: ErrorSeverity, Meaning: "An image cannot be pulled.", Also: []string{"ImagePullBackOff"}},
	{ID: FaultStart, Class: ClassWorkload, Severity: ErrorSeverity, Meaning: "A container cannot be started."},
	{ID: FaultProbe, Class: ClassWorkload, Severity: Warning, Meaning: "A probe fails: the container runs and does not work."},
	{ID: FaultPodNotReady, Severity: Warning, Meaning: "A Pod has not been ready for long."},
	{ID: FaultCPUThrottling, Severity: Warning, Meaning: "A container is slowed down by its CPU limit."},
	{ID: FaultUnavailable, Class: ClassWorkload, Severity: ErrorSeverity, Meaning: "A workload has too few Pods that work."},
	{ID: FaultDeployment, Class: ClassWorkload, Severity: Critical, Meaning: "A rollout does not get on."},
	{ID: FaultCreate, Class: ClassWorkload, Severity: ErrorSeverity, Meaning: "The Pods of a workload are refused."},
	{ID: FaultScaling, Class: ClassWorkload, Severity: Warning, Meaning: "An autoscaler cannot do its work."},
	{ID: FaultScalingLimited, Class: ClassWorkload, Severity: Info, Meaning: "An autoscaler wants more Pods than its maximum."},
	{ID: FaultQuota, Severity: Warning, Meaning: "A quota is used up, or nearly."},
	{ID: FaultNamespaceStuck, Class: ClassWorkload, Severity: Warning, Meaning: "A namespace that was deleted does not go away."},

	{ID: FaultUnschedulable, Class: ClassScheduling, Severity: ErrorSeverity, Meaning: "No node accepts a Pod.", Also: []string{"FailedScheduling"}},
	{ID: FaultEvicted, Class: ClassScheduling, Severity: ErrorSeverity, Meaning: "A Pod was evicted: its node was short of something."},
	{ID: FaultPreempted, Class: ClassScheduling, Severity: Warning, Meaning: "A Pod had to give way to one of higher priority."},

	{ID: FaultMount, Class: ClassStorage, Severity: ErrorSeverity, Meaning: "A volume cannot be attached or mounted.", Also: []string{"FailedAttachVolume"}},
	{ID: FaultProvisioning, Class: ClassStorage, Severity: ErrorSeverity, Meaning: "A claim gets no volume, not the size it asks for, or has lost its volume."},
	{ID: FaultVolumeFillingUp, Severity: Warning, Meaning: "A volume is nearly full."},

	{ID: FaultJob, Class: ClassJob, Severity: Critical, Meaning: "A Job has given up, or does not end."},
	{ID: FaultMissedSchedule, Class: ClassJob, Severity: Warning, Meaning: "A CronJob did not run when it should."},

	{ID: FaultNodeUnhealthy, Class: ClassNode, Severity: Critical, Meaning: "A node is not ready, or has no network.", Also: []string{"NodeNotReady"}},
	{ID: FaultNodePressure, Class: ClassNode, Severity: ErrorSeverity, Meaning: "A node is short of memory, disk or process ids."},

	{ID: FaultService, Class: ClassService, Severity: ErrorSeverity, Meaning: "A Service cannot be reached or has no load balancer."},
	{ID: FaultWebhook, Class: ClassService, Severity: ErrorSeverity, Meaning: "An admission webhook does not answer."},
	{ID: FaultAPIService, Class: ClassService, Severity: ErrorSeverity, Meaning: "An API that a Service serves is unavailable."},
	{ID: FaultAPIServerNotReady, Class: ClassService, Severity: Critical, Meaning: "The API server says that it is not ready."},
}

// FaultTypes lists the fault types that we know, those of one class together.
func FaultTypes() []FaultType { return slices.Clone(faultTypes) }

// faultWords is what FaultTypeCalled looks in.
var faultWords = func() map[string]FaultType {
	words := map[string]FaultType{}
	for _, t := range faultTypes {
		words[t.ID] = t
		for _, word := range append(t.Also, t.ID) {
			words[plainWord(word)] = t
		}
	}
	return words
}()

// FaultTypeCalled returns the fault type that a sender means by a word, which senders spell
// differently: crash_loop, crash-loop and CrashLoop are one.
func FaultTypeCalled(word string) (FaultType, bool) {
	t, ok := faultWords[word]
	if !ok {
		t, ok = faultWords[plainWord(word)]
	}
	return t, ok
}

// plainWord drops what two spellings of one word differ in.
func plainWord(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}
