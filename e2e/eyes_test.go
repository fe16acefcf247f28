package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// clusterCanary is the credential of a cluster behind a door: seen nowhere else.
const clusterCanary = "canary-of-the-cluster-9c41"

// door lets whoever has the canary through to a real API server, with what a
// kubeconfig of that server may do, and remembers who came.
type door struct {
	kubeconfig string
	// stop closes it for good: the cluster cannot be reached any more.
	stop func()

	mu      sync.Mutex
	asked   []string
	guarded []string // those of them that a guard asked
	log     *gate    // that a log's reader waits at behind what there is; nil for none
}

// gate is where whoever comes waits until it is opened.
type gate struct {
	follows bool            // whether it stands before logs that are followed, or before all others
	reached chan url.Values // the query of the first who came
	opened  chan struct{}
	once    sync.Once
}

func (g *gate) wait(r *http.Request) {
	if g == nil {
		return
	}
	g.once.Do(func() { g.reached <- r.URL.Query() })
	select {
	case <-g.opened:
	case <-r.Context().Done():
	}
}

// holdLogs lets no log that a guard follows, or none that it reads, come to its end until
// release is called; held has the query of the first.
func (d *door) holdLogs(follows bool) (held <-chan url.Values, release func()) {
	g := &gate{follows: follows, reached: make(chan url.Values, 1), opened: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = g
	return g.reached, sync.OnceFunc(func() { close(g.opened) })
}

// pass notes a request, and says where its answer is held up.
func (d *door) pass(r *http.Request) *gate {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.Method+" "+r.URL.Path)
	if r.UserAgent() != guardkube.UserAgent {
		return nil
	}
	follows := r.URL.Query().Get("follow") == "true"
	if !follows { // which goes on with what was read for the same question
		d.guarded = append(d.guarded, r.Method+" "+r.URL.Path)
	}
	if d.log != nil && d.log.follows == follows && strings.HasSuffix(r.URL.Path, "/log") {
		return d.log
	}
	return nil
}

// byGuards lists what guards asked, without how they went on with a log.
func (d *door) byGuards() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.guarded)
}

func newDoor(t *testing.T, kubeconfig string) *door {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	behind, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	proxy := &httputil.ReverseProxy{Transport: behind, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}, ModifyResponse: func(r *http.Response) error {
		r.Header.Del("Content-Length") // what is held up has no end yet
		return nil
	}}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := d.pass(r)
		if r.Header.Get("Authorization") != "Bearer "+clusterCanary {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
		held.wait(r)
	}))
	t.Cleanup(srv.Close)
	d.stop = srv.Close
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: srv.URL, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: clusterCanary}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, d.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// writes lists what reached the API server and was no read. What a credential may
// do is asked by POST, in our own name.
func (d *door) writes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.asked), func(r string) bool {
		return strings.HasPrefix(r, "GET ") || strings.HasPrefix(r, "POST /apis/authorization.k8s.io/v1/selfsubject")
	})
}

// nowhereIn fails when a secret stands in a file below dir.
func (s *site) nowhereIn(dir, secret string) {
	s.Helper()
	in, err := placesOf(dir, secret)
	s.must(err)
	for _, path := range in {
		s.Errorf("%q stands in %s", secret, path)
	}
}

// placesOf are the files below dir in which a secret stands, in any form, packed or not.
func placesOf(dir, secret string) (in []string, err error) {
	forms := slices.DeleteFunc(traces(secret), func(form string) bool { return form != secret && len(form) < sieveWidth })
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := unpacked(path)
		if slices.ContainsFunc(forms, func(form string) bool { return bytes.Contains(data, []byte(form)) }) {
			in = append(in, path)
		}
		return err
	})
	return in, err
}

// unpacked is a file as whoever reads it may see it.
func unpacked(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return selftest.Unpack(path, data)
}

