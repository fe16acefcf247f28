package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/check/eval"
)

// BenchmarkNamespace diagnoses a recorded namespace of 40 workloads of which some
// fail, asked for one workload and for all of it: from opening the snapshot to the
// report, within this process and as a command.
func BenchmarkNamespace(b *testing.B) {
	dir := recordNamespace(b, 40)
	for _, args := range [][]string{{"-n", "shop"}, {"deployment/app-01", "-n", "shop"}} {
		b.Run("command "+args[0], func(b *testing.B) {
			bin, home, used := binary(b), b.TempDir(), time.Duration(0)
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), bin, append([]string{"triage", "--snapshot", dir}, args...)...)
				cmd.Env = append(os.Environ(), "HOME="+home)
				out, err := cmd.CombinedOutput()
				if exit, told := errors.AsType[*exec.ExitError](err); err != nil && (!told || exit.ExitCode() != 1) {
					b.Fatalf("%v: %s", err, out)
				}
				used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	for _, target := range []string{"Namespace/shop", "Deployment/app-01"} {
		b.Run(target, func(b *testing.B) {
			before := cpuTime(b, os.Getpid())
			for b.Loop() {
				rep, err := eval.Diagnose(b.Context(), eval.Case{Name: target, Dir: dir, Target: target, Namespace: "shop"}, slog.New(slog.DiscardHandler))
				must(b, err)
				if rep.RootCause == nil {
					b.Fatalf("%s is not diagnosed: %s", target, rep.Verdict)
				}
			}
			b.ReportMetric(float64((cpuTime(b, os.Getpid())-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// recordNamespace writes a snapshot of a namespace with so many Deployments of three
// Pods, each with the Service, settings, Events and logs that such a workload has. Every
// fifth cannot reach the one before it.
func recordNamespace(b *testing.B, workloads int) string {
	b.Helper()
	dir := b.TempDir()
	n := &namespace{b: b, dir: dir, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	n.add("v1", "Namespace", "", "shop", nil, map[string]any{"status": map[string]any{"phase": "Active"}})
	for i := range 3 {
		n.add("v1", "Node", "", fmt.Sprintf("worker-%d", i), nil, map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastHeartbeatTime": n.at(0), "lastTransitionTime": n.at(24 * time.Hour)}},
		}})
	}
	for i := range workloads {
		n.addWorkload(i, i%5 == 1)
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": n.objects})
	must(b, err)
	n.write("objects/shop.json", string(list))
	n.write("snapshot.json", fmt.Sprintf(`{"cluster": "bench", "capturedAt": %q, "namespaces": ["shop"], "systemNamespaces": ["kube-system"]}`, n.at(0)))
	return dir
}

// namespace is a snapshot in the making.
type namespace struct {
	b       *testing.B
	dir     string
	now     time.Time
	objects []any
}

func (n *namespace) at(ago time.Duration) string { return n.now.Add(-ago).Format(time.RFC3339) }

func (n *namespace) write(name, content string) {
	path := filepath.Join(n.dir, name)
	must(n.b, os.MkdirAll(filepath.Dir(path), 0o755))
	must(n.b, os.WriteFile(path, []byte(content), 0o600))
}

// add adds an object that has existed for ten days, with the managed fields that an API
// server keeps of it.
func (n *namespace) add(api, kind, ns, name string, owner, fields map[string]any) {
	meta := map[string]any{
		"name": name, "uid": kind + "-" + name, "resourceVersion": "1", "creationTimestamp": n.at(240 * time.Hour), "labels": map[string]any{"app": strings.Join(strings.Split(name, "-")[:min(2, 1+strings.Count(name, "-"))], "-")},
		"managedFields": []any{map[string]any{
			"manager": "helm", "operation": "Update", "apiVersion": api, "time": n.at(240 * time.Hour), "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}, "f:selector": map[string]any{}, "f:template": map[string]any{"f:spec": map[string]any{"f:containers": map[string]any{}}}}},
		}},
	}
	if ns != "" {
		meta["namespace"] = ns
	}
	if owner != nil {
		meta["ownerReferences"] = []any{owner}
	}
	o := map[string]any{"apiVersion": api, "kind": kind, "metadata": meta}
	for k, v := range fields {
		o[k] = v
	}
	n.objects = append(n.objects, o)
}

func ownedBy(kind, name string) map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": kind + "-" + name, "controller": true}
}

// addWorkload adds a Deployment and all that belongs to it.
func (n *namespace) addWorkload(i int, fails bool) {
	name, needs := fmt.Sprintf("app-%02d", i), fmt.Sprintf("app-%02d", max(0, i-1))
	labels := map[string]any{"app": name}
	spec := map[string]any{
		"serviceAccountName": "default",
		"containers": []any{map[string]any{
			"name": name, "image": "registry.example.com/shop/" + name + ":1.4.2",
			"ports":          []any{map[string]any{"containerPort": 8080, "name": "http"}},
			"env":            settingsOf(name, needs),
			"envFrom":        []any{map[string]any{"configMapRef": map[string]any{"name": name}}},
			"resources":      map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "256Mi"}},
			"readinessProbe": map[string]any{"httpGet": map[string]any{"path": "/ready", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3},
		}},
	}
	ready := 3
	if fails {
		ready = 0
	}
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}
	n.add("apps/v1", "Deployment", "shop", name, nil, map[string]any{
		"spec":   map[string]any{"replicas": 3, "selector": map[string]any{"matchLabels": labels}, "template": template},
		"status": map[string]any{"replicas": 3, "updatedReplicas": 3, "readyReplicas": ready, "availableReplicas": ready, "unavailableReplicas": 3 - ready},
	})
	set := name + "-7d9f8b6c5d"
	n.add("apps/v1", "ReplicaSet", "shop", set, ownedBy("Deployment", name), map[string]any{
		"spec":   map[string]any{"replicas": 3, "selector": map[string]any{"matchLabels": labels}, "template": template},
		"status": map[string]any{"replicas": 3, "readyReplicas": ready},
	})
	n.add("v1", "Service", "shop", name, nil, map[string]any{"spec": map[string]any{
		"selector": labels, "clusterIP": fmt.Sprintf("10.96.1.%d", i), "ports": []any{map[string]any{"port": 80, "targetPort": "http", "protocol": "TCP"}},
	}})
	n.add("v1", "ConfigMap", "shop", name, nil, map[string]any{"data": map[string]any{"application.yaml": strings.Repeat("server:\n  upstream: http://"+needs+":80/api\n  timeout: 5s\n", 40)}})
	var endpoints []any
	for j := range 3 {
		endpoints = append(endpoints, n.addPod(i, j, set, spec, fails))
	}
	n.add("discovery.k8s.io/v1", "EndpointSlice", "shop", name+"-abcde", nil, map[string]any{
		"addressType": "IPv4", "endpoints": endpoints, "ports": []any{map[string]any{"port": 8080, "protocol": "TCP"}},
	})
	slice := n.objects[len(n.objects)-1].(map[string]any)["metadata"].(map[string]any)
	slice["labels"] = map[string]any{"kubernetes.io/service-name": name}
}

// settingsOf are the variables of a program that is traced and calls another.
func settingsOf(name, needs string) (env []any) {
	for _, v := range [][2]string{
		{"UPSTREAM", "http://" + needs + ":80"}, {"LEVEL", "info"}, {"PORT", "8080"}, {"FLAGS_HOST", "flags"}, {"FLAGS_PORT", "8013"},
		{"OTEL_SERVICE_NAME", name}, {"OTEL_COLLECTOR_NAME", "collector"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.observe.svc.cluster.local:4317"},
		{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative"}, {"OTEL_RESOURCE_ATTRIBUTES", "service.name=" + name + ",service.namespace=shop,service.version=1.4.2,k8s.cluster=bench"},
		{"KAFKA_ADDR", "kafka:9092"}, {"DB_CONNECTION", "host=postgres port=5432 sslmode=disable dbname=" + name}, {"JAVA_OPTS", "-Xmx200m -XX:+ExitOnOutOfMemoryError -Dfile.encoding=UTF-8"},
	} {
		env = append(env, map[string]any{"name": v[0], "value": v[1]})
	}
	return env
}

// addPod adds the j-th Pod of the i-th workload with its Events and logs, and returns its
// endpoint.
func (n *namespace) addPod(i, j int, set string, spec map[string]any, fails bool) map[string]any {
	app := set[:len("app-00")]
	pod, node, ip := fmt.Sprintf("%s-x%dk%d", set, i, j), fmt.Sprintf("worker-%d", j), fmt.Sprintf("10.244.%d.%d", j, i+2)
	container := map[string]any{"name": app, "ready": !fails, "started": true, "restartCount": 0, "image": "registry.example.com/shop/" + app + ":1.4.2", "imageID": "sha256:1", "state": map[string]any{"running": map[string]any{"startedAt": n.at(239 * time.Hour)}}}
	ready, log := "True", workLog(app, 400)
	if fails {
		ready, log = "False", workLog(app, 40)+fmt.Sprintf("ERROR cannot start: dial tcp 10.96.1.%d:80: connect: connection refused\n", max(0, i-1))
		container["restartCount"] = 57
		container["state"] = map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
		container["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "startedAt": n.at(4 * time.Minute), "finishedAt": n.at(3 * time.Minute)}}
		n.write(fmt.Sprintf("logs/shop/%s/%s.previous.log", pod, app), log)
		n.addEvent(pod, app, "Warning", "BackOff", "Back-off restarting failed container "+app+" in pod "+pod, 300)
	}
	n.write(fmt.Sprintf("logs/shop/%s/%s.log", pod, app), log)
	n.addEvent(pod, app, "Normal", "Pulled", "Container image already present on machine", 1)
	n.addEvent(pod, app, "Normal", "Created", "Created container: "+app, 1)
	n.addEvent(pod, app, "Normal", "Started", "Started container "+app, 1)
	placed := map[string]any{"nodeName": node}
	for k, v := range spec {
		placed[k] = v
	}
	n.add("v1", "Pod", "shop", pod, ownedBy("ReplicaSet", set), map[string]any{"spec": placed, "status": map[string]any{
		"phase": "Running", "podIP": ip, "startTime": n.at(239 * time.Hour), "containerStatuses": []any{container},
		"conditions": []any{
			map[string]any{"type": "PodScheduled", "status": "True", "lastTransitionTime": n.at(239 * time.Hour)},
			map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": n.at(4 * time.Minute)},
		},
	}})
	return map[string]any{"addresses": []any{ip}, "conditions": map[string]any{"ready": !fails}, "nodeName": node, "targetRef": map[string]any{"kind": "Pod", "name": pod, "namespace": "shop"}}
}

func (n *namespace) addEvent(pod, app, kind, reason, message string, count int) {
	n.add("v1", "Event", "shop", fmt.Sprintf("%s.%s", pod, strings.ToLower(reason)), nil, map[string]any{
		"involvedObject": map[string]any{"kind": "Pod", "namespace": "shop", "name": pod, "fieldPath": "spec.containers{" + app + "}"},
		"type":           kind, "reason": reason, "message": message, "count": count,
		"firstTimestamp": n.at(30 * time.Minute), "lastTimestamp": n.at(time.Minute), "source": map[string]any{"component": "kubelet"},
	})
}

// workLog is what a program logs that works, with an error now and then.
func workLog(app string, lines int) string {
	var log strings.Builder
	for i := range lines {
		if i%50 == 49 {
			fmt.Fprintf(&log, "2026-03-01T11:%02d:%02dZ WARN  request failed, trying again client=%s attempt=1\n", i/60%60, i%60, app)
			continue
		}
		fmt.Fprintf(&log, `{"time":"2026-03-01T11:%02d:%02d.123Z","level":"info","msg":"request complete","http.req.id":"7f0c5b0e-4d5c-4b52-9d35-1c5b%08d","http.req.method":"GET","http.req.path":"/api/orders/%d","http.resp.status":200,"http.resp.took_ms":%d,"session":"c2a1c7de-1c2f-4f0a-9f64-0a%010d","service":%q,"peer":"http://%s:80"}`+"\n", i/60%60, i%60, i, 1000+i, i%90, i, app, app)
	}
	return log.String()
}
