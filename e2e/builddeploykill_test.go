package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// between stands between the server that deploys and a real API server. It counts what is written, and
// holds the first write of a Deployment until whoever is to be killed then is dead.
type between struct {
	kubeconfig string
	// first says that the write is made before the kill; then its answer is lost.
	first         bool
	reached, dead chan struct{}

	api  *httputil.ReverseProxy
	once sync.Once
	mu   sync.Mutex
	// writes are counted by their paths, without those that are only tried.
	writes map[string]int
}

func newBetween(t *testing.T, api *kubetest.Server, ns string, first bool) *between {
	t.Helper()
	path := api.AccessIn(t, ns, deployRules()...)
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), first: first, reached: make(chan struct{}), dead: make(chan struct{}), writes: map[string]int{}, api: httputil.NewSingleHostReverseProxy(to)}
	if b.api.Transport, err = rest.TransportFor(cfg); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(b)
	t.Cleanup(web.Close)
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Clusters {
		c.Server, c.CertificateAuthority, c.CertificateAuthorityData, c.TLSServerName = web.URL, "", nil, ""
	}
	if err := clientcmd.WriteToFile(*file, b.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return b
}

// ServeHTTP implements http.Handler.
func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") || !strings.Contains(r.URL.Path, "/namespaces/") {
		b.api.ServeHTTP(w, r)
		return
	}
	b.mu.Lock()
	b.writes[r.Method+" "+r.URL.Path]++
	b.mu.Unlock()
	if !strings.Contains(r.URL.Path, "/deployments/") {
		b.api.ServeHTTP(w, r)
		return
	}
	lost := false
	b.once.Do(func() {
		if lost = b.first; lost {
			b.api.ServeHTTP(httptest.NewRecorder(), r)
		}
		close(b.reached)
		<-b.dead
	})
	if !lost {
		b.api.ServeHTTP(w, r)
	}
}

// deployer is the server that deploys as a process of its own, at an address that stays when it is
// killed and started again.
type deployer struct {
	t          *testing.T
	kubeconfig string
	ns, root   string
	front      *httptest.Server
	to         atomic.Pointer[url.URL]
	cmd        *exec.Cmd
}

const deployerToken = "a-token-of-this-test"

func newDeployer(t *testing.T, kubeconfig, ns string) *deployer {
	t.Helper()
	d := &deployer{t: t, kubeconfig: kubeconfig, ns: ns, root: filepath.Join(t.TempDir(), "deploys")}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(d.to.Load()) }, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	d.front = httptest.NewServer(proxy)
	t.Cleanup(d.front.Close)
	d.start()
	t.Cleanup(func() { d.kill() })
	return d
}

func (d *deployer) start() {
	d.t.Helper()
	d.cmd = exec.Command(binary(d.t), "mcp", "--write", "--namespace", d.ns, "--kubeconfig", d.kubeconfig, "--listen", "127.0.0.1:0", "--workspace-root", d.root)
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(d.root), "NIGHTCRIER_MCP_TOKEN=" + deployerToken}
	out, err := d.cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "MCP at "); ok {
			to, err := url.Parse(strings.TrimSuffix(strings.TrimSpace(address), "/mcp"))
			if err != nil {
				d.t.Fatal(err)
			}
			d.to.Store(to)
			go func() { _, _ = io.Copy(io.Discard, out) }() // it ends with the process
			return
		}
		d.t.Log(lines.Text())
	}
	d.t.Fatal("the server that deploys does not start")
}

// kill ends it with SIGKILL, and waits until it is gone.
func (d *deployer) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait() // how it ended is known
}

// outcomes are what it has on record of each object.
func (d *deployer) outcomes() map[string][]string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.root, "deploy.jsonl"))
	if err != nil {
		d.t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		var w struct{ Kind, Name, Outcome string }
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			d.t.Fatal(err)
		}
		if w.Outcome != "" {
			all[w.Kind+" "+w.Name] = append(all[w.Kind+" "+w.Name], w.Outcome)
		}
	}
	return all
}

// killWorkers ends the workers of a run with SIGKILL.
func (s *site) killWorkers(run string) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.root, ".workers", run+"*", "pid"))
	s.must(err)
	killed := 0
	for _, file := range files {
		var p struct{ Worker struct{ PID int } }
		raw, err := os.ReadFile(file)
		s.must(err)
		s.must(json.Unmarshal(raw, &p))
		if syscall.Kill(p.Worker.PID, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		s.Fatalf("no worker of %s lives", run)
	}
}

