package detect

import (
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// cause is one kind of sign, and the patience that we have with it.
type cause struct {
	// reason is what internal/ingest/dialect knows it by: it gives type and severity.
	reason string
	// grace is how long it must last before it is a fault.
	grace time.Duration
	// hold is how long it counts as there after its last sign.
	hold time.Duration
	// heals: it is over at once when its object works.
	heals bool
	// ahead: it may be dated into the future, when something is expected.
	ahead bool
}

// The causes, with the reasons for their patience. Every duration is multiplied
// by Config.Patience.
var (
	// A crash has happened when it is seen; the container that runs again may
	// crash again within minutes.
	crash = &cause{reason: "PodCrash", hold: 5 * time.Minute}
	// The kubelet waits for up to five minutes between two attempts and says so
	// meanwhile. In between the container runs and looks well.
	crashLoop = &cause{reason: "CrashLoopBackOff", hold: 4 * time.Minute}
	// Two crashes in a row, then ten seconds of waiting: a dependency that comes
	// up a little later ends it by itself.
	secondCrash = &cause{reason: "CrashLoopBackOff", grace: 30 * time.Second, hold: 4 * time.Minute}
	oomKilled   = &cause{reason: "OOMKilled", hold: 5 * time.Minute}

	// A registry's hiccup is over at the second attempt, ten seconds later.
	imagePull = &cause{reason: "ErrImagePull", grace: 45 * time.Second, heals: true}
	// What no second attempt can change.
	imageNever = &cause{reason: "ErrImageNeverPull", heals: true}
	// Tools that apply a folder make the Pod before its ConfigMap.
	configError  = &cause{reason: "CreateContainerConfigError", grace: 30 * time.Second, heals: true}
	startFailure = &cause{reason: "StartFailure", grace: 30 * time.Second, hold: time.Minute, heals: true}
	// Large images take their time.
	neverCreated = &cause{reason: "StartFailure", grace: 20 * time.Minute, heals: true}
	// The kubelet would not have the Pod; its controller makes another one.
	notAdmitted = &cause{reason: "StartFailure", hold: 5 * time.Minute}

	// An autoscaler needs a few minutes for a new node.
	unschedulable = &cause{reason: "Unschedulable", grace: 5 * time.Minute, heals: true}
	evicted       = &cause{reason: "Evicted", hold: 5 * time.Minute}
	preempted     = &cause{reason: "Preempted", hold: 5 * time.Minute}

	// Caches warm up and dependencies blink.
	notBecomingReady = &cause{reason: "Unhealthy", grace: 5 * time.Minute, heals: true}
	// A startup probe is there because the start is slow.
	notStarting = &cause{reason: "Unhealthy", grace: 15 * time.Minute, heals: true}
	// Told by Events, which are repeated every few minutes at most.
	probeFailing = &cause{reason: "Unhealthy", hold: 10 * time.Minute}
	mountFailing = &cause{reason: "FailedMount", hold: 10 * time.Minute, heals: true}
	sandboxFails = &cause{reason: "FailedCreatePodSandBox", hold: 10 * time.Minute, heals: true}

	// The Deployment controller has waited for its own deadline.
	rolloutStuck = &cause{reason: "ProgressDeadlineExceeded"}
	// What keeps a Pod from working mostly shows in the Pod, and sooner. This is
	// for the rest, and leaves time to find a node and to pull a large image.
	unavailable = &cause{reason: "Unavailable", grace: 10 * time.Minute, heals: true}
	// A rollout that goes forward is no fault; each step starts this anew.
	slowRollout = &cause{reason: "Unavailable", grace: 15 * time.Minute, heals: true}
	// Controllers retry at once and then ever more seldom, a quarter of an hour
	// apart at last.
	createRefused = &cause{reason: "FailedCreate", grace: 30 * time.Second, hold: 20 * time.Minute, heals: true}
	webhookFails  = &cause{reason: "WebhookFailure", grace: 30 * time.Second, hold: 20 * time.Minute, heals: true}

	jobFailed      = &cause{reason: "BackoffLimitExceeded"}
	jobOverdue     = &cause{reason: "DeadlineExceeded"}
	scheduleMissed = &cause{reason: "MissSchedule", grace: 10 * time.Minute, ahead: true}
	scheduleEvent  = &cause{reason: "MissSchedule", hold: 30 * time.Minute}

	// Longer than a kubelet's restart; the controller has waited for 40 seconds
	// before it says unknown.
	nodeNotReady = &cause{reason: "NodeNotReady", grace: time.Minute}
	// A node that joins, or one that somebody has cordoned to work on it.
	nodeExcused  = &cause{reason: "NodeNotReady", grace: 15 * time.Minute}
	nodePressure = &cause{reason: "NodePressure", grace: 30 * time.Second, hold: 2 * time.Minute}
	nodeEvent    = &cause{reason: "NodePressure", hold: 15 * time.Minute}
	nodeNetwork  = &cause{reason: "NetworkUnavailable", grace: 3 * time.Minute}

	// A provisioner talks to a cloud.
	claimPending = &cause{reason: "ProvisioningFailed", grace: 5 * time.Minute, heals: true}
	claimLost    = &cause{reason: "ClaimLost"}
	claimEvent   = &cause{reason: "ProvisioningFailed", hold: 15 * time.Minute, heals: true}

	// New Pods have no metrics for a minute or two.
	metricsMissing = &cause{reason: "ScalingFailed", grace: 10 * time.Minute}
	// At its limit is what a limit is for; for an hour is worth knowing.
	scalingLimited = &cause{reason: "ScalingLimited", grace: time.Hour}

	loadBalancer   = &cause{reason: "SyncLoadBalancerFailed", hold: 15 * time.Minute}
	apiUnavailable = &cause{reason: "APIServiceUnavailable", grace: 2 * time.Minute}
	apiUnready     = &cause{reason: "APIUnready", grace: 30 * time.Second}
	namespaceStuck = &cause{reason: "NamespaceStuck", grace: 15 * time.Minute}
)

const (
	// stable is how long everything must have been well before a fault is over.
	// It doubles each time that the fault comes back, up to maxStable.
	stable    = 3 * time.Minute
	maxStable = 48 * time.Minute
	// remembered is how long a fault that is over is known by how often it came
	// back.
	remembered = time.Hour
	// startup is how long after its first start a container's first crash is
	// excused: it may have come up before what it needs.
	startup = 5 * time.Minute
	// joining is how long a node may take until it is ready.
	joining = 10 * time.Minute
	// catchUp is how long after a kind can be followed again what was missed takes
	// to come.
	catchUp = 5 * time.Second
	// staleJob is how long ago a Job must have failed to be history.
	staleJob = time.Hour
	// buried is how long nothing is told of a workload that was deleted: its Pods
	// go a little later.
	buried = 5 * time.Minute
)

// faultMeaning is the fault type and the severity of a cause.
func (c *cause) faultMeaning() (string, nightcrier.Severity) {
	faultType, severity, _ := dialect.Meaning(c.reason)
	return faultType, severity
}

// implied are the fault types that are not worth telling beside another one, by
// what they follow from; that may be of another class.
var implied = map[string][]string{
	nightcrier.FaultPodCrash: {nightcrier.FaultCrashLoop, nightcrier.FaultOOMKilled},
	nightcrier.FaultProbe:    {nightcrier.FaultCrashLoop, nightcrier.FaultOOMKilled},
	nightcrier.FaultStart:    {nightcrier.FaultMount},
	nightcrier.FaultUnavailable: {nightcrier.FaultDeployment, nightcrier.FaultCrashLoop, nightcrier.FaultImagePull, nightcrier.FaultStart, nightcrier.FaultCreate, nightcrier.FaultProbe,
		nightcrier.FaultUnschedulable, nightcrier.FaultMount, nightcrier.FaultEvicted, nightcrier.FaultPreempted},
	nightcrier.FaultDeployment: {nightcrier.FaultUnschedulable, nightcrier.FaultMount},
}

// continued are the fault types that another one goes on as: while a sign of it is
// waited for, they are not over. What takes the place of a Pod that had to go may
// find none.
var continued = map[string][]string{
	nightcrier.FaultUnschedulable: {nightcrier.FaultPreempted, nightcrier.FaultEvicted},
}
