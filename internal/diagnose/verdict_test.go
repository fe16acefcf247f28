package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/compose"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// judged is the report about a target in a scene, of which everything was read.
func judged(t *testing.T, docs string, target nightcrier.Resource, e nightcrier.Event) nightcrier.Report {
	t.Helper()
	s := scenetest.New(t, docs, "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Node")
	f := &scene.Facts{Now: s.Now, Scene: s, Target: target, Owner: target, OwnerRead: true, AskedAbout: true, Claimed: e.FaultType, ClaimRef: scene.Ref{Evidence: "E9", Source: "event"}}
	switch target.Kind {
	case "Node":
		f.Nodes = s.Nodes
	case scene.NamespaceKind, scene.ClusterKind:
		s.SortEvents()
		f.Events = s.Events
	default:
		f.FillFromScene()
		if d := scene.FindObject(s.Deployments, target.Namespace, target.Name); d != nil && target.Kind == "Deployment" {
			f.Deployment = d
		}
		if j := scene.FindObject(s.Jobs, target.Namespace, target.Name); j != nil && target.Kind == "Job" {
			f.Job = j
		}
	}
	if e.FaultType == "" {
		e.FaultType = nightcrier.Asked
	}
	in := compose.Case{Incident: &nightcrier.Incident{Severity: nightcrier.Warning}, Event: e, Mask: func(s string) string { return s }}
	return compose.AssembleReport(in, f, explainFacts(f), nil, nil)
}

