package eval

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// noise is a workload that fails at what nobody else knows of, and what others of its
// namespace say in passing.
const noise = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "NS", "name": "sandpit", "uid": "sandpit-1", "creationTimestamp": "-720h", "labels": {"app": "sandpit"}},
 "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "sandpit"}}, "template": {"metadata": {"labels": {"app": "sandpit"}}, "spec": {"containers": [{"name": "sandpit", "image": "registry.example.com/lab/sandpit:3"}]}}},
 "status": {"replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1}},
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "NS", "name": "sandpit-5f7b9c8d66", "uid": "sandpit-2", "creationTimestamp": "-720h", "labels": {"app": "sandpit", "pod-template-hash": "5f7b9c8d66"},
  "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "sandpit", "uid": "sandpit-1", "controller": true}]},
 "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "sandpit", "pod-template-hash": "5f7b9c8d66"}}, "template": {"metadata": {"labels": {"app": "sandpit", "pod-template-hash": "5f7b9c8d66"}}, "spec": {"containers": [{"name": "sandpit", "image": "registry.example.com/lab/sandpit:3"}]}}},
 "status": {"replicas": 1}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "NS", "name": "sandpit-5f7b9c8d66-q4w8z", "uid": "sandpit-3", "creationTimestamp": "-720h", "labels": {"app": "sandpit", "pod-template-hash": "5f7b9c8d66"},
  "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "sandpit-5f7b9c8d66", "uid": "sandpit-2", "controller": true}]},
 "spec": {"nodeName": "worker-1", "containers": [{"name": "sandpit", "image": "registry.example.com/lab/sandpit:3"}]},
 "status": {"phase": "Running", "startTime": "-720h", "podIP": "10.255.255.9", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "-720h"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "-2h"}],
  "containerStatuses": [{"name": "sandpit", "ready": false, "restartCount": 41, "image": "registry.example.com/lab/sandpit:3", "imageID": "sandpit@sha256:0", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=sandpit"}},
   "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "-4m", "finishedAt": "-3m"}}}]}},
{"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "NS", "name": "sandpit.1", "uid": "sandpit-4", "creationTimestamp": "-2h"}, "involvedObject": {"kind": "Pod", "namespace": "NS", "name": "sandpit-5f7b9c8d66-q4w8z", "uid": "sandpit-3", "fieldPath": "spec.containers{sandpit}"},
 "type": "Warning", "reason": "BackOff", "message": "Back-off restarting failed container sandpit in pod sandpit-5f7b9c8d66-q4w8z_NS(sandpit-3)", "count": 200, "firstTimestamp": "-2h", "lastTimestamp": "-1m", "source": {"component": "kubelet", "host": "worker-1"}},
{"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "NS", "name": "gone.1", "uid": "sandpit-5", "creationTimestamp": "-50m"}, "involvedObject": {"kind": "Pod", "namespace": "NS", "name": "report-28123440-zzx2v", "uid": "sandpit-6"},
 "type": "Warning", "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"scratch\" : object not registered", "count": 1, "firstTimestamp": "-50m", "lastTimestamp": "-50m", "source": {"component": "kubelet", "host": "worker-1"}}
]}`

// writeNoise adds trouble to a recording of which nothing in it depends.
func writeNoise(dir, namespace string, now time.Time) error {
	text := strings.ReplaceAll(noise, `"NS"`, fmt.Sprintf("%q", namespace))
	for _, ago := range []time.Duration{720 * time.Hour, 2 * time.Hour, 50 * time.Minute, 4 * time.Minute, 3 * time.Minute, time.Minute} {
		short := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(ago.String())
		text = strings.ReplaceAll(text, `"-`+short+`"`, fmt.Sprintf("%q", now.Add(-ago).UTC().Format(time.RFC3339)))
	}
	if err := writeFile(filepath.Join(dir, "objects", "noise-of-gate.json"), []byte(text)); err != nil {
		return err
	}
	log := "sandpit 3 starting\nplan: 7 castles\nFATAL: castle 4 is wider than the sandpit\n"
	return writeFile(filepath.Join(dir, "logs", namespace, "sandpit-5f7b9c8d66-q4w8z", "sandpit.previous.log"), []byte(log))
}
