package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestVolumeNotMounted(t *testing.T) {
	says := func(reason, message string) *scene.Facts {
		return withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), reason, message, time.Minute)
	}
	conf := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}, {Name: "data"}}
	}
	slow := func(volumes string) string {
		return "Unable to attach or mount volumes: unmounted volumes=[" + volumes + "], unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition"
	}
	check(t, []rulecase{
		{"host path", says("FailedMount", `MountVolume.SetUp failed for volume "x" : hostPath type check failed: /data is not a directory`), []string{"mount-failed"}},
		{"NFS denies", says("FailedMount", `MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32 Output: mount.nfs: access denied by server while mounting 10.0.0.1:/export`), []string{"mount-failed"}},
		{"NFS away", says("FailedMount", `MountVolume.SetUp failed for volume "nfs" : mount failed: mount.nfs: Connection timed out`), []string{"mount-failed"}},
		{"wrong type", says("FailedMount", `MountVolume.MountDevice failed for volume "pv" : mount: wrong fs type, bad option, bad superblock on /dev/xvdf`), []string{"mount-failed"}},
		{"only that it takes long", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""), conf)), "FailedMount", slow("data"), time.Minute), []string{"mount-failed"}},
		{"Multi-Attach", says("FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and can't be attached to another`), []string{"volume-attach-failed"}},
		{"Multi-Attach, said once and long ago", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) cart-0`, time.Hour), []string{"volume-attach-failed"}},
		{"Multi-Attach, over since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedAttachVolume", `Multi-Attach error for volume "pvc-1"`, time.Hour), nil},
		{"the cloud refuses", says("FailedAttachVolume", `AttachVolume.Attach failed for volume "pvc-1" : rpc error: code = NotFound desc = volume not found`), []string{"volume-attach-failed"}},
		{"attaching takes long", says("FailedAttachVolume", `AttachVolume.Attach failed for volume "pvc-1" : timed out waiting for external-attacher of ebs.csi.aws.com CSI driver to attach volume vol-1`), []string{"volume-attach-failed"}},
		{"no driver at the kubelet", says("FailedMount", `MountVolume.MountDevice failed for volume "pvc-1" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name ebs.csi.aws.com not found in the list of registered CSI drivers`), []string{"csi-driver-missing"}},
		{"no driver at the controller", says("FailedAttachVolume", `AttachVolume.Attach failed for volume "pvc-1" : CSINode n1 does not contain driver ebs.csi.aws.com`), []string{"csi-driver-missing"}},

		{"a ConfigMap that the kubelet has not fetched yet", says("FailedMount", `MountVolume.SetUp failed for volume "conf" : failed to sync configmap cache: timed out waiting for the condition`), nil},
		{"only ConfigMaps take long", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""), conf)), "FailedMount", slow("conf"), time.Minute), nil},
		{"it said so long ago", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedMount", "hostPath type check failed: x", scene.FreshFor), nil},
		{"mounted since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedAttachVolume", "Multi-Attach error", time.Minute), nil},
		{"mounted, and fails for another reason", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))), "FailedMount", "hostPath type check failed: x", time.Minute), []string{"crash-on-start"}},
	})
	n := ApplyRules(says("FailedMount", `MountVolume.SetUp failed for volume "x" : hostPath type check failed: /data is not a directory`))[0]
	if !strings.Contains(n.Summary, "/data is not a directory") || n.Confidence != nightcrier.High {
		t.Errorf("%s %q", n.Confidence, n.Summary)
	}
	plain := withEvent(withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedMount", slow("data"), time.Second), "FailedAttachVolume", "Multi-Attach error for volume", time.Minute)
	if got := ApplyRules(plain)[0].Cause; got != "volume-attach-failed" {
		t.Errorf("one that says why comes first, got %s", got)
	}
}

// A node that is away holds a volume for ever, and the driver is what to mend.
func TestVolumeNeeds(t *testing.T) {
	f := withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedAttachVolume", `Multi-Attach error for volume "pv1" Volume is already used by pod(s) cart-old, cart-older`, time.Minute)
	f.Scene = scenetest.New(t, scenetest.JoinDocs(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-old}, spec: {nodeName: n7}}`,
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data}, spec: {volumeName: pv1}}`))
	want := []nightcrier.Object{{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"}, {Kind: "Node", Name: "n7"}}
	if n := ApplyRules(f)[0]; !slices.Equal(n.DependsOn, want) {
		t.Errorf("depends on %v", n.DependsOn)
	}
	f = withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedMount", "driver name disk.example.com not found in the list of registered CSI drivers", time.Minute)
	f.Scene = scenetest.New(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: shop, name: disk}, spec: {template: {spec: {containers: [{name: registrar, args: [--kubelet-registration-path=/var/lib/kubelet/plugins/disk.example.com/csi.sock]}]}}}}`)
	want = []nightcrier.Object{{Kind: "DaemonSet", Namespace: "shop", Name: "disk"}}
	if n := ApplyRules(f)[0]; !slices.Equal(n.DependsOn, want) {
		t.Errorf("depends on %v", n.DependsOn)
	}
}