// That nothing needs mending is a claim: each of these looks well by its Pods, and is called
// well only where that shows that what was said to be wrong is over.
func TestAnAllClearIsProved(t *testing.T) {
	whole := nightcrier.Resource{Kind: scene.NamespaceKind, Name: "shop"}
	everything := nightcrier.Resource{Kind: scene.ClusterKind, Name: "prod-1"}
	fine := nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "fine"}
	node := nightcrier.Resource{Kind: "Node", Name: "n1"}
	well := scenetest.WellWorkload("fine", "{name: A, value: b}", "")
	alert := func(name, said string) nightcrier.Event {
		return nightcrier.Event{FaultType: name, Context: said, Dialect: "alertmanager"}
	}
	nodeWith := func(since string, conditions ...string) string {
		return well + "\n---\n" + fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n1, creationTimestamp: "2026-02-01T10:00:00Z"}, status: {conditions: [{type: Ready, status: "True", reason: KubeletReady, lastTransitionTime: %q}, %s]}}`, since, strings.Join(conditions, ", "))
	}
	custom := func(status string) string {
		return well + "\n---\n" + `{apiVersion: helm.example.org/v2, kind: HelmRelease, metadata: {namespace: shop, name: fine}, status: {` + status + `}}`
	}
	warned := func(kind, at string) string {
		return well + "\n---\n" + fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e1}, type: Warning, reason: UpgradeFailed, message: another operation is in progress, involvedObject: {kind: %s, namespace: shop, name: fine}, lastTimestamp: %q}`, kind, at)
	}
	begun := func(doc string) string { return well + "\n---\n" + doc }
	claim := func(at, reason string) string {
		return begun(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {storageClassName: fast}, status: {phase: Pending}}`, at) + "\n---\n" +
			fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e1}, type: Normal, reason: %s, message: it is said, involvedObject: {kind: PersistentVolumeClaim, namespace: shop, name: data}, lastTimestamp: "2026-03-01T11:59:00Z"}`, reason))
	}
	const rolling = `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: slow, generation: 2, creationTimestamp: "2026-02-01T10:00:00Z"}, spec: {replicas: 1, progressDeadlineSeconds: 300}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Progressing, status: "True", reason: ReplicaSetUpdated, lastUpdateTime: "2026-03-01T11:59:00Z"}]}}`
	const deleted = `{apiVersion: example.org/v1, kind: Bucket, metadata: {namespace: shop, name: b, deletionTimestamp: "2026-03-01T11:57:00Z", finalizers: [example.org/cloud]}}`
	const ruleKnows = "a rule names the cause"
	cleared := alert("HttpLatencyHigh", "p99 is high")
	cleared.Cleared = true
	for name, c := range map[string]struct {
		docs   string
		target nightcrier.Resource
		event  nightcrier.Event
		proved bool
		says   string // a part of the hypothesis
	}{
		"nobody complains":                     {well, fine, nightcrier.Event{}, true, ""},
		"nobody complains of the namespace":    {well, whole, nightcrier.Event{}, true, ""},
		"it is ready again":                    {well, fine, alert(nightcrier.FaultUnavailable, "2 of 3 replicas"), true, ""},
		"it crashed":                           {well, fine, alert(nightcrier.FaultCrashLoop, ""), true, ""},
		"one of the namespace crashed":         {well, whole, alert("crash_loop", ""), true, ""},
		"latency":                              {well, fine, alert("HttpLatencyHigh", "p99 of fine is 2 s.\nAlert firing"), false, "the sender still says so: “p99 of fine is 2 s.”"},
		"latency, and the sender says no more": {well, fine, cleared, true, ""},
		"errors in a namespace":                {well, whole, alert("HighErrorRate", "5 % of requests fail"), false, "1 of 1 Pods of 1 workloads are ready"},
		"a consumer that lags":                 {well, fine, alert("ConsumerLagGrowing", "the lag grows"), false, "the lag grows"},
		"throttled":                            {well, fine, alert(nightcrier.FaultCPUThrottling, "87 % throttled"), false, "87 % throttled"},
		"a volume that fills up":               {well, fine, alert(nightcrier.FaultVolumeFillingUp, "3 % left"), false, "3 % left"},
		"a target that is down":                {well, fine, alert(nightcrier.FaultService, "cannot be scraped"), false, "cannot be scraped"},
		"a release that says it is not ready":  {custom(`conditions: [{type: Ready, status: "False", reason: UpgradeFailed, message: another operation is in progress}]`), whole, nightcrier.Event{}, false, ruleKnows},
		"a release that is ready":              {custom(`conditions: [{type: Ready, status: "True", reason: UpgradeSucceeded}]`), whole, nightcrier.Event{}, true, ""},
		"one that has degraded":                {custom(`health: {status: Degraded}`), whole, nightcrier.Event{}, false, ruleKnows},
		"one that is not in sync":              {custom(`sync: {status: OutOfSync}`), whole, nightcrier.Event{}, false, "OutOfSync"},
		"one whose phase is good":              {custom(`phase: Running`), whole, nightcrier.Event{}, true, ""},
		"a warning about what nobody read":     {warned("HelmRelease", "2026-03-01T11:58:00Z"), whole, nightcrier.Event{}, false, "another operation is in progress"},
		"one of long ago":                      {warned("HelmRelease", "2026-03-01T08:00:00Z"), whole, nightcrier.Event{}, true, ""},
		"a warning about what is well":         {warned("Deployment", "2026-03-01T11:58:00Z"), whole, nightcrier.Event{}, true, ""},
		"a node with a problem":                {nodeWith("2026-02-01T10:00:00Z", `{type: ReadonlyFilesystem, status: "True", reason: FilesystemIsReadOnly}`), node, nightcrier.Event{}, false, "ReadonlyFilesystem=True"},
		"a cluster with such a node":           {nodeWith("2026-02-01T10:00:00Z", `{type: KernelDeadlock, status: "True", reason: DockerHung}`), everything, nightcrier.Event{}, false, "KernelDeadlock=True"},
		"a node without":                       {nodeWith("2026-02-01T10:00:00Z", `{type: ReadonlyFilesystem, status: "False"}`), node, alert(nightcrier.FaultNodeUnhealthy, ""), true, ""},
		"a node that is ready since a minute":  {nodeWith("2026-03-01T11:59:00Z", `{type: DiskPressure, status: "False"}`), node, alert(nightcrier.FaultNodeUnhealthy, ""), false, "until 12:09:00 UTC"},
		"a disk that is nearly full":           {nodeWith("2026-02-01T10:00:00Z", `{type: DiskPressure, status: "False"}`), node, alert(nightcrier.FaultNodePressure, "less than 5% left"), false, "5% left"},
		"a node whose pressure is over":        {nodeWith("2026-02-01T10:00:00Z", `{type: DiskPressure, status: "False"}`), node, alert(nightcrier.FaultNodePressure, "n1 has condition DiskPressure"), true, ""},
		"a claim that has just been made":      {claim("2026-03-01T11:58:40Z", "ExternalProvisioning"), whole, nightcrier.Event{}, false, "PersistentVolumeClaim shop/data is in progress: since 11:58:40 UTC (1m20s) it waits for its volume (it is said). From 12:01:40 UTC on"},
		"a claim that waits for its Pod":       {claim("2026-03-01T11:58:40Z", "WaitForFirstConsumer"), whole, nightcrier.Event{}, true, ""},
		"a balancer that was just asked for":   {begun(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: edge, creationTimestamp: "2026-03-01T11:55:00Z"}, spec: {type: LoadBalancer}}`), whole, nightcrier.Event{}, false, "Service shop/edge is in progress"},
		"a balancer that is there":             {begun(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: edge, creationTimestamp: "2026-03-01T11:55:00Z"}, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}`), whole, nightcrier.Event{}, true, ""},
		"a deletion that waits":                {begun(deleted), whole, nightcrier.Event{}, false, "it waits for its finalizers example.org/cloud"},
		"a deletion of something else":         {begun(deleted), fine, nightcrier.Event{}, true, ""},
		"a Pod within its time to say goodbye": {begun(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: fine-5d4f8c7b9d-old22, creationTimestamp: "2026-02-01T10:00:00Z", deletionTimestamp: "2026-03-01T12:30:00Z", labels: {app: fine, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: fine-5d4f8c7b9d, uid: u, controller: true}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`), whole, nightcrier.Event{}, true, ""},
		"a rollout that gets on":               {begun(rolling), whole, nightcrier.Event{}, false, "From 12:04:00 UTC on"},
	} {
		t.Run(name, func(t *testing.T) {
			r := judged(t, c.docs, c.target, c.event)
			over := r.Verdict == nightcrier.VerdictHealthy || r.Verdict == nightcrier.VerdictRecovered
			if fault := r.Verdict == nightcrier.VerdictFault; over != c.proved || fault != (c.says == ruleKnows) {
				t.Errorf("%s, cause %+v, %q", r.Verdict, r.RootCause, r.Hypotheses[0].Statement)
			}
			if c.says == ruleKnows {
				return
			}
			if !strings.Contains(r.Hypotheses[0].Statement, c.says) {
				t.Errorf("it says %q", r.Hypotheses[0].Statement)
			}
			if waits := strings.Contains(c.says, "UTC"); waits && !r.LookAgainAt.After(scenetest.Now) {
				t.Errorf("look again at %s", r.LookAgainAt)
			}
			if !over && (len(r.NotChecked) == 0 || len(r.Actions) == 0 || r.Hypotheses[0].Falsification.Command == "" && c.target.Kind != scene.ClusterKind) {
				t.Errorf("not checked %+v, steps %+v, test %+v", r.NotChecked, r.Actions, r.Hypotheses[0].Falsification)
			}
		})
	}
}
