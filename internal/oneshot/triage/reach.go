package triage

import (
	"errors"
	"log/slog"
	"time"

	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
)

// reached is the one cluster that is looked at.
type reached struct {
	reach  app.Reach
	client *kube.Client // nil for none
	host   string       // of a live one
	close  func() error
}

// reachCluster finds the way to it: a snapshot, or what kubectl would take. An event and an
// alert say something without one.
func (o Options) reachCluster(c config.Cluster) (at reached, err error) {
	if o.Snapshot != nil {
		s, err := ReachSnapshot(c.Name, o.Snapshot, o.Logger)
		if err != nil {
			return at, err
		}
		return reached{reach: s, client: o.Snapshot.Client(), close: s.Close}, nil
	}
	at.close = func() error { return nil }
	at.client, err = kube.Dial(c.Kubeconfig, c.Context, 0)
	if errors.Is(err, kube.ErrNoKubeconfig) && (o.Event != nil || o.Alert != nil) {
		at.reach = byClient{}
		return at, nil
	}
	if err != nil {
		return at, err
	}
	conn := app.Connection{Client: at.client, Asker: at.client}
	conn.Credential, conn.Why = app.CredentialOf(c)
	at.reach, at.host = byClient{conn}, at.client.Host()
	return at, nil
}

// byClient reaches a cluster by a client that is there already, as kubectl would: a person
// waits, and replaces no credential meanwhile.
type byClient struct{ app.Connection }

// Connect implements app.Reach.
func (b byClient) Connect() (app.Connection, error) { return b.Connection, nil }

// Secrets implements app.Reach.
func (b byClient) Secrets() ([]string, bool) {
	if b.Credential == nil { // in a Pod there is no file
		return nil, false
	}
	return b.Credential.Secrets(), true
}

// ChangedAt implements app.Reach.
func (byClient) ChangedAt() time.Time { return time.Time{} }

// Now implements app.Reach.
func (byClient) Now() time.Time { return time.Now() }

// Snapshot reaches a snapshot that is served, so that a cluster's credential is a kubeconfig
// here as everywhere.
type Snapshot struct {
	app.Reach
	snapshot *snapshot.Snapshot
	client   *kube.Client
	server   *recorded.Server
}

// ReachSnapshot serves a snapshot in the place of a cluster, until Close.
func ReachSnapshot(cluster string, s *snapshot.Snapshot, log *slog.Logger) (*Snapshot, error) {
	server, err := recorded.ServeSnapshot(s, log)
	if err != nil {
		return nil, err
	}
	return &Snapshot{app.ByKubeconfig(config.Cluster{Name: cluster, Kubeconfig: server.Kubeconfig}, log, time.Now), s, s.Client(), server}, nil
}

// Connect implements app.Reach. What the recorded credential may do is asked of the record: a
// guard answers that from its own policy.
func (s *Snapshot) Connect() (app.Connection, error) {
	conn, err := s.Reach.Connect()
	conn.Asker, conn.Recorded = s.client, true
	return conn, err
}

// Now implements app.Reach: a snapshot stands still.
func (s *Snapshot) Now() time.Time { return s.snapshot.CapturedAt }

// Close ends the server.
func (s *Snapshot) Close() error { return s.server.Close() }
