// Package kubetest gives tests a real Kubernetes API server: kube-apiserver and
// etcd on loopback, without controllers or nodes. What it has for real: API
// semantics, watches, RBAC, tokens, admission, the way of a log through the API
// server. What it has not: Pods that run, namespace deletion; a test writes
// status and logs itself, as a kubelet would. OneNode is a cluster that has these
// too, for root.
//
// The programs come from the cache that `make kube` fills, or are built on the
// spot with NIGHTCRIER_KUBE=build. Without either the tests skip, aloud.
package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// API is an administrator's way to an API server on loopback.
type API struct {
	URL        string            // https://127.0.0.1:port
	Config     *rest.Config      // an administrator's; copy before changing
	Kubeconfig string            // path of the administrator's kubeconfig
	Client     dynamic.Interface // an administrator's

	id *identity
}

// Server is a running API server.
type Server struct {
	API
	kubelet *kubelet
	scratch *testproc.Scratch
	audit   string              // path of the audit log; "" for none
	stop    []*testproc.Process // in order
}

// shared is the one server of the test binary; it dies with it.
var shared = sync.OnceValues(func() (*Server, error) { return launch(context.Background(), false) })

// Start returns the API server that the test binary's tests share, starting it
// for the first of them. Keep to namespaces of your own (Namespace) there.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := shared()
	return usable(tb, s, err)
}

// Isolated starts an API server for this test alone, for tests that stop it or
// look at the whole cluster.
func Isolated(tb testing.TB) *Server {
	tb.Helper()
	return isolated(tb, false)
}

// Audited is Isolated with an audit log, which Audit reads.
func Audited(tb testing.TB) *Server {
	tb.Helper()
	return isolated(tb, true)
}

func isolated(tb testing.TB, audited bool) *Server {
	tb.Helper()
	s, err := launch(tb.Context(), audited)
	usable(tb, s, err)
	tb.Cleanup(s.Stop)
	return s
}

func usable(tb testing.TB, s *Server, err error) *Server {
	tb.Helper()
	if errors.Is(err, errNotBuilt) {
		tb.Skipf("SKIPPED ALOUD: kube-apiserver: %v", err)
	}
	if err != nil {
		tb.Fatalf("kubetest: %v", err)
	}
	return s
}

// Kubectl returns the path of a kubectl of the server's version.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	return kubectlOf(tb, "kubectl")
}

