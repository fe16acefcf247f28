package diagnose

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier"
)

// Rule looks for one kind of cause in the facts. It is a function of the facts
// alone, returns nothing unless its predicate holds, and says what it rests on.
type Rule func(*Facts) []Finding

// rules are all the rules, in no particular order: findings are ranked by their
// cause. To add a rule, write the function and its table of cases in a file of
// their own, name it here, and name its causes below.
var rules = []Rule{
	crashed,
	endedAlone,
	imageNotPulled,
	jobFailed,
	nodeNotReady,
	nodePressure,
	outOfMemory,
	podEvicted,
	podsRefused,
	probeFailed,
	configMissing,
	dependencyAway,
	startRefused,
	unschedulable,
	volumeMissing,
	rolloutStalled,
}

// Cause is one entry of the published list.
type Cause struct {
	// ID is the kebab-case name that reports and evaluations use.
	ID string `json:"cause"`
	// Category is Pod, Service, Storage, Node, Network, Helm or Cluster.
	Category string `json:"category"`
	Meaning  string `json:"meaning"`

	// rank orders causes that hold at the same time: what explains more first.
	rank int
}

// The ranks: what a cluster states as the reason outranks what follows from it.
const (
	rankFollows = 10 // a consequence of something else
	rankShown   = 50 // shown by how a container ended
	rankStated  = 80 // stated by the cluster as the reason
	rankGround  = 90 // makes everything above it fail
)

var causes = []Cause{
	{"command-not-found", "Pod", "the container's command does not exist in its image or cannot be executed", rankStated},
	{"container-crash", "Pod", "a container that had been running ended with an error", rankShown},
	{"container-not-started", "Pod", "the container runtime cannot create or start the container", rankStated - 1},
	{"crash-on-start", "Pod", "a container ends with an error shortly after each start", rankShown},
	{"dependency-unreachable", "Network", "what a container connects to does not answer, by its own words", rankFollows + 2},
	{"image-name-invalid", "Pod", "the image reference cannot be parsed", rankStated},
	{"image-not-found", "Pod", "the registry has no such image or tag", rankStated},
	{"image-not-present", "Pod", "the pull policy forbids pulling and the node does not have the image", rankStated},
	{"image-pull-failed", "Pod", "the image cannot be pulled; the cluster does not say why", rankStated - 1},
	{"image-pull-rate-limited", "Pod", "the registry refuses because of too many pulls", rankStated},
	{"image-pull-secret-missing", "Pod", "the pull secret that the Pod names does not exist", rankStated + 1},
	{"image-pull-unauthorized", "Pod", "the registry refuses the credential, or none was sent", rankStated},
	{"image-registry-unreachable", "Network", "the node cannot reach the registry", rankStated},
	{"job-backoff-limit", "Pod", "a Job failed as often as it may", rankShown + 1},
	{"job-deadline-exceeded", "Pod", "a Job ran longer than its deadline", rankShown + 1},
	{"job-failed", "Pod", "a Job failed for another stated reason", rankShown + 1},
	{"main-process-exits", "Pod", "a container that should keep running ends without an error, again and again", rankShown},
	{"missing-config-key", "Pod", "a ConfigMap or Secret lacks a key that the Pod names", rankStated},
	{"missing-configmap", "Pod", "a ConfigMap that the Pod names does not exist", rankStated},
	{"missing-secret", "Pod", "a Secret that the Pod names does not exist", rankStated},
	{"mount-failed", "Storage", "a volume cannot be mounted", rankStated - 1},
	{"node-disk-pressure", "Node", "a node is short of disk space", rankGround - 1},
	{"node-memory-pressure", "Node", "a node is short of memory", rankGround - 1},
	{"node-not-ready", "Node", "a node's kubelet says that it is not ready", rankGround},
	{"node-pid-pressure", "Node", "a node is short of process ids", rankGround - 1},
	{"node-unreachable", "Node", "a node's kubelet does not report any more", rankGround},
	{"oom-killed", "Pod", "a container was killed for want of memory: its limit, or its node, has no more", rankStated + 5},
	{"pod-creation-refused", "Pod", "the API server refuses to make the workload's Pods", rankStated},
	{"pod-evicted", "Node", "a Pod was evicted by its node, which was short of a resource, or because it used more than it may", rankStated},
	{"pod-sandbox-failed", "Network", "the Pod's sandbox or its network cannot be made", rankStated - 1},
	{"probe-failing", "Pod", "a liveness or startup probe fails, so the container is restarted", rankStated - 5},
	{"quota-exceeded", "Cluster", "the namespace's quota leaves no room for the workload's Pods", rankStated},
	{"readiness-probe-failing", "Pod", "a readiness probe fails, so the Pod gets no traffic", rankFollows + 5},
	{"rollout-stalled", "Pod", "a rollout does not progress and its Pods do not say why", rankFollows},
	{"unschedulable-affinity", "Pod", "affinity or spread rules leave no node", rankStated},
	{"unschedulable-cordoned", "Node", "the nodes that would fit are cordoned", rankStated},
	{"unschedulable-cpu", "Pod", "no node has the CPU that the Pod requests", rankStated},
	{"unschedulable-memory", "Pod", "no node has the memory that the Pod requests", rankStated},
	{"unschedulable-no-nodes", "Node", "the cluster has no nodes to schedule to", rankStated},
	{"unschedulable-other", "Pod", "the scheduler finds no node for another reason", rankStated - 2},
	{"unschedulable-pod-limit", "Node", "the nodes run as many Pods as they may", rankStated},
	{"unschedulable-port", "Pod", "the host port that the Pod asks for is taken on every node", rankStated},
	{"unschedulable-resource", "Pod", "no node has another resource that the Pod requests", rankStated},
	{"unschedulable-selector", "Pod", "no node matches the Pod's node selector or affinity", rankStated},
	{"unschedulable-taint", "Pod", "every node has a taint that the Pod does not tolerate", rankStated},
	{"unschedulable-volume", "Storage", "a volume that the Pod claims is not there or is bound elsewhere", rankStated},
	{"volume-not-provisioned", "Storage", "a claim gets no volume, or not the one it asks for", rankStated},
}

