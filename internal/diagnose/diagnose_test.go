package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// memory is a Recorder that keeps bodies for assertions.
type memory struct{ bodies, sources []string }

func (m *memory) Record(kind, source string, body []byte) (string, error) {
	m.bodies, m.sources = append(m.bodies, string(body)), append(m.sources, source)
	return fmt.Sprint("E", len(m.bodies)), nil
}

func (m *memory) load(id string) string {
	var n int
	if _, err := fmt.Sscanf(id, "E%d", &n); err != nil || n < 1 || n > len(m.bodies) {
		return ""
	}
	return m.bodies[n-1]
}

// cluster is a Reader of objects in memory.
type cluster struct {
	objects map[string]any // by "Kind/ns/name"
	logs    map[string]string
	fail    map[string]error // by kind
}

func (c *cluster) Get(_ context.Context, r nightcrier.Resource) ([]byte, error) {
	if err := c.fail[r.Kind]; err != nil {
		return nil, err
	}
	obj, ok := c.objects[r.Kind+"/"+r.Namespace+"/"+r.Name]
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "get %s: not found", r)
	}
	return json.Marshal(obj)
}

func (c *cluster) List(_ context.Context, kind, ns, _, fields string, _ int) ([]byte, error) {
	if err := c.fail[kind]; err != nil {
		return nil, err
	}
	items := []any{}
	for key, obj := range c.objects {
		if !strings.HasPrefix(key, kind+"/"+ns) {
			continue
		}
		if e, ok := obj.(*corev1.Event); ok && fields != "" && !strings.Contains(fields, "involvedObject.name="+e.InvolvedObject.Name) {
			continue
		}
		items = append(items, obj)
	}
	return json.Marshal(map[string]any{"kind": "List", "items": items})
}

func (c *cluster) Logs(_ context.Context, ns, pod, container string, previous bool, _, _ int64) ([]byte, error) {
	l, ok := c.logs[fmt.Sprint(pod, "/", container, "/", previous)]
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "previous terminated container %q not found", container)
	}
	return []byte(l), nil
}

func (c *cluster) Permissions(context.Context, string) (map[string]any, error) {
	if err := c.fail["Permissions"]; err != nil {
		return nil, err
	}
	return map[string]any{"canWrite": "no"}, nil
}

func newCluster(objects ...metav1.Object) *cluster {
	c := &cluster{objects: map[string]any{}, logs: map[string]string{}, fail: map[string]error{}}
	for _, o := range objects {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
		c.objects[kind+"/"+o.GetNamespace()+"/"+o.GetName()] = o
	}
	return c
}

func input(reader collect.Reader, target nightcrier.Resource) (collect.Input, *memory) {
	m := &memory{}
	return collect.Input{
		Incident: &nightcrier.Incident{ID: nightcrier.NewID(), Cluster: "prod-1", Resource: target, Severity: nightcrier.Critical},
		Event:    nightcrier.Event{ID: "e1", Cluster: "prod-1", FaultType: "CrashLoop", Resource: target, Context: "restart count: 5"},
		Reader:   reader, Evidence: m, Now: func() time.Time { return scenetest.Now },
	}, m
}

func run(t *testing.T, in collect.Input) Diagnosis {
	t.Helper()
	d, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCrashLoopIsReportedWithItsLog(t *testing.T) {
	c := newCluster(scenetest.Pod(scenetest.Crashing(3, "Error", time.Second)))
	c.logs["cart/app/true"] = "starting\nFATAL: cannot connect to db:5432: connection refused\nbye\n"
	in, m := input(c, scenetest.CartPod)
	d := run(t, in)
	r := d.Report
	if r.Verdict != nightcrier.VerdictFault || r.RootCause == nil || r.RootCause.Cause != "dependency-refused" {
		t.Fatalf("verdict %s, cause %+v", r.Verdict, r.RootCause)
	}
	if !strings.Contains(r.RootCause.Summary, "exit code 3") || !strings.Contains(r.RootCause.Summary, "connection refused") {
		t.Errorf("summary %q", r.RootCause.Summary)
	}
	if len(d.Logs) != 1 || !d.Logs[0].Previous {
		t.Errorf("logs %+v", d.Logs)
	}
	for _, f := range r.Facts {
		if len(f.Evidence) != 1 || m.load(f.Evidence[0]) == "" {
			t.Errorf("%s %q cites %v, which was not recorded", f.ID, f.Text, f.Evidence)
		}
	}
}
