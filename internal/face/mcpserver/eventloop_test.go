package mcpserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// brief is an API server, or a proxy before one, that ends every watch at once.
type brief struct {
	API
	watches int
	stop    func() // a loop without a pause would never end in fake time
}

func (b *brief) List(context.Context, string, string, string, string, int) ([]byte, error) {
	return []byte(`{"metadata":{"resourceVersion":"1"}}`), nil
}

func (b *brief) Watch(context.Context, kube.Selection, string, time.Duration, func(kube.Change) error) error {
	if b.watches++; b.watches > 1000 {
		b.stop()
	}
	return nil
}

func TestWatchesThatEndAtOnceAreNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &brief{}
		l := &eventLoop{feed: &feed{cluster: Cluster{API: api}}, settled: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		api.stop = cancel
		l.runWatches(ctx)
		if why, _ := l.watchState(); api.watches < 2 || api.watches > 60 || why == "" {
			t.Errorf("%d watches in a minute, and it says %q", api.watches, why)
		}
	})
}
