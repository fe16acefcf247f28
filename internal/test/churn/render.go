package churn

import (
	"encoding/json"
	"strings"
	"time"
)

type m = map[string]any

func (c *Cluster) encode(apiVersion, kind string, meta m, spec any, status m) []byte {
	meta["resourceVersion"] = c.version
	return marshal(m{"apiVersion": apiVersion, "kind": kind, "metadata": meta, "spec": spec, "status": status})
}

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of our own strings always marshal
	}
	return raw
}

func at(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func (p *pod) render(c *Cluster) []byte {
	meta := m{
		"name": p.name, "namespace": p.ns, "uid": p.uid, "creationTimestamp": at(p.created),
		"labels":        m{"app": p.owner, "team": "shop", "app.kubernetes.io/managed-by": "Helm"},
		"annotations":   m{"checksum/config": strings.Repeat("5f", 32)},
		"managedFields": []m{{"manager": "kubelet", "operation": "Update", "fieldsV1": m{"f:status": m{"f:conditions": m{"k:{\"type\":\"Ready\"}": m{".": m{}, "f:lastTransitionTime": m{}}}}}}},
	}
	kind, owner, apiVersion := p.ownerKind, p.owner, "apps/v1"
	switch kind {
	case "Deployment":
		kind, owner = "ReplicaSet", p.owner+"-"+p.hash
		meta["labels"].(m)["pod-template-hash"] = p.hash
	case "Job":
		apiVersion = "batch/v1"
	}
	meta["ownerReferences"] = []m{{"apiVersion": apiVersion, "kind": kind, "name": owner, "uid": "o-" + owner, "controller": true, "blockOwnerDeletion": true}}
	if !p.deleting.IsZero() {
		meta["deletionTimestamp"] = at(p.deleting)
	}
	return c.encode("v1", "Pod", meta, c.specOf(p), p.status())
}

// specOf is the Pod's spec, of which only the node differs between the Pods of a
// template.
func (c *Cluster) specOf(p *pod) json.RawMessage {
	template := p.owner + "/" + p.image
	if c.specs[template] == nil {
		c.specs[template] = marshal(p.spec())
	}
	node := marshal(p.node)
	return append([]byte(`{"nodeName":`+string(node)+`,`), c.specs[template][1:]...)
}

func (p *pod) spec() m {
	env := []m{}
	for _, name := range []string{"DATABASE_URL", "LOG_LEVEL", "REGION", "FEATURE_FLAGS", "QUEUE"} {
		env = append(env, m{"name": name, "valueFrom": m{"configMapKeyRef": m{"name": p.owner + "-config", "key": strings.ToLower(name)}}})
	}
	probe := m{"httpGet": m{"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
	return m{
		"serviceAccountName": "default", "restartPolicy": "Always", "schedulerName": "default-scheduler",
		"terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "priority": 0,
		"containers": []m{{
			"name": "app", "image": p.image, "env": env, "readinessProbe": probe, "livenessProbe": probe,
			"resources":    m{"requests": m{"cpu": "100m", "memory": "128Mi"}, "limits": m{"memory": "256Mi"}},
			"volumeMounts": []m{{"name": "config", "mountPath": "/etc/app"}, {"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}},
		}},
		"volumes": []m{{"name": "config", "configMap": m{"name": p.owner + "-config", "defaultMode": 420}},
			{"name": "kube-api-access", "projected": m{"defaultMode": 420, "sources": []m{{"serviceAccountToken": m{"expirationSeconds": 3607, "path": "token"}}}}}},
		"tolerations": []m{{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
			{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}},
	}
}

func (p *pod) status() m {
	s := m{"phase": p.phase, "qosClass": "Burstable"}
	ready := map[bool]string{true: "True", false: "False"}[p.ready]
	conds := []m{
		{"type": "Initialized", "status": "True", "lastTransitionTime": at(p.created)},
		{"type": "Ready", "status": ready, "lastTransitionTime": at(p.turned)},
		{"type": "ContainersReady", "status": ready, "lastTransitionTime": at(p.turned)},
	}
	switch {
	case p.scheduling != "":
		s["conditions"] = []m{{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": p.scheduling, "lastTransitionTime": at(p.created)}}
		return s
	case p.node == "":
		return s
	}
	conds = append(conds, m{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(p.scheduled)})
	if p.disruption != "" {
		conds = append(conds, m{"type": "DisruptionTarget", "status": "True", "reason": p.disruption, "lastTransitionTime": at(p.deleting)})
	}
	s["conditions"], s["startTime"], s["hostIP"], s["podIP"] = conds, at(p.scheduled), "10.0.0.1", "10.1.2.3"
	s["containerStatuses"] = []m{p.container()}
	return s
}

func (p *pod) container() m {
	st, last := m{}, m{}
	switch {
	case p.waiting != "":
		st["waiting"] = m{"reason": p.waiting}
	case p.ended != nil:
		st["terminated"] = p.ended.render()
	case p.running:
		st["running"] = m{"startedAt": at(p.began)}
	}
	if p.last != nil {
		last["terminated"] = p.last.render()
	}
	return m{
		"name": "app", "ready": p.ready, "started": p.running, "restartCount": p.restarts, "image": p.image,
		"imageID": "registry.example/team/app@sha256:" + strings.Repeat("ab", 32), "containerID": "containerd://" + strings.Repeat("cd", 32),
		"state": st, "lastState": last,
	}
}

func (e *ending) render() m {
	return m{"exitCode": e.code, "reason": e.reason, "startedAt": at(e.at.Add(-time.Minute)), "finishedAt": at(e.at)}
}

func (e *event) render(c *Cluster) []byte {
	return marshal(m{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       m{"name": e.name, "namespace": e.ns, "uid": e.uid, "creationTimestamp": at(e.first), "resourceVersion": c.version},
		"involvedObject": m{"apiVersion": "v1", "kind": e.involvedKind, "namespace": e.ns, "name": e.involved, "uid": e.involvedUID, "fieldPath": "spec.containers{app}"},
		"reason":         e.reason, "message": e.message, "type": e.typ, "count": e.count,
		"firstTimestamp": at(e.first), "lastTimestamp": at(e.last), "source": m{"component": "kubelet"},
	})
}
