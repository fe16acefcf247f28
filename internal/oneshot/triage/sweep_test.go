package triage

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
)

// outage is a cluster in which n Deployments crash, each by itself.
func outage(n int) string {
	var items []string
	add := func(format string, args ...any) { items = append(items, fmt.Sprintf(format, args...)) }
	for i := range n {
		name := fmt.Sprintf("app-%02d", i)
		add(`{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": %q, "namespace": "shop", "uid": "d%d", "creationTimestamp": "2026-01-02T02:00:00Z"},
			"spec": {"replicas": 1, "selector": {"matchLabels": {"app": %q}}}, "status": {"replicas": 1, "unavailableReplicas": 1}}`, name, i, name)
		add(`{"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "%s-5d4f", "namespace": "shop", "uid": "r%d", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": %q, "uid": "d%d", "controller": true}]},
			"spec": {"replicas": 1, "selector": {"matchLabels": {"app": %q}}}}`, name, i, name, i, name)
		add(`{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "%s-5d4f-x2x7q", "namespace": "shop", "labels": {"app": %q}, "creationTimestamp": "2026-01-02T02:00:00Z",
			"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "%s-5d4f", "uid": "r%d", "controller": true}]},
			"spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "registry.example/%s:1"}]},
			"status": {"phase": "Running", "startTime": "2026-01-02T02:00:00Z", "containerStatuses": [{"name": "app", "image": "registry.example/%s:1", "restartCount": 9,
				"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": %d, "reason": "Error", "finishedAt": "2026-01-02T03:00:00Z"}}}]}}`,
			name, name, name, i, name, name, i+1)
	}
	return `{"kind": "List", "apiVersion": "v1", "items": [` + strings.Join(items, ",") + `]}`
}

// waiting is a cluster in which n Deployments wait for one ConfigMap.
func waiting(n int) string {
	waits := strings.ReplaceAll(outage(n), `"reason": "CrashLoopBackOff"`, `"reason": "CreateContainerConfigError", "message": "configmap \"release\" not found"`)
	return strings.ReplaceAll(waits, `"restartCount": 9`, `"restartCount": 0`)
}

func TestSweep(t *testing.T) {
	record := func(cluster string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "all.json"), []byte(cluster), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := record(outage(SweepMost + 5))
	for name, tt := range map[string]struct {
		dir                  string
		found                []string
		unclear, most, fewer int // most and fewer bound how many are left
	}{
		"two roots, the worse first":      {"../../../eval/cases/cascade-two-roots", []string{"P2 Deployment shop/frontend", "P3 Job shop/thumbnails"}, 0, 0, 0},
		"what a node took with it":        {"../../../eval/cases/node-not-ready-cascade", []string{"P2 Node worker-2"}, 2, 0, 0},
		"well":                            {"../../../eval/cases/healthy-namespace", nil, 0, 0, 0},
		"more than are looked at by name": {dir, nil, 0, 5, 4},
		"many that lack the same":         {record(waiting(SweepMost + 5)), []string{"P2 ConfigMap shop/release"}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap, err := snapshot.Open(tt.dir)
			if err != nil {
				t.Fatal(err)
			}
			reads := 0
			s, err := Sweep(t.Context(), Options{Config: defaults(t), Logger: slog.New(slog.DiscardHandler), Version: "test", Executor: config.Builtin, Snapshot: snap,
				Progress: func(p Progress) { reads = max(reads, p.Reads) }})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, f := range s.Found {
				found = append(found, f.Report.Severity+" "+f.Report.RootCause.Object.String())
			}
			if tt.most == 0 && !slices.Equal(found, tt.found) || len(s.Unclear) != tt.unclear {
				t.Errorf("found %q, %d unclear", found, len(s.Unclear))
			}
			if n := len(s.Left); n > tt.most || n < tt.fewer || tt.most > 0 && len(found) != SweepMost+1 {
				t.Errorf("%d found, left %v", len(found), s.Left)
			}
			if s.Cut {
				t.Error("so few objects are not all that are named at most")
			}
			if reads == 0 {
				t.Error("no progress was told")
			}
		})
	}
}
