package app

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
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
	cred, err := Credential(o.Kubeconfig, o.Context, o.Environ)
	if err != nil {
		return nil, err
	}
	up, err := guardkube.Dial(cred.Kubeconfig, "", cred.Env)
	if err != nil {
		return nil, err
	}
	masker := freshMask(cred.Secrets()...)
	g, err := guardkube.New(guardkube.Config{Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Audit: auditNothing, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	client := kube.Over(up.Base.Host, g, time.Minute)
	defer client.Close()
	return snapshot.Record(ctx, client, snapshot.RecordOptions{Cluster: orOther(o.Cluster, kube.ContextName(o.Kubeconfig, o.Context)), Namespaces: o.Namespaces, Progress: o.Progress, Now: o.Now})
}

// freshMask masks with tags that nothing else has.
func freshMask(secrets ...string) *mask.Masker {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return mask.New(key, secrets...).Learning()
}

// SnapshotServer serves a snapshot as a cluster, until Close.
type SnapshotServer struct {
	server *guardkube.Server
	dir    string
	// Kubeconfig is the path of the file, readable for its owner alone, that leads
	// to the server; its token dies with it.
	Kubeconfig string
}

// ServeSnapshot serves s on a loopback address, a free port of 127.0.0.1 when
// listen is empty. The guard stands before it, as it does before a live cluster:
// only the bearer of the token reads, and secrets in what others recorded are
// masked.
func ServeSnapshot(s *snapshot.Snapshot, listen string, log *slog.Logger) (_ *SnapshotServer, err error) {
	up := guardkube.Upstream{Base: &url.URL{Scheme: "https", Host: snapshot.Host}, Transport: s.Transport()}
	return serveRecorded(up, s.Namespace(), listen, log)
}

// serveRecorded serves what is no live cluster.
func serveRecorded(up guardkube.Upstream, namespace, listen string, log *slog.Logger) (_ *SnapshotServer, err error) {
	l, err := ListenOn("--listen", orOther(listen, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	if !addr.IP.IsLoopback() {
		return nil, errors.Join(nightcrier.Errorf(nightcrier.Refused, "--listen: %s is no loopback address: a snapshot is served to this machine only", addr), l.Close())
	}
	masker := freshMask()
	g, err := guardkube.New(guardkube.Config{Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Audit: auditNothing, Logger: log})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	out := &SnapshotServer{}
	if out.server, err = guardkube.Serve(l, g); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	raw, err := leadTo(out.server.Kubeconfig(), addr, namespace)
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	if out.dir, err = os.MkdirTemp("", "nightcrier-snapshot-"); err == nil {
		out.Kubeconfig = filepath.Join(out.dir, "kubeconfig")
		err = os.WriteFile(out.Kubeconfig, raw, 0o600)
	}
	if err != nil {
		return nil, errors.Join(nightcrier.Errorf(nightcrier.Exhausted, "kubeconfig of the snapshot: %w", err), out.Close())
	}
	return out, nil
}

// Close ends the server and removes the kubeconfig.
func (s *SnapshotServer) Close() error {
	err := s.server.Close()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// openSnapshots serves the snapshots that stand in the place of live clusters, so
// that a cluster's credential is a kubeconfig here as everywhere.
func (a *App) openSnapshots() error {
	for i, c := range a.cfg.Clusters {
		s := a.opt.Snapshots[c.Name]
		if s == nil {
			continue
		}
		server, err := ServeSnapshot(s, "", a.log)
		if err != nil {
			return err
		}
		a.onStop("snapshot "+c.Name, func(context.Context) error { return server.Close() })
		a.cfg.Clusters[i].Kubeconfig = server.Kubeconfig
	}
	return nil
}
