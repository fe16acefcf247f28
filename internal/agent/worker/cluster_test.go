package worker

import (
	"bytes"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// canary is the token of the cluster's credential: it must be seen nowhere.
const canary = "canary-token-of-the-cluster-5f1c"

// realCluster is a real API server behind a door that opens for the canary, with
// an administrator's rights, and remembers who came.
type realCluster struct {
	*kubetest.Server
	cred *backend.Credential

	mu   sync.Mutex
	seen []string // "GET /api/…"
}

func newCluster(t *testing.T) *realCluster {
	t.Helper()
	c := &realCluster{Server: kubetest.Start(t)}
	admin, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: admin, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}
	door := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.seen = append(c.seen, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+canary {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: door.Certificate().Raw})
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: door.URL, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: canary}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	c.cred = &backend.Credential{Kubeconfig: raw}
	return c
}

func (c *realCluster) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// onlyReads checks that nothing else came through to the API server.
func (c *realCluster) onlyReads(t *testing.T) {
	t.Helper()
	if len(c.requests()) == 0 {
		t.Error("nothing reached the API server")
	}
	for _, r := range c.requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("%s reached the API server", r)
		}
	}
}

// nowhere looks for the canary in everything that was written.
func (b *bench) nowhere(t *testing.T, secrets ...string) {
	t.Helper()
	b.must(filepath.WalkDir(filepath.Dir(b.ws), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, s := range secrets {
			if strings.Contains(string(data), s) {
				t.Errorf("%q stands in %s", s, path)
			}
		}
		return err
	}))
}

// requestsOf returns what the journal says of the guard: decisions and outcomes.
func requestsOf(t *testing.T, entries []nightcrier.JournalEntry) (list []journal.Request) {
	t.Helper()
	for _, e := range entries {
		r, err := journal.RequestOf(e)
		if err != nil {
			t.Fatal(err)
		}
		if r != nil {
			list = append(list, *r)
		}
	}
	return list
}

func find(list []journal.Request, verb, resource string, done bool) *journal.Request {
	i := slices.IndexFunc(list, func(r journal.Request) bool {
		return r.Verb == verb && r.Resource == resource && r.Done == done
	})
	if i < 0 {
		return nil
	}
	return &list[i]
}

// look is what an agent tries: reads, writes, secrets, and where it is.
const look = `
kubectl get pods
kubectl get pod cart -o json > "$OUTPUT_DIR/cart.json"
kubectl delete pod cart --now; echo "delete ended with $?"
kubectl get secret api -o yaml
env > "$OUTPUT_DIR/env"
cat /proc/*/environ /proc/*/cmdline > "$OUTPUT_DIR/proc" 2>/dev/null
grep server: "$KUBECONFIG"
`

func TestAnAgentLooksThroughTheGuard(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, require := range map[string]string{"namespaces": agent.RequireBestEffort, "without namespaces": agent.RequireNone} {
		t.Run(name, func(t *testing.T) {
			ns := c.Namespace(t)
			c.Pod(t, ns, "cart", nil)
			c.secret(t, ns)
			b := newBench(t, look)
			b.spec.Namespace, b.spec.Require = ns, require
			b.sec = backend.Secrets{Cluster: c.cred, MaskKey: []byte("0123456789abcdef0123456789abcdef"), MaskValues: []string{"value-that-we-hold"}}
			b.prepared(t)
			r, entries := b.run()
			log := text(entries)
			if r.State != nightcrier.StateSuccess {
				t.Fatalf("result %+v\n%s", r, log)
			}
			for _, want := range []string{"cart", "delete ended with 1", "127.0.0.1:"} {
				if !strings.Contains(log, want) {
					t.Errorf("agent.log lacks %q:\n%s", want, log)
				}
			}
			list := requestsOf(t, entries)
			before, after, denied := find(list, "list", "pods", false), find(list, "list", "pods", true), find(list, "delete", "pods", true)
			switch {
			case before == nil || after == nil || before.ID != after.ID || before.Decision != journal.Allow:
				t.Errorf("the read is journaled as %+v and %+v", before, after)
			case after.Status != 200 || after.Bytes == 0 || after.Namespace != ns:
				t.Errorf("outcome %+v", after)
			case !strings.Contains(log, "Warning: evidence "+after.Evidence):
				t.Errorf("the agent was not told of %s:\n%s", after.Evidence, log)
			case denied == nil || denied.Decision != journal.Deny || denied.Name != "cart" || denied.Reason == "":
				t.Errorf("the write is journaled as %+v\n%s", denied, log)
			}
			if after != nil {
				b.kept(t, after)
			}
			c.onlyReads(t)
			b.nowhere(t, canary, "hunter2-in-the-cluster", "aHVudGVyMi1pbi10aGUtY2x1c3Rlcg")
			b.verifies(t, entries)
			t.Logf("%d requests, layers %v", len(list), r.Layers)
		})
	}
}