// Causes returns the published list of causes, by id.
func Causes() []Cause { return slices.Clone(causes) }

func causeOf(id string) Cause {
	i, ok := slices.BinarySearchFunc(causes, id, func(c Cause, id string) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return Cause{ID: id, Category: "Cluster"}
	}
	return causes[i]
}

// Finding is a cause that a rule found to hold.
type Finding struct {
	// Cause is an id of the published list.
	Cause string
	// Object is what a person would mend.
	Object nightcrier.Object
	// Summary is one sentence to act on.
	Summary    string
	Confidence nightcrier.Confidence
	// Observed are the facts that it rests on, the strongest first.
	Observed []Observation
	// WrongIf says what would make it wrong.
	WrongIf string
	// Test is the read-only command that would refute it.
	Test    nightcrier.Falsification
	Actions []nightcrier.Action
	// Weight orders findings of one rank: the larger first.
	Weight int
}

// Observation is one thing that was read and that a predicate was tested on.
type Observation struct {
	Text string
	// Quote is what stands in the evidence, word for word.
	Quote string
	Ref   Ref
}

// apply runs every rule and returns the findings, the best explanation first,
// one for each cause of an object.
func apply(f *Facts) []Finding {
	var all []Finding
	for _, rule := range rules {
		all = append(all, rule(f)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(causeOf(b.Cause).rank, causeOf(a.Cause).rank),
			cmp.Compare(b.Weight, a.Weight),
		)
	})
	var out []Finding
	for _, n := range all {
		same := func(o Finding) bool { return o.Cause == n.Cause && o.Object == n.Object }
		if !slices.ContainsFunc(out, same) {
			out = append(out, n)
		}
	}
	return out
}