// What a search does not find in a record nobody finds.
func TestCanariesInRecordsAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"prepare.jsonl.gz": `{"ask":"a","text":"before ` + clusterCanary + ` behind"}`,
		"check.jsonl.gz":   `{"ask":"a","bytes":"` + base64.StdEncoding.EncodeToString([]byte("x"+clusterCanary+"y")) + `"}`,
		"test.jsonl.gz":    `{"ask":"a","text":"nothing"}`,
	} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := io.WriteString(w, text)
		if err = errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, name), packed.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{filepath.Join(dir, "check.jsonl.gz"), filepath.Join(dir, "prepare.jsonl.gz")}
	if in, err := placesOf(dir, clusterCanary); err != nil || !slices.Equal(in, want) {
		t.Errorf("one secret is found in %v: %v", in, err)
	}
	found, files, err := sieveOf([]canary{{where: "a log", value: clusterCanary}}).below(dir)
	if err != nil || files != 3 || len(found["a log"]) != 2 {
		t.Errorf("a canary is found in %v of %d files: %v", found, files, err)
	}
}

// checkAudit verifies the audit of an ended incident against its report and its
// journal, and returns its records by what they say.
func (s *site) checkAudit(inc nightcrier.Incident) (list []journal.Request) {
	s.Helper()
	rep := s.report(inc)
	file := s.file(inc, "output/audit.jsonl")
	sum, problems, err := audit.Verify(bytes.NewReader(file), rep.AuditHead)
	if err != nil || len(problems) > 0 || rep.AuditHead == "" {
		s.Errorf("audit with the head %q: %v, %v", rep.AuditHead, problems, err)
	}
	var chain audit.Chain
	var log audit.Log
	s.look(func(st *store.Store) {
		entries, err := st.Journal(s.Context(), inc.RunID, 1, 0)
		s.must(err)
		for _, e := range entries {
			chain.Add(e)
			s.must(log.Add(e))
			if r, err := journal.RequestOf(e); err == nil && r != nil && r.Done {
				list = append(list, *r)
			}
		}
	})
	var again bytes.Buffer
	_, err = log.Write(&again)
	s.must(err)
	if len(chain.Problems()) > 0 || !bytes.Equal(again.Bytes(), file) || sum.Requests == 0 {
		s.Errorf("journal: %v; %d requests; rendered again the audit is the same: %v", chain.Problems(), sum.Requests, bytes.Equal(again.Bytes(), file))
	}
	if final := s.file(inc, "output/final-report.md"); !bytes.Contains(final, []byte(rep.AuditHead)) {
		s.Errorf("the head %s does not stand in\n%s", rep.AuditHead, final)
	}
	said, err := os.ReadFile(s.logFile)
	s.must(err)
	if !bytes.Contains(said, []byte(`"audit_head":"`+rep.AuditHead+`"`)) {
		s.Errorf("the head %s is not in the log", rep.AuditHead)
	}
	s.eventually(func() string { // people are told after the incident has ended
		if posts := s.slack.got(); len(posts) == 0 || !strings.Contains(posts[0], "audit "+rep.AuditHead[:12]) {
			return fmt.Sprintf("the head is not in the message: %v", posts)
		}
		return ""
	})
	return list
}

// looking is the scenario of an investigation that looks into the cluster: it
// cites what it read there, and tries what it must not.
func looking(t *testing.T) fakemodel.Scenario {
	t.Helper()
	raw, err := os.ReadFile("../internal/fake/fakemodel/scenarios/triage-report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sc, err := fakemodel.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	bash := func(command string) fakemodel.ToolCall {
		return fakemodel.ToolCall{Name: "Bash", Input: map[string]any{"command": command, "description": "look"}}
	}
	look := fakemodel.Step{Text: "Now the cluster itself.", Tools: []fakemodel.ToolCall{
		bash("kubectl get pods"), bash("kubectl get pods --as=system:admin"), bash("kubectl delete pods --all --now"),
	}}
	report := len(sc.Steps) - 2
	sc.Steps = slices.Insert(sc.Steps, report, look)
	input := sc.Steps[report+1].Tools[0].Input
	input["content"] = strings.Replace(input["content"].(string), "- ${fact2}\n",
		"- ${fact2}\n- **[FACT-3]** Pod ${pod} is listed as CrashLoopBackOff — Source: `${evidence}` — \"CrashLoopBackOff\"\n", 1)
	sc.Let["evidence"] = `Warning: evidence (E\d+)`
	sc.Let["pod"] = `(cart-[a-z0-9]+-[a-z0-9]+)`
	return sc
}

