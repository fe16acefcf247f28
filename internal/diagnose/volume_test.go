package diagnose

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

func TestClaims(t *testing.T) {
	claim := func(spec, phase string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, %s}, status: {phase: %s}}`, long, spec, phase)
	}
	young := func(spec string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, %s}, status: {phase: Pending}}`, short, spec)
	}
	class := func(name, more string) string {
		return fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s}, %s}`, name, more)
	}
	fast := class("fast", "provisioner: disk.example.com, volumeBindingMode: Immediate")
	late := class("late", "provisioner: disk.example.com, volumeBindingMode: WaitForFirstConsumer")
	local := class("local", "provisioner: kubernetes.io/no-provisioner, volumeBindingMode: Immediate")
	volume := func(spec, phase string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1, labels: {disk: ssd}}, spec: {capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], storageClassName: local, %s}, status: {phase: %s}}`, spec, phase)
	}
	said := func(reason, message string, at string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, involvedObject: {kind: PersistentVolumeClaim, namespace: shop, name: data}, reason: %s, message: %q, lastTimestamp: %q}", reason, message, at)
	}
	user := docs(deploymentOf("db", "app: db", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: app}]"),
		podOf("db", "app: db", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: app}]", false))
	const of = " PersistentVolumeClaim data"
	const waits = "Waiting for a volume to be created either by the external provisioner 'disk.example.com' or manually by the system administrator."
	checkScenes(t, []scenecase{
		{"no such class", docs(fast, claim("storageClassName: fsat", "Pending")), nil, []string{"pvc-class-missing" + of}},
		{"no such class, said the controller", docs(claim("storageClassName: fsat", "Pending"), said("ProvisioningFailed", `storageclass.storage.k8s.io "fsat" not found`, short)), nil, []string{"pvc-class-missing" + of}},
		{"no class and no default", docs(fast, claim("volumeMode: Filesystem", "Pending")), nil, []string{"pvc-class-missing" + of}},
		{"provisioner fails", docs(fast, claim("storageClassName: fast", "Pending"), said("ProvisioningFailed", `failed to provision volume with StorageClass "fast": rpc error: code = Internal desc = cannot log in to the cloud`, short)), nil, []string{"pvc-provisioner-failing" + of}},
		{"provisioner away", docs(fast, claim("storageClassName: fast", "Pending"), said("ExternalProvisioning", waits, short)), nil, []string{"pvc-provisioner-failing" + of}},
		{"provisioner away, its events gone", docs(fast, claim("storageClassName: fast", "Pending")), nil, []string{"pvc-provisioner-failing" + of}},
		{"too large for the provisioner", docs(fast, claim("storageClassName: fast", "Pending"), said("ProvisioningFailed", "rpc error: code = ResourceExhausted desc = not enough free space", short)), nil, []string{"pvc-size-unavailable" + of}},
		{"a mode that the provisioner has not", docs(late, user, claim("storageClassName: late", "Pending"), said("ProvisioningFailed", "NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes", short)), nil, []string{"pvc-access-mode-unavailable" + of}},
		{"the smallest is too small", docs(local, volume("capacity: {storage: 1Gi}", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-size-unavailable" + of}},
		{"another access mode", docs(local, volume("accessModes: [ReadOnlyMany]", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-access-mode-unavailable" + of}},
		{"other labels", docs(local, volume("volumeMode: Filesystem", "Available"), claim("storageClassName: local, selector: {matchLabels: {disk: hdd}}", "Pending")), nil, []string{"pvc-selector-unmatched" + of}},
		{"another volume mode", docs(local, volume("volumeMode: Block", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"a class that only a volume bears", docs(volume("capacity: {storage: 1Gi}", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-size-unavailable" + of}},
		{"only a released volume", docs(local, volume("claimRef: {namespace: shop, name: data, uid: old}", "Released"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"its volume is another's", docs(local, volume("claimRef: {namespace: shop, name: other}", "Bound"), claim("storageClassName: local, volumeName: v1", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"its volume does not exist", docs(local, volume("volumeMode: Filesystem", "Available"), claim("storageClassName: local, volumeName: v2", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"its volume is too small", docs(local, volume("capacity: {storage: 1Gi}", "Available"), claim("storageClassName: local, volumeName: v1", "Pending")), nil, []string{"pvc-size-unavailable" + of}},
		{"its volume is gone", docs(fast, claim("storageClassName: fast, volumeName: v1", "Lost")), nil, []string{"pvc-volume-lost" + of}},

		{"bound", docs(fast, claim("storageClassName: fast", "Bound"), said("ProvisioningFailed", "x", short)), nil, nil},
		{"just made", docs(fast, young("storageClassName: fast"), said("ExternalProvisioning", waits, short)), nil, nil},
		{"waits for its first Pod", docs(late, claim("storageClassName: late", "Pending")), nil, nil},
		{"its Pod finds no node", docs(late, user, claim("storageClassName: late", "Pending")), nil, nil},
		{"about to be bound", docs(local, volume("volumeMode: Filesystem", "Available"), claim("storageClassName: local", "Pending")), nil, nil},
		{"being deleted", docs(fast, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, deletionTimestamp: %q}, spec: {storageClassName: gone}, status: {phase: Pending}}`, short)), nil, nil},
		{"the default class", docs(class("std", `provisioner: d, metadata: {name: std, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, volumeBindingMode: WaitForFirstConsumer`), claim("volumeMode: Filesystem", "Pending")), nil, nil},
	}, "PersistentVolume")

	denied := scenecase{manifests: claim("storageClassName: fast", "Pending")}.scene(t)
	denied = unlisted(denied)
	checkScene(t, denied)

	s := scenecase{manifests: docs(user, claim("storageClassName: fsat", "Pending"), fast)}.scene(t)
	db := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "db"}
	if n := applyScene(s)[0]; len(n.Affected) != 1 || n.Affected[0] != db {
		t.Errorf("affected %v", n.Affected)
	}
}

// The provisioner that is away is what to look at first.
func TestClaimNeedsItsProvisioner(t *testing.T) {
	s := sceneOf(t, docs(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: std}, provisioner: rancher.io/local-path}`,
		fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {storageClassName: std, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`, now.Add(-time.Hour).Format(time.RFC3339)),
		`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: local-path-provisioner}, spec: {template: {spec: {containers: [{name: p, args: [start]}]}}}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: other}, spec: {template: {spec: {containers: [{name: p}]}}}}`))
	want := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "local-path-provisioner"}
	if n := applyScene(s)[0]; len(n.DependsOn) != 1 || n.DependsOn[0] != want {
		t.Errorf("depends on %v", n.DependsOn)
	}
}
