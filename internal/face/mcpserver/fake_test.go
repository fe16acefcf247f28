package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
)

// fake is a scripted cluster: Pods that are listed, changes that are pushed.
type fake struct {
	mu      sync.Mutex
	down    error
	silent  bool
	listed  []string // Pods
	labels  map[string]string
	answers map[string]string // by path
	watches int
	changed chan struct{} // closed and renewed at each change of watches

	pods, events chan string
}

func newFake() *fake {
	return &fake{changed: make(chan struct{}), pods: make(chan string), events: make(chan string)}
}

func (f *fake) cluster(name string) mcpserver.Cluster {
	return mcpserver.Cluster{Name: name, API: f, Tools: kubetool.New(kubetool.Config{Reader: f, Cluster: name})}
}

func (f *fake) answer(ctx context.Context) error {
	f.mu.Lock()
	down, silent := f.down, f.silent
	f.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return down
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) ListEach(ctx context.Context, sel kube.Selection, each func([]byte) error) (string, error) {
	if err := f.answer(ctx); err != nil {
		return "", err
	}
	if sel.Kind == "Pod" {
		f.mu.Lock()
		listed := f.listed
		f.mu.Unlock()
		for _, p := range listed {
			if err := each([]byte(p)); err != nil {
				return "", err
			}
		}
	}
	return "1", nil
}

func (f *fake) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches += n
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits until so many watches stand.
func (f *fake) await(t testing.TB, fits func(watches int) bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		n, changed := f.watches, f.changed
		f.mu.Unlock()
		if fits(n) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%d watches stand", n)
		}
	}
}

func (f *fake) Watch(ctx context.Context, sel kube.Selection, rv string, _ time.Duration, each func(kube.Change) error) error {
	if err := f.answer(ctx); err != nil {
		return err
	}
	f.count(1)
	defer f.count(-1)
	if err := each(kube.Change{Type: kube.Opened, ResourceVersion: rv}); err != nil {
		return err
	}
	var from chan string
	switch {
	case sel.Kind == "Pod":
		from = f.pods
	case sel.Kind == "Event" && sel.Fields == "":
		from = f.events
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			if err := f.answer(ctx); err != nil {
				return err
			}
		case object := <-from:
			if err := each(kube.Change{Type: kube.Modified, Object: []byte(object), ResourceVersion: "2"}); err != nil {
				return err
			}
		}
	}
}

func (f *fake) Ready(context.Context) (bool, string, error) { return true, "", nil }

func (f *fake) List(ctx context.Context, _, _, _, _ string, _ int) ([]byte, error) {
	return []byte(`{"metadata":{"resourceVersion":"1"}}`), f.answer(ctx)
}

// Read is what the tools ask: discovery, and the labels of objects.
func (f *fake) Read(ctx context.Context, path string, _ url.Values, _ string, _ int64) ([]byte, error) {
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	switch path {
	case "/api":
		return []byte(`{"kind":"APIVersions"}`), nil
	case "/api/v1":
		return []byte(`{"resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get","list"]}]}`), nil
	case "/apis":
		return []byte(`{"kind":"APIGroupList","groups":[]}`), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if answer, ok := f.answers[path]; ok {
		return []byte(answer), nil
	}
	labels, ok := f.labels[path]
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "no %s", path)
	}
	return []byte(`{"metadata":{"labels":` + labels + `}}`), nil
}

// crashing is a Pod of its own that is in CrashLoopBackOff.
func crashing(name string) string {
	now := time.Now().UTC().Format(time.RFC3339)
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "shop", "uid": "uid-" + name, "creationTimestamp": now},
		"spec":     map[string]any{"nodeName": "n1"},
		"status": map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{
			"name": "app", "restartCount": 7,
			"state":     map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off"}},
			"lastState": map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}},
		}}},
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// push has the cluster show one more crash loop.
func (f *fake) push(t testing.TB, name string) {
	t.Helper()
	f.send(t, f.pods, crashing(name))
}

func (f *fake) send(t testing.TB, to chan string, object string) {
	t.Helper()
	select {
	case to <- object:
	case <-time.After(patience):
		t.Fatal("nobody watches")
	}
}

func event(reason, kind string) string {
	return fmt.Sprintf(`{"metadata":{"name":"e","namespace":"shop"},"type":%q,"reason":%q,"message":"m","count":3,"lastTimestamp":"2026-11-20T05:00:00Z","firstTimestamp":"2026-11-20T04:00:00Z","involvedObject":{"apiVersion":"v1","kind":"Pod","namespace":"shop","name":"cart"}}`, kind, reason)
}

func named(name string) func(notification) bool {
	return func(n notification) bool { return n.Resource.Name == name }
}
