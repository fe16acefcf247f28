package worker

import (
	"context"
	"net"
	"os"
	"os/exec"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// cluster is an agent's way to look into its cluster.
type cluster struct {
	records *records
	guard   *guardkube.Guard
	server  *guardkube.Server
}

// agentStreams are the watches and followed logs that an agent may have at once.
const agentStreams = 8

// openCluster starts the guard of the cluster on l, which it takes over, and points
// the agent's kubeconfig at it.
func (w *worker) openCluster(l net.Listener, cred *backend.Credential, r *records) (c *cluster, err error) {
	defer func() {
		if err != nil {
			c.close()
			l.Close() // closed already is as good
		}
	}()
	if c, err = w.guardCluster(cred, r); err != nil {
		return nil, err
	}
	if c.server, err = guardkube.Serve(l, c.guard); err != nil {
		return nil, err
	}
	return c, w.writeKubeconfig(c.server.Kubeconfig())
}

// guardCluster makes the guard of the cluster. The credential goes no further.
func (w *worker) guardCluster(cred *backend.Credential, r *records) (*cluster, error) {
	c := &cluster{records: r}
	up, err := guardkube.Dial(cred.Kubeconfig, cred.Env)
	if err != nil {
		return nil, err
	}
	up.Recorded = cred.Recorded
	for _, n := range up.Notes {
		w.appendNote("warn", n)
	}
	c.guard, err = guardkube.New(guardkube.Config{
		Upstream: up, Namespaces: cred.Namespaces, Mask: w.mask.Bytes, MaskLog: w.mask.Log, Evidence: r, Audit: c.auditRequest, Logger: w.log, Now: w.now,
		Limits: guardkube.Limits{Streams: agentStreams},
	})
	return c, err
}

// close ends the guard.
func (c *cluster) close() {
	if c != nil && c.server != nil {
		_ = c.server.Close()
	}
}

// auditRequest journals what the guard decided, and what came of it.
func (c *cluster) auditRequest(_ context.Context, r guardkube.AuditRecord) error {
	if decided := !r.Done || r.Decision == guardkube.Deny; decided {
		if err := c.records.countDecision(len(r.Query) + len(r.Name) + len(r.Namespace) + len(r.Reason) +
			len(r.Group) + len(r.Version) + len(r.Resource) + len(r.Subresource)); err != nil {
			return err
		}
	}
	return c.records.appendItem(journal.OfRequest(r))
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
	ws, err := w.openWorkspace()
	if err != nil {
		return err
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

// findKubectl finds the program that agents look with, "" where there is none.
func (a *attempt) findKubectl() string {
	if a.cluster == nil || a.executor.UsesTools {
		return ""
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		a.appendNote("warn", "kubectl is not in PATH: the agent can ask the cluster only if it brings a client of its own")
		return ""
	}
	return path
}
