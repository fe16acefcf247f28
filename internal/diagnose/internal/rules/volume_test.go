package rules

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestClaims(t *testing.T) {
	claim := func(spec, phase string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, %s}, status: {phase: %s}}`, scenetest.LongName, spec, phase)
	}
	young := func(spec string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, %s}, status: {phase: Pending}}`, scenetest.Short, spec)
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
	user := scenetest.JoinDocs(scenetest.DeploymentOf("db", "app: db", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: app}]"),
		scenetest.PodOf("db", "app: db", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: app}]", false))
	const of = " PersistentVolumeClaim data"
	const waits = "Waiting for a volume to be created either by the external provisioner 'disk.example.com' or manually by the system administrator."
	checkScenes(t, []scenecase{
		{"no such class", scenetest.JoinDocs(fast, claim("storageClassName: fsat", "Pending")), nil, []string{"pvc-class-missing" + of}},
		{"no such class, said the controller", scenetest.JoinDocs(claim("storageClassName: fsat", "Pending"), said("ProvisioningFailed", `storageclass.storage.k8s.io "fsat" not found`, scenetest.Short)), nil, []string{"pvc-class-missing" + of}},
		{"no class and no default", scenetest.JoinDocs(fast, claim("volumeMode: Filesystem", "Pending")), nil, []string{"pvc-class-missing" + of}},
		{"provisioner fails", scenetest.JoinDocs(fast, claim("storageClassName: fast", "Pending"), said("ProvisioningFailed", `failed to provision volume with StorageClass "fast": rpc error: code = Internal desc = cannot log in to the cloud`, scenetest.Short)), nil, []string{"pvc-provisioner-failing" + of}},
		{"provisioner away", scenetest.JoinDocs(fast, claim("storageClassName: fast", "Pending"), said("ExternalProvisioning", waits, scenetest.Short)), nil, []string{"pvc-provisioner-failing" + of}},
		{"provisioner away, its events gone", scenetest.JoinDocs(fast, claim("storageClassName: fast", "Pending")), nil, []string{"pvc-provisioner-failing" + of}},
		{"too large for the provisioner", scenetest.JoinDocs(fast, claim("storageClassName: fast", "Pending"), said("ProvisioningFailed", "rpc error: code = ResourceExhausted desc = not enough free space", scenetest.Short)), nil, []string{"pvc-size-unavailable" + of}},
		{"a mode that the provisioner has not", scenetest.JoinDocs(late, user, claim("storageClassName: late", "Pending"), said("ProvisioningFailed", "NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes", scenetest.Short)), nil, []string{"pvc-access-mode-unavailable" + of}},
		{"the smallest is too small", scenetest.JoinDocs(local, volume("capacity: {storage: 1Gi}", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-size-unavailable" + of}},
		{"another access mode", scenetest.JoinDocs(local, volume("accessModes: [ReadOnlyMany]", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-access-mode-unavailable" + of}},
		{"other labels", scenetest.JoinDocs(local, volume("volumeMode: Filesystem", "Available"), claim("storageClassName: local, selector: {matchLabels: {disk: hdd}}", "Pending")), nil, []string{"pvc-selector-unmatched" + of}},
		{"another volume mode", scenetest.JoinDocs(local, volume("volumeMode: Block", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"a class that only a volume bears", scenetest.JoinDocs(volume("capacity: {storage: 1Gi}", "Available"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-size-unavailable" + of}},
		{"only a released volume", scenetest.JoinDocs(local, volume("claimRef: {namespace: shop, name: data, uid: old}", "Released"), claim("storageClassName: local", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"its volume is another's", scenetest.JoinDocs(local, volume("claimRef: {namespace: shop, name: other}", "Bound"), claim("storageClassName: local, volumeName: v1", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"its volume does not exist", scenetest.JoinDocs(local, volume("volumeMode: Filesystem", "Available"), claim("storageClassName: local, volumeName: v2", "Pending")), nil, []string{"pvc-unbound" + of}},
		{"its volume is too small", scenetest.JoinDocs(local, volume("capacity: {storage: 1Gi}", "Available"), claim("storageClassName: local, volumeName: v1", "Pending")), nil, []string{"pvc-size-unavailable" + of}},
		{"its volume is gone", scenetest.JoinDocs(fast, claim("storageClassName: fast, volumeName: v1", "Lost")), nil, []string{"pvc-volume-lost" + of}},

		{"bound", scenetest.JoinDocs(fast, claim("storageClassName: fast", "Bound"), said("ProvisioningFailed", "x", scenetest.Short)), nil, nil},
		{"just made", scenetest.JoinDocs(fast, young("storageClassName: fast"), said("ExternalProvisioning", waits, scenetest.Short)), nil, nil},
		{"waits for its first Pod", scenetest.JoinDocs(late, claim("storageClassName: late", "Pending")), nil, nil},
		{"its Pod finds no node", scenetest.JoinDocs(late, user, claim("storageClassName: late", "Pending")), nil, nil},
		{"about to be bound", scenetest.JoinDocs(local, volume("volumeMode: Filesystem", "Available"), claim("storageClassName: local", "Pending")), nil, nil},
		{"being deleted", scenetest.JoinDocs(fast, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, deletionTimestamp: %q}, spec: {storageClassName: gone}, status: {phase: Pending}}`, scenetest.Short)), nil, nil},
		{"the default class", scenetest.JoinDocs(class("std", `provisioner: d, metadata: {name: std, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, volumeBindingMode: WaitForFirstConsumer`), claim("volumeMode: Filesystem", "Pending")), nil, nil},
	}, "PersistentVolume")

	denied := scenecase{manifests: claim("storageClassName: fast", "Pending")}.scene(t)
	denied = scenetest.Unlisted(denied)
	checkScene(t, denied)

	s := scenecase{manifests: scenetest.JoinDocs(user, claim("storageClassName: fsat", "Pending"), fast)}.scene(t)
	db := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "db"}
	if n := ApplySceneRules(s)[0]; len(n.Affected) != 1 || n.Affected[0] != db {
		t.Errorf("affected %v", n.Affected)
	}
}

// The provisioner that is away is what to look at first.
func TestClaimNeedsItsProvisioner(t *testing.T) {
	s := scenetest.New(t, scenetest.JoinDocs(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: std}, provisioner: rancher.io/local-path}`,
		fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, creationTimestamp: %q}, spec: {storageClassName: std, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`, scenetest.Now.Add(-time.Hour).Format(time.RFC3339)),
		`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: local-path-provisioner}, spec: {template: {spec: {containers: [{name: p, args: [start]}]}}}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: other}, spec: {template: {spec: {containers: [{name: p}]}}}}`))
	want := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "local-path-provisioner"}
	if n := ApplySceneRules(s)[0]; len(n.DependsOn) != 1 || n.DependsOn[0] != want {
		t.Errorf("depends on %v", n.DependsOn)
	}
}
