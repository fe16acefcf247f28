package e2e

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// What a watch asks is plain reads: the guard lets them through.
func TestAWatchPassesTheGuard(t *testing.T) {
	t.Parallel()
	cluster := apitest.New(t)
	cluster.Put("pods", "shop", "a", []byte(`{"metadata":{"name":"a","namespace":"shop"}}`))
	base, transport := cluster.Client(t).Upstream()
	g, err := guardkube.New(guardkube.Config{
		Upstream: guardkube.Upstream{Base: base, Transport: transport}, Mask: func(b []byte) []byte { return b }, MaskLog: mask.New([]byte("key")).Log,
		Audit: func(context.Context, guardkube.AuditRecord) error { return nil }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := kube.Over("api.example", g, 20*time.Second)
	n := 0
	version, err := client.ListEach(t.Context(), kube.Selection{Kind: "Pod"}, func([]byte) error { n++; return nil })
	if err != nil || n != 1 {
		t.Fatalf("%d pods, %v", n, err)
	}
	cluster.Put("pods", "shop", "b", []byte(`{"metadata":{"name":"b","namespace":"shop"}}`))
	var changes []string
	enough := errors.New("enough")
	err = client.Watch(t.Context(), kube.Selection{Kind: "Pod"}, version, patience, func(c kube.Change) error {
		if changes = append(changes, c.Type); c.Type == kube.Added {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(changes) < 2 || changes[0] != kube.Opened || changes[1] != kube.Added {
		t.Errorf("changes %v, %v", changes, err)
	}
}
