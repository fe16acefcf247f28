package worker

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/evidence"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/mask"
)

// evidenceDir is where answers are kept, below the workspace and out of the
// agent's reach. Its ids go on after those of the preparation.
const evidenceDir = "output/evidence"

// maxAudit bounds, in bytes, what the requests of one agent take in the journal:
// room for some 10,000. requestCost is that of one without its texts; it has two
// entries, and in each the texts stand twice.
const (
	maxAudit    = 16 << 20
	requestCost = 1536
)

// cluster is an agent's way to look into its cluster.
type cluster struct {
	worker *worker
	rec    *evidence.Recorder
	server *guardkube.Server

	full sync.Once // it was said that nothing more can be kept
	over sync.Once // it was said that nothing more is answered

	mu    sync.Mutex
	spent int // of maxAudit
	ended bool
}

// openCluster starts the guard of the cluster on l, which it takes over, and points
// the agent's kubeconfig at it. The credential goes no further than the guard.
func (w *worker) openCluster(l net.Listener, cred *Credential) (_ *cluster, err error) {
	c := &cluster{worker: w}
	defer func() {
		if err != nil {
			c.close()
			l.Close() // closed already is as good
		}
	}()
	up, err := guardkube.Dial(cred.Kubeconfig, "", cred.Env)
	if err != nil {
		return nil, err
	}
	for _, n := range up.Notes {
		w.note("warn", n)
	}
	if c.rec, err = evidence.Open(filepath.Join(w.spec.Workspace, evidenceDir)); err != nil {
		return nil, err
	}
	masker := mask.New(w.secret.MaskKey, append(cred.Secrets(), w.secret.MaskValues...)...)
	g, err := guardkube.New(guardkube.Config{Upstream: up, Namespaces: cred.Namespaces, Mask: masker.Bytes, Evidence: c, Audit: c.audit, Logger: w.log, Now: w.now})
	if err != nil {
		return nil, err
	}
	if c.server, err = guardkube.Serve(l, g); err != nil {
		return nil, err
	}
	return c, w.writeKubeconfig(c.server.Kubeconfig())
}

// close ends the guard. What it was still answering belongs to nobody any more, and
// is not told of.
func (c *cluster) close() {
	if c.server != nil {
		_ = c.server.Close()
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	if c.rec != nil {
		if err := c.rec.Close(); err != nil {
			c.worker.log.Warn("close the evidence", "error", err)
		}
	}
}

// Record implements guardkube.Recorder. Once the evidence is full the guard
// answers nothing: an agent shall know nothing that cannot be shown.
func (c *cluster) Record(kind, source string, body []byte) (string, error) {
	id, err := c.rec.Record(kind, source, body)
	if errors.Is(err, evidence.ErrFull) {
		c.full.Do(func() { c.worker.note("warn", err.Error()+"; the agent gets no more answers from the cluster") })
	}
	return id, err
}

// audit journals what the guard decided, and what came of it. Without its entry
// nothing is asked and nothing is answered.
func (c *cluster) audit(_ context.Context, r guardkube.AuditRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nightcrier.Errorf(nightcrier.Interrupted, "the agent has ended")
	}
	if decided := !r.Done || r.Decision == guardkube.Deny; decided {
		c.spent += requestCost + 4*(len(r.Query)+len(r.Name)+len(r.Namespace)+len(r.Reason)+
			len(r.Group)+len(r.Version)+len(r.Resource)+len(r.Subresource))
	}
	if c.spent > maxAudit {
		c.over.Do(func() { c.worker.note("warn", "the agent has asked too much of the cluster; it gets no more answers") })
		return nightcrier.Errorf(nightcrier.Exhausted, "the requests of this attempt take more than %d bytes of journal", maxAudit)
	}
	return c.worker.tell(journal.OfRequest(journal.Request(r)))
}

// writeKubeconfig replaces the agent's kubeconfig by the guard's, with the
// incident's namespace as the default.
func (w *worker) writeKubeconfig(raw []byte) error {
	cfg, err := clientcmd.Load(raw)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "kubeconfig of the guard: %w", err)
	}
	for _, c := range cfg.Contexts {
		c.Namespace = w.spec.Namespace
	}
	if raw, err = clientcmd.Write(*cfg); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "kubeconfig of the guard: %w", err)
	}
	ws, err := os.OpenRoot(w.spec.Workspace)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "workspace: %w", err)
	}
	defer ws.Close()
	return putKubeconfig(ws, raw)
}

// putKubeconfig makes the file anew: an earlier attempt's agent may have put a
// link in its place.
func putKubeconfig(ws *os.Root, raw []byte) error {
	err := ws.RemoveAll(kubeconfigFile)
	if err == nil {
		err = ws.WriteFile(kubeconfigFile, raw, 0o600)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "workspace: %w", err)
	}
	return nil
}

// Secrets are the values in a credential that must appear nowhere.
func (c *Credential) Secrets() []string {
	cfg, err := clientcmd.Load(c.Kubeconfig)
	if err != nil {
		return nil // nor can it be dialled
	}
	var values []string
	for _, u := range cfg.AuthInfos {
		values = append(values, u.Token, u.Password, string(u.ClientKeyData))
	}
	for _, kv := range c.Env {
		if name, value, _ := strings.Cut(kv, "="); secretVar.MatchString(name) {
			values = append(values, value)
		}
	}
	return values
}

// secretVar matches the variables of credential plugins that hold a secret.
var secretVar = regexp.MustCompile(`SECRET|TOKEN|PASSWORD`)

// kubectl is the program that agents look with, "" where there is none.
func (a *attempt) kubectl() string {
	if a.cluster == nil {
		return ""
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		a.note("warn", "kubectl is not in PATH: the agent can ask the cluster only if it brings a client of its own")
		return ""
	}
	return path
}
