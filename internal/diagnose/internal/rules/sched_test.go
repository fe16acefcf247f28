package rules

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// inScene makes the facts about a workload of a Scene: its Pods, and the Events
// about any of them.
func inScene(s *scene.Scene, kind, name string) *scene.Facts {
	r := nightcrier.Resource{Kind: kind, Namespace: "shop", Name: name}
	f := &scene.Facts{Now: s.Now, Scene: s, Target: r, AskedAbout: true, Owner: r, Deployment: scene.FindObject(s.Deployments, "shop", name), Job: scene.FindObject(s.Jobs, "shop", name)}
	for _, p := range s.Pods {
		if s.WorkloadAbove("Pod", &p.Object) == scene.ObjectOf(r) || kind == "Job" && scene.ControllerOf(&p.Object).Name == name {
			f.Pods = append(f.Pods, p)
		}
	}
	for _, e := range s.Events {
		if strings.HasPrefix(e.Object.InvolvedObject.Name, name) {
			f.Events = append(f.Events, e)
		}
	}
	return f
}

const oneSmallNode = `
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {disk: hdd, cores: "4"}}, status: {allocatable: {cpu: "2", memory: 4Gi, pods: "110"}}}
---
`

const alone = `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}, status: {phase: Pending}, spec: `

func TestUnschedulableWithoutAWordFromTheScheduler(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, spec string
		cause       string
		says        string
	}{
		"too much cpu":                {oneSmallNode, `{containers: [{name: app, resources: {requests: {cpu: "64"}}}]}`, "unschedulable-cpu", "requests 64 of cpu, the largest node has 2"},
		"a limit is a request too":    {oneSmallNode, `{containers: [{name: app, resources: {limits: {memory: 64Gi}}}]}`, "unschedulable-memory", "requests 64Gi of memory, the largest node has 4Gi"},
		"no such device":              {oneSmallNode, `{containers: [{name: app, resources: {limits: {nvidia.com/gpu: 1}}}]}`, "unschedulable-resource", "nvidia.com/gpu"},
		"selector":                    {oneSmallNode, `{nodeSelector: {disk: ssd}, containers: [{name: app}]}`, "unschedulable-selector", "node selector disk=ssd matches 0 of 1 node"},
		"affinity":                    {oneSmallNode, `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: cores, operator: Gt, values: ["8"]}]}]}}}, containers: [{name: app}]}`, "unschedulable-selector", ""},
		"taint":                       {strings.Replace(oneSmallNode, "status:", "spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}, status:", 1), `{containers: [{name: app}]}`, "unschedulable-taint", ""},
		"cordoned":                    {strings.Replace(oneSmallNode, "status:", "spec: {unschedulable: true}, status:", 1), `{containers: [{name: app}]}`, "unschedulable-cordoned", ""},
		"fits":                        {oneSmallNode, `{nodeSelector: {disk: hdd}, containers: [{name: app, resources: {requests: {cpu: "2"}}}], schedulerName: default-scheduler}`, "unschedulable-no-scheduler", "default-scheduler"},
		"nobody serves its scheduler": {oneSmallNode, `{schedulerName: turbo, containers: [{name: app}]}`, "unschedulable-no-scheduler", "schedulerName turbo"},
		"gate":                        {oneSmallNode, `{schedulingGates: [{name: example.com/later}], containers: [{name: app}]}`, "scheduling-gated", "example.com/later"},
		"tolerated":                   {strings.Replace(oneSmallNode, "status:", "spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}, status:", 1), `{tolerations: [{operator: Exists}], nodeName: n1, containers: [{name: app}]}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ApplyRules(inScene(scenetest.New(t, c.nodes+alone+c.spec+"}"), "Pod", "cart"))
			if c.cause == "" && len(got) == 0 {
				return
			}
			if len(got) == 0 || got[0].Cause != c.cause || !strings.Contains(got[0].Summary, c.says) {
				t.Fatalf("got %+v, want %s with %q", got, c.cause, c.says)
			}
			for _, f := range got {
				scenetest.CheckFinding(t, f)
			}
		})
	}
}

// A Pod that was made a moment ago, one that is going, and one of which not all
// nodes are known, wait for nothing that is wrong.
func TestPendingIsNotYetUnschedulable(t *testing.T) {
	too := `{containers: [{name: app, resources: {requests: {cpu: "64"}}}]}}`
	fresh := strings.Replace(alone, "11:00:00Z", "11:59:30Z", 1) + too
	going := strings.Replace(alone, "shop,", `shop, deletionTimestamp: "2026-03-01T11:59:00Z",`, 1) + too
	nominated := strings.Replace(alone, "phase: Pending", "phase: Pending, nominatedNodeName: n1", 1) + `{containers: [{name: app}]}}`
	for name, manifests := range map[string]string{"fresh": fresh, "going": going, "another gives way to it": nominated} {
		if got := ApplyRules(inScene(scenetest.New(t, oneSmallNode+manifests), "Pod", "cart")); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s := scenetest.New(t, oneSmallNode+alone+too)
	s = scenetest.Unlisted(s)
	if got := foundOf(ApplyRules(inScene(s, "Pod", "cart")), "unschedulable-cpu"); len(got) > 0 {
		t.Errorf("with nodes unread: %v", got)
	}
}

func TestANodeIsBeingAdded(t *testing.T) {
	comes := func(age time.Duration) []scene.Finding {
		p := pending("0/2 nodes are available: 2 Insufficient cpu.")
		p.CreationTimestamp = metav1.NewTime(scenetest.Now.Add(-age))
		return ApplyRules(withEvent(scenetest.FactsOf(p), "TriggeredScaleUp", "pod triggered scale-up: [{workers 2->3 (max: 9)}]", 5*time.Second))
	}
	if got := comes(time.Minute); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	if got := comes(time.Hour); len(got) != 1 {
		t.Errorf("the node never came: %+v", got)
	}
}

func TestSchedulersSentences(t *testing.T) {
	for said, want := range map[string]string{
		"0/2 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 1 Insufficient memory.":                                  "unschedulable-memory",
		"0/3 nodes are available: 1 node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't tolerate, 2 node(s) had volume node affinity conflict.": "unschedulable-volume-zone",
		"0/3 nodes are available: 3 node(s) had no available volume zone.":                                                                                            "unschedulable-volume-zone",
		"0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.":                                                                        "unschedulable-volume",
		"0/3 nodes are available: 3 node(s) exceed max volume count.":                                                                                                 "unschedulable-volume",
		`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`:                                                                          "unschedulable-volume",
		"0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints (missing required label).":                                                   "unschedulable-spread",
		"0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.":                                                                        "unschedulable-affinity",
		"0/3 nodes are available: 3 node(s) didn't match pod affinity rules.":                                                                                         "unschedulable-affinity",
		"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity.":                                                                                        "unschedulable-selector",
		"0/1 nodes are available: 1 node(s) didn't match the requested node name.":                                                                                    "unschedulable-selector",
		"0/3 nodes are available: 3 Insufficient ephemeral-storage.":                                                                                                  "unschedulable-resource",
		"0/3 nodes are available: 3 cannot allocate all claims.":                                                                                                      "unschedulable-resource",
		"0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.":                                                                  "unschedulable-taint",
	} {
		if got := ApplyRules(scenetest.FactsOf(pending(said))); len(got) == 0 || got[0].Cause != want {
			t.Errorf("%s\ngot %+v, want %s", said, got, want)
		}
	}
}

// What the Pod waits for is named, so that its trouble is found to be the cause.
func TestUnschedulableNamesWhatItNeeds(t *testing.T) {
	p := pending(`0/1 nodes are available: persistentvolumeclaim "data" not found.`)
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	want := nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"}
	if got := ApplyRules(scenetest.FactsOf(p))[0].DependsOn; len(got) != 1 || got[0] != want {
		t.Errorf("%v", got)
	}
	f := scenetest.FactsOf(pending("0/1 nodes are available: 1 node(s) were unschedulable."))
	f.Nodes = []scene.Read[corev1.Node]{{Object: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Unschedulable: true}}, Ref: scene.Ref{Evidence: "E3", Source: "get nodes"}}}
	if got := ApplyRules(f)[0].DependsOn; len(got) != 1 || got[0].Name != "n1" {
		t.Errorf("%v", got)
	}
}

func TestHostileSchedulingText(t *testing.T) {
	p := pending("")
	p.Status.Phase, p.Status.Conditions = corev1.PodPending, nil
	p.Spec.SchedulerName = scenetest.HostileText
	p.CreationTimestamp = metav1.NewTime(scenetest.Now.Add(-time.Hour))
	for _, n := range ApplyRules(scenetest.FactsOf(p)) {
		if strings.ContainsAny(n.Summary, "\n\x1b\u202e") || strings.Contains(n.Test.Command, "shadow") {
			t.Errorf("%+v", n)
		}
	}
}