func TestClaudeLooksIntoTheCluster(t *testing.T) {
	t.Parallel()
	clitest.Claude(t)
	kube, m := kubetest.Start(t), fakemodel.New(t)
	m.MustAdd(t, "look", looking(t))
	s, p := newRealSite(t), newPatient(t, kube)
	s.claude(t, m, "look")
	d := newDoor(t, kube.ReadOnly(t))
	inc := s.investigate(t, p, d.kubeconfig)
	rep := s.checkReport(inc, p, "agent", "permission-denied")
	list := s.checkAudit(inc)
	log := s.file(inc, "output/agent.log")
	read := slices.ContainsFunc(list, func(r journal.Request) bool {
		return r.Decision == journal.Allow && r.Verb == "list" && r.Resource == "pods" && r.Evidence != ""
	})
	i := slices.IndexFunc(rep.Facts, func(f nightcrier.Fact) bool { return f.ID == "FACT-3" })
	switch {
	case i < 0 || rep.Facts[i].Check != nightcrier.Seen || len(rep.Facts[i].Evidence) != 1:
		t.Errorf("facts %+v\n%s", rep.Facts, log)
	case !slices.ContainsFunc(list, func(r journal.Request) bool { return r.Evidence == rep.Facts[i].Evidence[0] && r.Resource == "pods" }):
		t.Errorf("%v is no evidence of the guard: %+v", rep.Facts[i].Evidence, list)
	case !read:
		t.Errorf("no read of pods in %+v", list)
	}
	// Both are refused before they are run, so the guard is asked neither.
	commands := string(s.file(inc, "logs/agent-commands-executed.log"))
	for _, command := range []string{"kubectl get pods --as=system:admin", "kubectl delete pods --all --now"} {
		if !strings.Contains(commands, "DENIED Bash: "+command) {
			t.Errorf("%s is not among the denials:\n%s", command, log)
		}
	}
	if i := slices.IndexFunc(list, func(r journal.Request) bool { return r.Decision == journal.Deny }); i >= 0 {
		t.Errorf("the guard was asked for %+v", list[i])
	}
	if w := d.writes(); len(w) > 0 {
		t.Errorf("%v reached the API server", w)
	}
	s.nowhereIn(s.root, clusterCanary)
	s.nowhereIn(filepath.Dir(s.logFile), clusterCanary)
	s.noKeyIn(s.root)
}

// keepsLooking is an agent that reads, says how often, and goes on until the test
// lets it report.
const keepsLooking = `
n=0
while [ ! -e "$TMPDIR/go" ]; do
	kubectl get pods -o name > /dev/null 2>> "$OUTPUT_DIR/artifacts/warnings.txt" && n=$((n+1))
	echo $n > "$TMPDIR/read"
	[ $n -ge 3 ] && touch "$TMPDIR/three"
done
kubectl delete pod --all --now 2> "$OUTPUT_DIR/artifacts/refused.txt"
cat /proc/*/environ /proc/*/cmdline > "$OUTPUT_DIR/artifacts/proc.txt" 2> /dev/null
echo $n > "$OUTPUT_DIR/artifacts/reads.txt"
`