// KubectlFirst puts that kubectl before all others in PATH, for a whole test program: its
// tests then run beside each other. Where none was built the tests skip, and it does nothing.
func KubectlFirst() error {
	dir, err := locate("kubectl", client)
	switch {
	case errors.Is(err, errNotBuilt):
		return nil
	case err != nil:
		return fmt.Errorf("kubetest: %w", err)
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// OldKubectl returns the path of a kubectl of version 1.32.
func OldKubectl(tb testing.TB) string {
	tb.Helper()
	return kubectlOf(tb, oldKubectl)
}

func kubectlOf(tb testing.TB, entry string) string {
	tb.Helper()
	dir, err := locate(entry, client)
	if errors.Is(err, errNotBuilt) {
		tb.Skipf("SKIPPED ALOUD: %s: %v", entry, err)
	}
	if err != nil {
		tb.Fatalf("kubetest: %v", err)
	}
	return filepath.Join(dir, kubectl.name)
}

// Stop kills the server and removes its data. Only a server of Isolated may be
// stopped by a test.
func (s *Server) Stop() {
	for _, p := range s.stop {
		p.Stop(syscall.SIGKILL)
	}
	if s.kubelet != nil {
		_ = s.kubelet.http.Close()
	}
	_ = s.scratch.Remove() // the next run sweeps what is left
}

const attempts = 3 // another process may take a port between choosing and listening

func launch(ctx context.Context, audited bool) (*Server, error) {
	bin, err := locate("kube", controlPlane)
	if err != nil {
		return nil, err
	}
	var failures []error
	for range attempts {
		s, err := launchOnce(ctx, bin, audited)
		if err == nil {
			return s, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func launchOnce(ctx context.Context, bin string, audited bool) (_ *Server, err error) {
	scratch, err := testproc.NewScratch("nightcrier-kube-")
	if err != nil {
		return nil, err
	}
	s := &Server{scratch: scratch}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.id, err = newIdentity(scratch.Path); err != nil {
		return nil, err
	}
	if s.kubelet, err = startKubelet(s.id); err != nil {
		return nil, err
	}
	if audited {
		if err := s.keepAudit(); err != nil {
			return nil, err
		}
	}
	if err := s.startPrograms(bin); err != nil {
		return nil, err
	}
	if err := s.connect(scratch.Path); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, err
	}
	return s, s.addNode(ctx)
}

func (s *Server) startPrograms(bin string) error {
	var port [3]int
	for i := range port {
		var err error
		if port[i], err = testproc.FreePort(); err != nil {
			return err
		}
	}
	peer, store, secure := loopback("http", port[0]), loopback("http", port[1]), loopback("https", port[2])
	s.URL = secure
	for _, argv := range [][]string{
		append([]string{filepath.Join(bin, etcd.name)}, s.etcdFlags(peer, store)...),
		append([]string{filepath.Join(bin, apiserver.name)}, s.apiserverFlags(store, port[2])...),
	} {
		p, err := testproc.Start(exec.Command(argv[0], argv[1:]...), syscall.SIGKILL)
		if err != nil {
			return err
		}
		s.stop = append([]*testproc.Process{p}, s.stop...)
	}
	return nil
}

func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

func (s *Server) etcdFlags(peer, store string) []string {
	return []string{
		"--data-dir=" + filepath.Join(s.scratch.Path, "etcd"),
		"--unsafe-no-fsync=true", // the data is not worth a disk's time
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--listen-client-urls=" + store, "--advertise-client-urls=" + store,
		"--log-level=error",
	}
}

func (s *Server) apiserverFlags(store string, port int) []string {
	return append(s.auditFlags(),
		"--etcd-servers="+store,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--endpoint-reconciler-type=none", // or it refuses to advertise 127.0.0.1
		"--tls-cert-file="+s.id.certFile, "--tls-private-key-file="+s.id.keyFile,
		"--cert-dir="+s.scratch.Path,
		"--token-auth-file="+s.id.tokenFile,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubetest.invalid",
		"--service-account-key-file="+s.id.keyFile,
		"--service-account-signing-key-file="+s.id.keyFile,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--disable-admission-plugins=ServiceAccount", // nobody makes the default ServiceAccount here
		"--v=0",
	)
}

// connect makes the administrator's client, and a kubeconfig in dir.
func (a *API) connect(dir string) error {
	a.Config = a.config(a.id.token)
	a.Kubeconfig = filepath.Join(dir, "admin.kubeconfig")
	if err := a.writeKubeconfig(a.Kubeconfig, a.id.token, "default"); err != nil {
		return err
	}
	var err error
	a.Client, err = dynamic.NewForConfig(a.Config)
	return err
}

const readyWithin = 2 * time.Minute // a cold, loaded machine; three seconds are usual

// awaitReady polls /readyz until it answers ok, or a program dies.
func (s *Server) awaitReady(ctx context.Context) error {
	ended := make(chan error, len(s.stop))
	for _, p := range s.stop {
		go func() {
			<-p.Done()
			ended <- fmt.Errorf("a program of the control plane ended: %s", p)
		}()
	}
	return s.API.awaitReady(ctx, ended)
}

// awaitReady polls /readyz until it answers ok, or there is a reason not to wait
// any longer.
func (a *API) awaitReady(ctx context.Context, lost <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	web, err := rest.HTTPClientFor(a.Config)
	if err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx, web, a.URL+"/readyz") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("API server not ready: %w", ctx.Err())
		case err := <-lost:
			return err
		}
	}
	return nil
}

func ready(ctx context.Context, web *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := web.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