func (c *realCluster) secret(t *testing.T, ns string) {
	t.Helper()
	c.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "api", Namespace: ns}, StringData: map[string]string{"password": "hunter2-in-the-cluster"}})
}

// prepared is the evidence of what was read before the agent: its ids come first.
func (b *bench) prepared(t *testing.T) {
	t.Helper()
	rec, err := evidence.Open(filepath.Join(b.ws, evidenceDir))
	b.must(err)
	_, err = rec.Record("event", "the event", []byte("{}"))
	b.must(err)
	b.must(rec.Close())
}

// kept checks that an answer is evidence, under an id after the preparation's.
func (b *bench) kept(t *testing.T, r *journal.Request) {
	t.Helper()
	rec, err := evidence.Open(filepath.Join(b.ws, evidenceDir))
	b.must(err)
	defer rec.Close()
	it, ok := rec.Item(r.Evidence)
	if !ok || r.Evidence == "E1" || it.SHA256 != r.SHA256 || it.Bytes != r.Bytes {
		t.Errorf("request %+v was kept as %+v", r, it)
	}
	if body, err := rec.Load(r.Evidence); err != nil || !strings.Contains(string(body), "cart") {
		t.Errorf("evidence %s: %v", r.Evidence, err)
	}
}

// verifies checks that the audit of these entries is whole.
func (b *bench) verifies(t *testing.T, entries []nightcrier.JournalEntry) audit.Summary {
	t.Helper()
	var log audit.Log
	for _, e := range entries {
		b.must(log.Add(e))
	}
	var file bytes.Buffer
	sum, err := log.Write(&file)
	b.must(err)
	if _, problems, err := audit.Verify(&file, sum.Head); err != nil || len(problems) > 0 {
		t.Errorf("the audit does not verify: %v, %v", problems, err)
	}
	return sum
}

// readers is a script that reads without end, several at a time.
const readers = `
for i in 1 2 3; do while :; do kubectl get pods > /dev/null 2>&1; done & done
echo up; wait
`

