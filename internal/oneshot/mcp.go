package oneshot

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/evidence"
)

// MCPOptions say what an MCP server serves, and to whom. Either Listener or In
// and Out are set.
type MCPOptions struct {
	// Config is how investigations are run.
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// Kubeconfig is the credential, whose contexts are the clusters; empty is what
	// kubectl means by it. With a Context only that one is served.
	Kubeconfig, Context string
	// Executor investigates.
	Executor string
	// Records are the incidents of a server, nil when there is none to ask.
	Records mcpserver.Records
	Environ []string
	// Write, when set, has manifests applied by its rules, and nothing else served. Each
	// write is appended to the file WriteRecord, by default one below the workspace root.
	Write       *WritePolicy
	WriteRecord string
	// Evidence is the directory where every answer of a cluster is kept; empty
	// keeps none.
	Evidence string
	// Listener is where HTTP clients come; Token is what they must present, if set.
	// Ready is called when they are served.
	Listener net.Listener
	Token    string
	Ready    func()
	// In and Out are the pipes of a single client.
	In  io.ReadCloser
	Out io.WriteCloser
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
	// Limits replace the usual ones, for tests.
	Limits mcpserver.Limits
}

// ServeMCP serves MCP clients until ctx ends, or the one client of the pipes does.
func ServeMCP(ctx context.Context, o MCPOptions) (err error) {
	if o.Write != nil {
		return o.serveWriter(ctx)
	}
	var rec kubetool.Recorder // without one a nil interface
	if o.Evidence != "" {
		kept, openErr := evidence.Open(o.Evidence)
		if openErr != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "evidence directory: %w", openErr)
		}
		defer func() { err = errors.Join(err, kept.Close()) }()
		rec = kept
	}
	s, err := o.newServer(rec)
	if err != nil {
		return err
	}
	defer s.Close()
	return o.serveClients(ctx, s)
}

func (o MCPOptions) serveClients(ctx context.Context, s *mcpserver.Server) error {
	if o.Listener != nil {
		if err := s.Check(o.Listener); err != nil {
			return err
		}
		o.Ready()
		return s.Serve(ctx, o.Listener)
	}
	return s.ServeStdio(ctx, o.In, o.Out)
}

func (o MCPOptions) newServer(rec kubetool.Recorder) (*mcpserver.Server, error) {
	contexts, err := servedContexts(o.Kubeconfig, o.Context)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	var list []mcpserver.Cluster
	var broken error
	for _, sc := range contexts {
		c, err := o.newCluster(sc, key, rec)
		if err != nil && len(contexts) == 1 {
			return nil, err
		}
		if err != nil { // the others are served all the same
			o.Logger.Warn("a context cannot be used and is left out", "component", "mcpserver", "event", "mcp_context_broken", "cluster", sc.cluster, "error", err)
			broken = err
			continue
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, broken
	}
	desk := &desk{options: o, contexts: contexts, next: o.Records}
	return mcpserver.New(mcpserver.Config{
		Clusters: list, Investigator: desk, Records: desk, Class: intake.ClassOf, OwnerByName: intake.OwnerByName,
		Token: o.Token, Version: o.Version, Logger: o.Logger, Limits: o.Limits,
	})
}

// servedContext is a context of a kubeconfig under the name of its cluster.
type servedContext struct{ cluster, context string }

// servedContexts are a kubeconfig's contexts, the default first, or one of them.
func servedContexts(kubeconfig, only string) ([]servedContext, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := rules.Load()
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: %w", kubeconfig, err)
	}
	switch {
	case only != "":
		return []servedContext{{only, only}}, nil
	case clientcmdapi.IsConfigEmpty(cfg):
		return []servedContext{{triage.InCluster, ""}}, nil // Dial says so when this is no Pod
	case len(cfg.Contexts) == 0:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s has no context", kubeconfig)
	}
	var list []servedContext
	for _, name := range slices.Sorted(maps.Keys(cfg.Contexts)) {
		if name == cfg.CurrentContext {
			list = slices.Insert(list, 0, servedContext{name, name})
		} else {
			list = append(list, servedContext{name, name})
		}
	}
	return list, nil
}

// newCluster makes one cluster: its tools read through a guard.
func (o MCPOptions) newCluster(sc servedContext, key []byte, rec kubetool.Recorder) (mcpserver.Cluster, error) {
	direct, err := kube.Dial(o.Kubeconfig, sc.context, 0)
	if err != nil {
		return mcpserver.Cluster{}, err
	}
	secrets := []string{o.Token}
	if cred, err := app.ReadCredential(o.Kubeconfig, sc.context, o.Environ); err == nil { // in a Pod there is no file
		secrets = append(secrets, cred.Secrets()...)
	}
	masker, log := mask.New(key, secrets...).Learning(sc.cluster), o.Logger.With("component", "guard", "cluster", sc.cluster)
	base, transport := direct.Upstream()
	guard, err := guardkube.New(guardkube.Config{
		Upstream: guardkube.Upstream{Base: base, Transport: transport}, Mask: masker.Bytes, MaskLog: masker.Log, Logger: log,
		Audit: func(_ context.Context, r guardkube.AuditRecord) error {
			log.Debug("a request to the cluster", "event", "kube_request", "verb", r.Verb, "resource", r.Resource, "namespace", r.Namespace,
				"name", r.Name, "decision", r.Decision, "reason", r.Reason, "done", r.Done, "status", r.Status)
			return nil
		},
	})
	if err != nil {
		return mcpserver.Cluster{}, err
	}
	tools := kubetool.New(kubetool.Config{Reader: kube.Over(base.Host, guard, 0), Releases: direct, Evidence: rec, Mask: masker.Bytes, Cluster: sc.cluster})
	return mcpserver.Cluster{Name: sc.cluster, Tools: tools, API: direct, Mask: masker.Bytes}, nil
}