// A server that is killed while an agent reads disturbs it in nothing, and the
// audit of the next one holds every read.
func TestAServerDiesWhileItsAgentLooks(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	s, p := newRealSite(t), newPatient(t, kube)
	s.script(keepsLooking + reports)
	d := newDoor(t, kube.ReadOnly(t))
	behind := func(o *order) { o.Kubeconfigs = map[string]string{"real": d.kubeconfig} }
	v := s.serve(behind).ready()
	s.push("real", p.fault(t))
	inc := s.working()
	read := func(what string) {
		t.Helper()
		s.eventually(func() string {
			if _, err := os.Stat(filepath.Join(s.root, "incident-"+inc.ID, "tmp", what)); err != nil {
				return "the agent has not read enough"
			}
			return ""
		})
	}
	read("three")
	v.kill()
	s.must(os.Remove(filepath.Join(s.root, "incident-"+inc.ID, "tmp", "three")))
	read("three") // also while there is no server
	v = s.serve(behind).ready()
	s.release(inc.ID)
	inc = s.ended()
	rep := s.checkReport(inc, p, "agent", "permission-denied")
	list := s.checkAudit(inc)
	reads := slices.DeleteFunc(slices.Clone(list), func(r journal.Request) bool {
		return r.Verb != "list" || r.Resource != "pods" || r.Decision != journal.Allow || !strings.Contains(r.Query, "limit=500") || r.Status != 200
	})
	var n int
	_, err := fmt.Sscan(string(s.file(inc, "output/artifacts/reads.txt")), &n)
	s.must(err)
	told := strings.Count(string(s.file(inc, "output/artifacts/warnings.txt")), "Warning: evidence E")
	if n < 4 || told != n || len(reads) < n {
		t.Errorf("the agent read %d times, was told %d ids, and the audit holds %d reads", n, told, len(reads))
	}
	if !slices.ContainsFunc(list, func(r journal.Request) bool { return r.Decision == journal.Deny && r.Resource == "pods" }) {
		t.Errorf("the refused write is not in the audit: %s", s.file(inc, "output/artifacts/refused.txt"))
	}
	if w := d.writes(); len(w) > 0 {
		t.Errorf("%v reached the API server", w)
	}
	if rep.Usage.APIRequests == 0 || len(rep.SandboxLayers) == 0 {
		t.Errorf("usage %+v, layers %v", rep.Usage, rep.SandboxLayers)
	}
	v.term()
	s.nowhereIn(s.root, clusterCanary)
	s.nowhereIn(filepath.Dir(s.logFile), clusterCanary)
}

// A server that is killed while it reads the cluster asks again, and the audit
// holds both: what was asked before, also where nobody heard the answer.
func TestAServerDiesWhileItLooks(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	d := newDoor(t, kube.ReadOnly(t))
	credential := func(o *order) { o.Kubeconfigs = map[string]string{"real": d.kubeconfig} }
	tested := 0 // which entry says that the report's tests were run
	t.Run("undisturbed", func(t *testing.T) {
		s, p := newRealSite(t), newPatient(t, kube)
		v := s.serve(credential).ready()
		s.push("real", p.fault(t))
		tested = 1 + slices.Index(s.recordOf(s.ended()).Journal, "tested")
		v.term()
	})
	if tested == 0 {
		t.Fatal("undisturbed, the report's tests are not run")
	}
	for _, k := range []int{2, 3, 6, 9, 14, tested - 1, tested} { // journal entries
		t.Run(fmt.Sprint("at entry ", k), func(t *testing.T) {
			s, p := newRealSite(t), newPatient(t, kube)
			v := s.serve(func(o *order) { credential(o); o.DieAtEntry = int64(k) }).ready()
			s.push("real", p.fault(t))
			v.gone()
			v = s.serve(credential).ready()
			inc := s.ended()
			s.checkReport(inc, p, "builtin", "permission-denied")
			s.checkAudit(inc)
			v.term()
			asked, answered := s.podReads(inc, p)
			if reached := d.guardAsked("GET /api/v1/namespaces/" + p.ns + "/pods/" + p.pod.Name); reached == 0 || asked < reached || answered > reached {
				t.Errorf("the Pod was read %d times; %d reads are on record, %d with an answer", reached, asked, answered)
			}
		})
	}
}

// podReads counts the reads of the patient's Pod in the audit, and those answered.
func (s *site) podReads(inc nightcrier.Incident, p *patient) (asked, answered int) {
	s.Helper()
	for line := range strings.Lines(string(s.file(inc, "output/audit.jsonl"))) {
		var r audit.Record
		s.must(json.Unmarshal([]byte(line), &r))
		if r.Verb != "get" || r.Resource != "pods" || r.Subresource != "" || r.Name != p.pod.Name {
			continue
		}
		asked++
		if r.Status == http.StatusOK {
			answered++
		}
	}
	return asked, answered
}

// guardAsked counts how often a guard asked something. Who owns an object is asked
// without one when its event is taken in, before there is a run.
func (d *door) guardAsked(what string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, got := range d.guarded {
		if got == what {
			n++
		}
	}
	return n
}