// Whoever is killed with SIGKILL in the middle of what build-deploy applies, after the first object and
// at the second: the run ends well, and each object has been written once. The variables of the older
// platform lead to the server that deploys, in one dialect or the other.
func TestBuildDeployIsAppliedOnce(t *testing.T) {
	t.Parallel()
	for victim, path := range map[string]string{"server": "/mcp", "worker": "/mcp", "deployer": ""} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			claude, api := handsOf(claudeCLI(t)), kubetest.Start(t)
			ns := api.Namespace(t)
			b := newBetween(t, api, ns, victim == "deployer")
			deploys := newDeployer(t, b.kubeconfig, ns)
			m := fakemodel.New(t)
			s := claude.site(t, m, claude.deliver(oneFact)) // replaced below
			again := make(chan struct{})
			m.MustAdd(t, claude.cli, fakemodel.Scenario{Answer: deployment{t, api, ns, claude, shopManifest, again}.answer})
			s.env["MCP_K8S_URL"], s.env["MCP_K8S_API_KEY"] = deploys.front.URL+path, deployerToken
			s.must(os.MkdirAll(s.root, 0o700))
			st, err := store.Open(t.Context(), store.Options{Path: filepath.Join(s.root, "nightcrier.db"), Logger: slog.New(slog.DiscardHandler)})
			s.must(err)
			queued, err := st.EnqueueRun(t.Context(), store.NewRun{
				Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: "build-deploy", Key: "build-deploy shop", Executor: claude.executor,
				Input: json.RawMessage(`{"description": "a page that says: a shop", "app": "shop"}`),
			})
			s.must(err)
			s.must(st.Close())
			v := s.serve(nil).ready()
			ended := func() (run nightcrier.Run, steps []nightcrier.Step) {
				s.look(func(st *store.Store) {
					run, err = st.Run(t.Context(), queued.Run.ID)
					s.must(err)
					steps, err = st.Steps(t.Context(), queued.Run.ID)
					s.must(err)
				})
				return run, steps
			}
			s.eventually(func() string {
				select {
				case <-b.reached:
					return ""
				default:
				}
				run, steps := ended()
				if run.Status == nightcrier.Finished {
					t.Fatalf("%s: %s, %+v", run.Outcome, run.FailureReason, steps)
				}
				return "nothing is applied yet"
			})
			switch victim {
			case "server":
				v.kill()
			case "worker":
				s.killWorkers(queued.Run.ID)
			case "deployer":
				deploys.kill()
			}
			close(b.dead)
			switch victim {
			case "server":
				v = s.serve(nil).ready()
			case "deployer":
				deploys.start()
			}
			close(again)
			s.eventually(func() string {
				if run, _ := ended(); run.Status != nightcrier.Finished {
					return "the run is " + string(run.Status)
				}
				return ""
			})
			run, steps := ended()
			if run.Outcome != nightcrier.StateSuccess || len(steps) != 4 {
				t.Errorf("%s: %s, %+v", run.Outcome, run.FailureReason, steps)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.writes) != 3 {
				t.Errorf("written was %v", b.writes)
			}
			for what, n := range b.writes {
				if n != 1 {
					t.Errorf("%s was sent %d times", what, n)
				}
			}
			for object, said := range deploys.outcomes() {
				if len(said) != 1 || said[0] != "created" {
					t.Errorf("%s is on record as %v", object, said)
				}
			}
			there, err := api.Client.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace(ns).List(t.Context(), v1.ListOptions{})
			s.must(err)
			if len(there.Items) != 1 || there.Items[0].GetGeneration() != 1 {
				t.Errorf("there are %v", there.Items)
			}
			begun, want := 0, map[string]int{"worker": 2}[victim]
			for _, r := range m.Requests(claude.cli) {
				if r.Turn == 0 && strings.Contains(r.Text, "You do step deploy ") {
					begun++
				}
			}
			if begun != max(want, 1) {
				t.Errorf("the agent that deploys was started %d times", begun)
			}
			t.Logf("%s: written was %v, on record is %v", victim, b.writes, deploys.outcomes())
			v.term()
			s.noKeyIn(s.root)
		})
	}
}
