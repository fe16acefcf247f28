package snapshot

import (
	"net/http"

	"nightcrier.dev/nightcrier/internal/cluster/inprocess"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// Host is what a snapshot is called where an API server's address would stand.
const Host = "snapshot"

// Transport answers requests in this process, without a connection.
func (s *Snapshot) Transport() http.RoundTripper { return inprocess.Transport{Handler: s.Handler()} }

// Client reads the snapshot as a cluster is read.
func (s *Snapshot) Client() *kube.Client { return kube.Over(Host, s.Transport(), 0) }