// A worker that is killed while its agent reads leaves an audit that is whole, and
// in it everything that the cluster was asked.
// The operator's triage script looks at a real cluster as an agent does, from the
// skill that it is part of, and has no way to a model.
func TestTheTriageScriptLooksThroughTheGuard(t *testing.T) {
	c := newCluster(t)
	ns := c.Namespace(t)
	c.Pod(t, ns, "cart", nil)
	b := newBench(t, "")
	skill := filepath.Join(t.TempDir(), "k8s-troubleshooter")
	b.must(os.MkdirAll(filepath.Join(skill, "scripts"), 0o755))
	b.must(os.MkdirAll(filepath.Join(skill, "lib"), 0o755))
	b.must(os.WriteFile(filepath.Join(skill, "lib", "more.sh"), []byte("echo sourced\n"), 0o644))
	path := filepath.Join(skill, "scripts", "incident_triage.sh")
	b.must(os.WriteFile(path, []byte("#!/bin/sh\n. \"$(dirname \"$0\")/../lib/more.sh\"\necho \"$# $1 model:${ANTHROPIC_API_KEY}${ANTHROPIC_BASE_URL}\"\n"+
		"kubectl get pods\nkubectl delete pod cart --now; echo \"delete ended with $?\"\n"), 0o755))
	b.spec.Executor, b.spec.ScriptPath, b.spec.Namespace, b.spec.Attempt = "triage-script", path, ns, 0
	b.spec.NoModel, b.spec.ReadPaths = true, []string{skill}
	b.sec = backend.Secrets{ModelAPIKey: "sk-real-key", Cluster: c.cred, MaskKey: []byte("0123456789abcdef0123456789abcdef")}
	r, entries := b.run()
	log := text(entries)
	if r.State != nightcrier.StateSuccess {
		t.Errorf("result %+v\n%s", r, log)
	}
	for _, want := range []string{"sourced", "1 --skip-dump model:\n", "cart", "delete ended with 1"} {
		if !strings.Contains(log, want) {
			t.Errorf("it printed no %q:\n%s", want, log)
		}
	}
	if read := find(requestsOf(t, entries), "list", "pods", true); read == nil || read.Status != 200 {
		t.Errorf("the read is journaled as %+v", read)
	}
	c.onlyReads(t)
	b.nowhere(t, canary, "sk-real-key")
}

func TestAKilledWorkerLeavesItsAudit(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := c.Namespace(t)
	b := newBench(t, readers)
	b.spec.Namespace, b.sec = ns, backend.Secrets{Cluster: c.cred}
	b.launch()
	b.await(func() bool { return len(c.requests()) > 20 })
	b.killWorker()
	r, entries := b.follow()
	if r.FailureClass != nightcrier.FailLost {
		t.Errorf("result %+v", r)
	}
	b.noneLeft()
	decided := map[string]int{}
	for _, q := range requestsOf(t, entries) {
		if !q.Done && q.Resource == "pods" {
			decided["GET /api/v1/namespaces/"+ns+"/pods"]++
		}
	}
	for _, got := range c.requests() {
		if _, known := decided[got]; known {
			decided[got]--
		}
	}
	for path, n := range decided {
		if n < 0 || n > 3 {
			t.Errorf("%s: %d more decisions than requests", path, n)
		}
	}
	if sum := b.verifies(t, entries); sum.Requests < 15 {
		t.Errorf("audit %+v", sum)
	}
	rec, err := evidence.Open(filepath.Join(b.ws, evidenceDir))
	b.must(err)
	defer rec.Close()
	for _, it := range rec.Items() {
		if _, err := rec.Load(it.ID); err != nil {
			t.Errorf("evidence after the crash: %v", err)
		}
	}
}

// What the agent asked while nobody followed is told to who comes later.
func TestAuditWithoutAServer(t *testing.T) {
	c := newCluster(t)
	b := newBench(t, `for i in 1 2 3 4 5; do kubectl get pods -o name; done; kubectl delete pod cart 2>&1; echo done`)
	b.spec.Namespace, b.sec = c.Namespace(t), backend.Secrets{Cluster: c.cred}
	b.launchElsewhere(b.has("exit.json"))
	_, entries := b.follow()
	list := requestsOf(t, entries)
	reads := slices.DeleteFunc(slices.Clone(list), func(r journal.Request) bool { return r.Resource != "pods" || !r.Done || r.Decision != journal.Allow })
	if len(reads) < 5 || find(list, "delete", "pods", true) == nil {
		t.Errorf("journal has %d reads:\n%s", len(reads), text(entries))
	}
	b.verifies(t, entries)
}

