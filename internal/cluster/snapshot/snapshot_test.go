package snapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

const (
	podCart = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart-1","namespace":"shop","labels":{"app":"cart"},"resourceVersion":"7","creationTimestamp":"2026-11-20T03:00:00Z"},
		"spec":{"nodeName":"n1","containers":[{"name":"app","image":"cart:1"}]},"status":{"phase":"Running","containerStatuses":[
		{"name":"app","containerID":"x://1","restartCount":2,"ready":true,"state":{"running":{"startedAt":"2026-11-20T03:04:05Z"}},"lastState":{"terminated":{"exitCode":1}}}]}}`
	podWeb = `{"metadata":{"name":"web-1","namespace":"shop"},"spec":{"containers":[{"name":"app"},{"name":"proxy"}]},"status":{"phase":"Pending"}}`
	event  = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"cart-1.1","namespace":"shop"},"type":"Warning","reason":"BackOff","source":{"component":"kubelet"},
		"lastTimestamp":"2026-11-20T03:06:00Z","involvedObject":{"kind":"Pod","name":"cart-1","namespace":"shop"},"message":"Back-off restarting failed container"}`
)

func list(kind string, items ...string) string {
	return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
}

// forms are directories as tools and people leave them. All tell of the same two
// Pods, and of a log.
var forms = map[string]map[string]string{
	"ours": {
		"snapshot.json":                             `{"cluster":"prod","capturedAt":"2026-11-20T03:06:00Z","namespaces":["shop"],"notCaptured":[{"what":"nodes","why":"forbidden"}]}`,
		"objects/any/name.json":                     list("List", podCart, event, `{"apiVersion":"v1","kind":"Pod",`+podWeb[1:]),
		"logs/shop/cart-1/app.log":                  "one\ntwo\nthree\n",
		"logs/shop/cart-1/app.previous.log":         "boom\n",
		"logs/shop/cart-0/app.log":                  "of a Pod that is gone\n",
		"objects/" + strings.Repeat("d/", 3) + "x/": "",
	},
	"kubectl cluster-info dump": {
		"nodes.json":           list("NodeList", `{"metadata":{"name":"n1"}}`),
		"shop/pods.json":       list("PodList", podCart, podWeb),
		"shop/events.json":     list("EventList", event),
		"shop/services.json":   `{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":null}`,
		"shop/cart-1/logs.txt": "==== START logs for container app of pod shop/cart-1 ====\none\ntwo\nthree\n==== END logs for container app of pod shop/cart-1 ====\n",
		"shop/web-1/logs.txt":  "==== START logs for container app of pod shop/web-1 ====\n==== END logs for container app of pod shop/web-1 ====\n",
	},
	"kubectl cluster-info dump -o yaml": {
		"shop/pods.yaml":       yamlOf(list("PodList", podCart, podWeb)),
		"shop/events.yaml":     yamlOf(list("EventList", event)),
		"shop/cart-1/logs.txt": "==== START logs for container app of pod shop/cart-1 ====\none\ntwo\nthree\n",
	},
	"flat": {
		"pods.json":   list("List", podCart, `{"apiVersion":"v1","kind":"Pod",`+podWeb[1:]),
		"events.json": event + "\n" + event,
		"cart-1.log":  "one\ntwo\nthree\n",
	},
	"flat, a file for each container": {
		"all.yaml":                 "# by hand\n---\n" + yamlOf(podCart) + "---\n" + yamlOf(list("PodList", podWeb)) + "---\n" + yamlOf(event) + "---\n",
		"cart-1_app.log":           "one\ntwo\nthree\n",
		"web-1_proxy-previous.log": "",
	},
	"nested, twice, the older one last": {
		"a.json":                   list("List", list("List", podCart), list("PodList", podWeb)),
		"b.json":                   list("List", event, strings.NewReplacer(`"7"`, `"6"`, "cart:1", "cart:0").Replace(podCart)),
		"logs/shop_cart-1_app.log": "one\ntwo\nthree\n",
	},
	"events of the newer API": {
		"pods.json": list("PodList", podCart, podWeb),
		"events.json": `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e","namespace":"shop"},"type":"Warning","reason":"BackOff","eventTime":"2026-11-20T03:06:00.000000Z",
			"regarding":{"kind":"Pod","name":"cart-1","namespace":"shop"},"note":"Back-off restarting failed container","reportingController":"kubelet"}`,
		"logs/cart-1/app.log": "one\ntwo\nthree\n",
	},
}

