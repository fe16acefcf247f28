package oneshot

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
	"nightcrier.dev/nightcrier/internal/mask"
)

// auditNothing is the audit of a guard that keeps no record.
func auditNothing(context.Context, guardkube.AuditRecord) error { return nil }

// RecordOptions say what to record of which cluster.
type RecordOptions struct {
	// Kubeconfig and Context are the credential; empty is what kubectl means by it.
	Kubeconfig, Context string
	Environ             []string
	// Cluster is the name that the snapshot tells; empty means the context's.
	Cluster string
	// Namespaces to record; none means all.
	Namespaces []string
	// Progress is told what is being read.
	Progress func(string)
	Logger   *slog.Logger
	Now      func() time.Time
}

// Record records a live cluster through a guard: reads only, Secrets without
// their data, and what looks like a secret masked.
func Record(ctx context.Context, o RecordOptions) (*snapshot.Snapshot, error) {
	cred, err := app.ReadCredential(o.Kubeconfig, o.Context, o.Environ)
	if err != nil {
		return nil, err
	}
	up, err := guardkube.Dial(cred.Kubeconfig, cred.Env)
	if err != nil {
		return nil, err
	}
	masker := mask.Fresh(cred.Secrets()...)
	g, err := guardkube.New(guardkube.Config{Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Audit: auditNothing, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	client := kube.Over(up.Base.Host, g, time.Minute)
	defer client.Close()
	return snapshot.Record(ctx, client, snapshot.RecordOptions{Cluster: cmp.Or(o.Cluster, kube.ContextName(o.Kubeconfig, o.Context)), Namespaces: o.Namespaces, Progress: o.Progress, Now: o.Now})
}

// ServeSnapshot serves a snapshot as a cluster, on a loopback address; an empty one is a free
// port of 127.0.0.1.
func ServeSnapshot(s *snapshot.Snapshot, listen string, log *slog.Logger) (*recorded.Server, error) {
	l, err := ListenOn("--listen", cmp.Or(listen, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	return recorded.ServeOn(l, recorded.UpstreamOf(s), s.Namespace(), log)
}