// The guard keeps what it shows; once it cannot, it shows nothing.
func TestFullEvidenceEndsTheAnswers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	b := newBench(t, `kubectl get namespaces -o name; echo "ended with $?"`)
	b.spec.Namespace, b.sec = c.Namespace(t), backend.Secrets{Cluster: c.cred}
	rec, err := evidence.Open(filepath.Join(b.ws, evidenceDir))
	b.must(err)
	for i := range evidence.MaxItems {
		_, err := rec.Record("object", strconv.Itoa(i), []byte("x"))
		b.must(err)
	}
	b.must(rec.Close())
	r, entries := b.run()
	log := text(entries)
	if r.State != nightcrier.StateSuccess || !strings.Contains(log, "ended with 1") || strings.Contains(log, "namespace/default") {
		t.Errorf("result %+v\n%s", r, log)
	}
	if n := strings.Count(log, "the evidence of this run is full"); n != 1 {
		t.Errorf("it was said %d times\n%s", n, log)
	}
}

// A credential that cannot be used costs the agent its eyes, not the run.
func TestAnUnusableCredentialIsSaid(t *testing.T) {
	b := newBench(t, `cat "$KUBECONFIG"`)
	b.sec = backend.Secrets{Cluster: &backend.Credential{Kubeconfig: []byte("contexts: []\n")}}
	r, entries := b.run()
	if log := text(entries); r.State != nightcrier.StateSuccess || !strings.Contains(log, "clusters: []") || !strings.Contains(log, "the agent cannot look into the cluster") {
		t.Errorf("result %+v\n%s", r, log)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	w := &worker{spec: &backend.Spec{Attempt: 1, Workspace: t.TempDir()}, log: slog.New(slog.DiscardHandler), mask: mask.New(nil), now: time.Now, stopped: make(chan struct{})}
	var err error
	if w.spool, err = workdir.OpenSpool(workdir.Dir(t.TempDir()), w.spec, w.now); err != nil {
		t.Fatal(err)
	}
	r, err := w.openRecords()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{records: r}
	ask := func(id int64, done bool) error {
		return c.auditRequest(t.Context(), guardkube.AuditRecord{ID: id, Decision: guardkube.Allow, Verb: "list", Resource: "pods", Namespace: "shop", Query: strings.Repeat("q", 4000), Done: done})
	}
	var n int64
	for ; err == nil; n++ {
		err = errors.Join(ask(n, false), ask(n, true))
	}
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || n < 500 {
		t.Errorf("after %d requests: %v", n, err)
	}
	written, _, _ := w.spool.CurrentProgress()
	for _, r := range []guardkube.AuditRecord{{Decision: guardkube.Allow}, {Decision: guardkube.Deny, Done: true}, {Decision: guardkube.Allow}} {
		if err := c.auditRequest(t.Context(), r); nightcrier.CodeOf(err) != nightcrier.Exhausted {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if more, _, _ := w.spool.CurrentProgress(); more > written+1024 || more > maxAudit {
		t.Errorf("the journal grew by %d to %d bytes", more-written, more)
	}
	r.close()
	if err := c.auditRequest(t.Context(), guardkube.AuditRecord{Decision: guardkube.Allow, Done: true}); nightcrier.CodeOf(err) != nightcrier.Interrupted {
		t.Errorf("after the end: %v", err)
	}
}

func TestSecretsOfACredential(t *testing.T) {
	cred := &backend.Credential{Kubeconfig: []byte("apiVersion: v1\nkind: Config\nusers:\n- {name: u, user: {token: tok, username: me, password: pass, client-key-data: S0VZ}}\n"),
		Env: []string{"AWS_SECRET_ACCESS_KEY=cloud", "AWS_PROFILE=p", "PATH=/bin"}}
	got := cred.Secrets()
	for _, want := range []string{"tok", "pass", "KEY", "cloud"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if slices.Contains(got, "p") || slices.Contains(got, "me") {
		t.Errorf("%q holds what is no secret", got)
	}
}