func yamlOf(doc string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(doc) + "\n" } // JSON is YAML

func read(t *testing.T, files map[string]string) *snapshot.Snapshot {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := snapshot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// names lists the objects that a selection gives.
func names(t *testing.T, s *snapshot.Snapshot, kind, ns, labels, fields string) string {
	t.Helper()
	raw, err := s.Client().List(t.Context(), kind, ns, labels, fields, 0)
	if err != nil {
		return string(nightcrier.CodeOf(err))
	}
	var l struct {
		Kind  string
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(raw, &l); err != nil || l.Kind != kind+"List" {
		t.Fatalf("list %s: %v, %s", kind, err, raw)
	}
	var all []string
	for _, item := range l.Items {
		all = append(all, item.Metadata.Name)
	}
	return strings.Join(all, " ")
}

func TestForms(t *testing.T) {
	for name, files := range forms {
		t.Run(name, func(t *testing.T) {
			s := read(t, files)
			if got := names(t, s, "Pod", "shop", "", ""); got != "cart-1 web-1" {
				t.Errorf("the Pods are %q", got)
			}
			if got := names(t, s, "Event", "", "", "involvedObject.kind=Pod,involvedObject.name=cart-1,type!=Normal,source=kubelet"); len(strings.Fields(got)) != 1 {
				t.Errorf("the events about cart-1 are %q", got)
			}
			if want := time.Date(2026, 11, 20, 3, 6, 0, 0, time.UTC); !s.CapturedAt.Equal(want) {
				t.Errorf("it is of %s, want %s", s.CapturedAt, want)
			}
			log, err := s.Client().Logs(t.Context(), "shop", "cart-1", "app", false, 2, 0)
			if err != nil || string(log) != "two\nthree\n" {
				t.Errorf("the log is %q, %v; notes %v", log, err, s.NotCaptured)
			}
			pod, err := s.Client().Get(t.Context(), nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-1"})
			if err != nil || !strings.Contains(string(pod), "cart:1") {
				t.Errorf("the newer of two is not taken: %s, %v", pod, err)
			}
			if got := names(t, s, "Namespace", "", "", ""); got != "shop" {
				t.Errorf("the namespaces are %q", got)
			}
		})
	}
}

// What nobody recorded is forbidden; what was recorded and is not there is missing.
func TestNotCaptured(t *testing.T) {
	ours, dump := read(t, forms["ours"]), read(t, forms["kubectl cluster-info dump"])
	for _, c := range []struct {
		s              *snapshot.Snapshot
		kind, ns, want string
	}{
		{ours, "Node", "", "refused"},
		{ours, "ConfigMap", "shop", ""},
		{ours, "Pod", "shop", "cart-1 web-1"},
		{ours, "Pod", "other", "refused"},
		{dump, "Node", "", "n1"},
		{dump, "ConfigMap", "shop", "refused"},
		{dump, "Service", "shop", ""},
	} {
		if got := names(t, c.s, c.kind, c.ns, "", ""); got != c.want {
			t.Errorf("%s in %q of %v: %q, want %q", c.kind, c.ns, c.s.Info, got, c.want)
		}
	}
	for key, want := range map[string]nightcrier.Code{"cart-1/app/true": "", "web-1/app/false": nightcrier.Invalid, "gone/app/false": nightcrier.NotFound, "cart-1/nobody/false": nightcrier.Invalid} {
		w := strings.Split(key, "/")
		_, err := ours.Client().Logs(t.Context(), "shop", w[0], w[1], w[2] == "true", 0, 0)
		if err == nil && want != "" || err != nil && nightcrier.CodeOf(err) != want {
			t.Errorf("log %s: %v, want %s", key, err, want)
		}
	}
	if _, err := dump.Client().Logs(t.Context(), "shop", "cart-1", "app", true, 0, 0); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("a log that was not recorded: %v", err)
	}
}

// The values of Secrets are nowhere, their keys are.
func TestSecrets(t *testing.T) {
	s := read(t, map[string]string{"secrets.yaml": `
apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: shop
  annotations: {kubectl.kubernetes.io/last-applied-configuration: 'canary-1'}
data: {password: Y2FuYXJ5LTI=}
stringData: {user: canary-3}
`})
	raw, err := s.Client().Read(t.Context(), "/api/v1/namespaces/shop/secrets/db", nil, "", 0)
	if err != nil || !strings.Contains(string(raw), `"data":{"password":"","user":""}`) {
		t.Errorf("the keys of the Secret are not there: %s, %v", raw, err)
	}
	meta, err := s.Client().Get(t.Context(), nightcrier.Resource{Kind: "Secret", Namespace: "shop", Name: "db"})
	if err != nil || !strings.Contains(string(meta), `"f:data":{"f:password":{},"f:user":{}}`) {
		t.Errorf("its metadata does not tell the keys: %s, %v", meta, err)
	}
	for _, body := range [][]byte{raw, meta} {
		if strings.Contains(string(body), "canary") || strings.Contains(string(body), "Y2FuYXJ5") {
			t.Errorf("a value of the Secret is in %s", body)
		}
	}
}

// A directory is hostile: what leads out of it, blocks, or is broken is noted.
func TestHostileDirectories(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside.json")
	put := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(outside, strings.ReplaceAll(podCart, "cart-1", "stolen"))
	put(filepath.Join(dir, "pods.json"), podCart)
	put(filepath.Join(dir, "broken.json"), podCart[:40])
	put(filepath.Join(dir, "bomb.yaml"), "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n")
	put(filepath.Join(dir, "odd.json"), `{"kind":"Pod","apiVersion":"v1","Metadata":{"name":"x"}} {"kind":"\u001b[31mPod","apiVersion":"a/b/c","metadata":{"name":"y"}} [] 5 {"metadata":{"name":"z"}}`)
	put(filepath.Join(dir, "deep.json"), strings.Repeat(`{"kind":"List","items":[`, 50)+podCart+strings.Repeat("]}", 50))
	if err := os.Symlink(outside, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, s, "Pod", "", "", ""); got != "cart-1" {
		t.Errorf("the Pods are %q", got)
	}
	noted := ""
	for _, n := range s.NotCaptured {
		noted += n.What + ": " + n.Why + "\n"
	}
	for _, want := range []string{"broken.json: line 1", "link.json", "bomb.yaml", "odd.json", "deep.json: "} {
		if !strings.Contains(noted, want) {
			t.Errorf("%s is not noted in:\n%s", want, noted)
		}
	}
	if strings.Contains(noted, "\x1b") {
		t.Errorf("control characters get through: %q", noted)
	}
}

func TestNothingToOpen(t *testing.T) {
	for name, fsys := range map[string]fstest.MapFS{
		"no objects":   {"readme.md": {Data: []byte("x")}},
		"broken info":  {"snapshot.json": {Data: []byte("{")}, "pods.json": {Data: []byte(podCart)}},
		"broken times": {"snapshot.json": {Data: []byte(`{"capturedAt":"yesterday"}`)}, "pods.json": {Data: []byte(podCart)}},
		"not a file":   {},
	} {
		if _, err := snapshot.Read(fsys); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := snapshot.Open(filepath.Join(t.TempDir(), "none")); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// Saved and opened again, a snapshot is the same; shifted, it is of another time.
func TestSaveAndShift(t *testing.T) {
	for name, files := range forms {
		s := read(t, files)
		dir := filepath.Join(t.TempDir(), "a", "snap")
		if err := s.Save(dir, false); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Save(dir, false); nightcrier.CodeOf(err) != nightcrier.Conflict {
			t.Errorf("%s: written over: %v", name, err)
		}
		if err := s.Save(dir, true); err != nil {
			t.Errorf("%s: not replaced: %v", name, err)
		}
		again, err := snapshot.Open(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now := s.CapturedAt.Add(100 * time.Hour)
		for _, s := range []*snapshot.Snapshot{again, again.Shift(now).Shift(s.CapturedAt)} {
			pod, err := s.Client().Get(t.Context(), nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-1"})
			if err != nil || !strings.Contains(string(pod), `"startedAt":"2026-11-20T03:04:05Z"`) {
				t.Errorf("%s: %s, %v", name, pod, err)
			}
		}
		pod, err := again.Shift(now).Client().Get(t.Context(), nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-1"})
		if err != nil || !strings.Contains(string(pod), `"startedAt":"2026-11-24T07:04:05Z"`) {
			t.Errorf("%s is not shifted: %s, %v", name, pod, err)
		}
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(t, forms["ours"]).Save(full, true); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("a directory of other things is written over: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, files := range forms {
		for name, text := range files {
			if !strings.HasSuffix(name, "/") {
				f.Add(name, []byte(text))
			}
		}
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		s, err := snapshot.Read(fstest.MapFS{"pods.json": {Data: []byte(podCart)}, "x/" + filepath.Base(name): {Data: data}, "y.yaml": {Data: data}, "z.log": {Data: data}})
		if err != nil {
			return
		}
		if _, err := s.Shift(time.Unix(1_800_000_000, 0)).Client().List(t.Context(), "Pod", "", "", "", 500); err != nil {
			t.Fatal(err)
		}
	})
}

// What names say becomes a path nowhere. It is apart from FuzzRead because a disk
// is a hundred times slower than a parser, and minimizing an input takes thousands
// of runs.
func FuzzSave(f *testing.F) {
	f.Add("shop", "cart-1", "app")
	f.Add("..", "../../x", "/etc/passwd")
	f.Add("", "a/../../b", "\x00")
	f.Fuzz(func(t *testing.T, namespace, pod, container string) {
		object, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]string{"namespace": namespace, "name": pod},
			"spec": map[string]any{"containers": []any{map[string]string{"name": container}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Read(fstest.MapFS{"pods.json": {Data: object}, "cart-1.log": {Data: []byte("up")}})
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := s.Save(filepath.Join(dir, "out"), false); err != nil {
			t.Fatal(err)
		}
		if made, err := os.ReadDir(dir); err != nil || len(made) != 1 {
			t.Errorf("it wrote beside its directory: %v, %v", made, err)
		}
	})
}

// large is a snapshot of so many Pods in one namespace.
func large(n int) fstest.MapFS {
	var pods []string
	for i := range n {
		pods = append(pods, strings.ReplaceAll(podCart, "cart-1", fmt.Sprintf("cart-%05d", i)))
	}
	return fstest.MapFS{"pods.json": {Data: []byte(list("PodList", pods...))}}
}

func BenchmarkOpen(b *testing.B) {
	files := large(5000)
	for b.Loop() {
		if _, err := snapshot.Read(files); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	s, err := snapshot.Read(large(5000))
	if err != nil {
		b.Fatal(err)
	}
	for name, fields := range map[string]string{"500 of 5000": "", "one of 5000": "metadata.name=cart-04999"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Client().List(b.Context(), "Pod", "shop", "app=cart", fields, 500); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A long list comes in pages, each object once.
func TestPages(t *testing.T) {
	s, err := snapshot.Read(large(1203))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	_, err = s.Client().ListEach(t.Context(), kube.Selection{Kind: "Pod", Namespace: "shop"}, func(object []byte) error {
		var pod struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(object, &pod); err != nil {
			return err
		}
		if seen[pod.Metadata.Name] {
			t.Errorf("%s came twice", pod.Metadata.Name)
		}
		seen[pod.Metadata.Name] = true
		return nil
	})
	if err != nil || len(seen) != 1203 {
		t.Errorf("%d Pods came, %v", len(seen), err)
	}
}

// A watch tells what there is, and stays open until the caller leaves.
func TestWatch(t *testing.T) {
	s := read(t, forms["flat"])
	ctx, leave := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://snapshot/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", nil)
	resp, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	in := json.NewDecoder(resp.Body)
	for _, want := range []string{"ADDED cart-1", "ADDED web-1", "BOOKMARK "} {
		var e struct {
			Type   string
			Object struct{ Metadata struct{ Name string } }
		}
		if err := in.Decode(&e); err != nil || e.Type+" "+e.Object.Metadata.Name != want {
			t.Errorf("it tells %v, %v; want %s", e, err, want)
		}
	}
	leave()
	if _, err := in.Token(); err == nil {
		t.Error("it goes on when nobody listens")
	}
}