func TestVolumeHeld(t *testing.T) {
	claim := func(mode string) string {
		return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data}, spec: {volumeName: pv1, accessModes: [` + mode + `]}, status: {phase: Bound}}`
	}
	on := func(suffix, node, state, since string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db-7d4b9c8f6d-%s, labels: {pod-template-hash: 7d4b9c8f6d}, creationTimestamp: %q, ownerReferences: [{kind: ReplicaSet, name: db-7d4b9c8f6d, controller: true, uid: u, apiVersion: apps/v1}]}, spec: {nodeName: %s, volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}, status: {phase: Pending, containerStatuses: [{name: app, state: {%s}}]}}`, suffix, since, node, state)
	}
	const waits, runs = "waiting: {reason: ContainerCreating}", "running: {}"
	attachment := func(at string) string {
		return fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: csi-1}, spec: {attacher: d, nodeName: n2, source: {persistentVolumeName: pv1}}, status: {attached: false, attachError: {message: "volume is in use", time: %q}}}`, at)
	}
	const found = "volume-attach-failed Deployment db"
	checkScenes(t, []scenecase{
		{"on another node", scenetest.JoinDocs(claim("ReadWriteOnce"), on("x7k2p", "n1", runs, scenetest.LongName), on("y7k2p", "n2", waits, scenetest.LongName)), nil, []string{found}},
		{"the attachment says so", scenetest.JoinDocs(claim("ReadWriteMany"), on("y7k2p", "n2", waits, scenetest.LongName), attachment(scenetest.Short)), nil, []string{found}},
		{"on the same node", scenetest.JoinDocs(claim("ReadWriteOnce"), on("x7k2p", "n1", runs, scenetest.LongName), on("y7k2p", "n1", waits, scenetest.LongName)), nil, nil},
		{"for many", scenetest.JoinDocs(claim("ReadWriteMany"), on("x7k2p", "n1", runs, scenetest.LongName), on("y7k2p", "n2", waits, scenetest.LongName)), nil, nil},
		{"only just", scenetest.JoinDocs(claim("ReadWriteOnce"), on("x7k2p", "n1", runs, scenetest.LongName), on("y7k2p", "n2", waits, scenetest.Short)), nil, nil},
		{"it fails for another reason", scenetest.JoinDocs(claim("ReadWriteOnce"), on("x7k2p", "n1", runs, scenetest.LongName), on("y7k2p", "n2", "waiting: {reason: ImagePullBackOff}", scenetest.LongName)), nil, nil},
		{"the attachment failed long ago", scenetest.JoinDocs(claim("ReadWriteMany"), on("y7k2p", "n2", waits, scenetest.LongName), attachment(scenetest.LongName)), nil, nil},
		{"nobody waits for the attachment", scenetest.JoinDocs(claim("ReadWriteMany"), on("y7k2p", "n2", runs, scenetest.LongName), attachment(scenetest.Short)), nil, nil},
	})
}
