// Package recorded serves what was recorded of a cluster as a cluster, to this machine
// alone: a credential for it is a kubeconfig, as for any other.
package recorded

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
)

// Server serves a recorded cluster until Close.
type Server struct {
	server *guardkube.Server
	dir    string
	// Kubeconfig is the path of the file, readable for its owner alone, that leads
	// to the server; its token dies with it.
	Kubeconfig string
}

// ServeSnapshot serves a snapshot on a free port of 127.0.0.1.
func ServeSnapshot(s *snapshot.Snapshot, log *slog.Logger) (*Server, error) {
	return Serve(UpstreamOf(s), s.Namespace(), log)
}

// Serve is ServeOn at a free port of 127.0.0.1.
func Serve(up guardkube.Upstream, namespace string, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "listen: %w", err)
	}
	return ServeOn(l, up, namespace, log)
}

// UpstreamOf is a snapshot as a guard takes it.
func UpstreamOf(s *snapshot.Snapshot) guardkube.Upstream {
	return guardkube.Upstream{Base: &url.URL{Scheme: "https", Host: snapshot.Host}, Transport: s.Transport()}
}

// ServeOn serves what is no live cluster on a loopback address. The guard stands before
// it, as it does before a live cluster: only the bearer of the token reads, and secrets in
// what others recorded are masked. The listener is closed with the server, and where there
// is none.
func ServeOn(l net.Listener, up guardkube.Upstream, namespace string, log *slog.Logger) (*Server, error) {
	if addr, ok := l.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		return nil, errors.Join(nightcrier.Errorf(nightcrier.Refused, "--listen: %s is no loopback address: a snapshot is served to this machine only", l.Addr()), l.Close())
	}
	masker := mask.Fresh()
	g, err := guardkube.New(guardkube.Config{
		Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Logger: log,
		Audit: func(context.Context, guardkube.AuditRecord) error { return nil },
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	out := &Server{}
	if out.server, err = guardkube.Serve(l, g); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := out.writeKubeconfig(namespace); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

func (s *Server) writeKubeconfig(namespace string) error {
	raw, err := s.server.KubeconfigIn(namespace)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "nightcrier-snapshot-"); err == nil {
		s.Kubeconfig = filepath.Join(s.dir, "kubeconfig")
		err = os.WriteFile(s.Kubeconfig, raw, 0o600)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "kubeconfig of the snapshot: %w", err)
	}
	return nil
}

// Close ends the server and removes the kubeconfig.
func (s *Server) Close() error {
	err := s.server.Close()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
