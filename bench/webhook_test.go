package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// alerts is how many alerts one notification holds.
const alerts = 100

// BenchmarkAlertNew takes in notifications of alerts that are all new, each of a
// Deployment of its own; an operation is one notification.
func BenchmarkAlertNew(b *testing.B) {
	postAlerts(b, func(i, n int) string { return fmt.Sprintf("cart-%d-%d", i, n) })
}

// BenchmarkAlertRepeated takes in the same alerts again and again.
func BenchmarkAlertRepeated(b *testing.B) {
	postAlerts(b, func(_, n int) string { return fmt.Sprintf("cart-%d", n) })
}

func postAlerts(b *testing.B, name func(i, n int) string) {
	s, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "n.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	in := intake.New(intake.Config{Store: s, Threshold: nightcrier.Warning, Policy: policy()})
	h, err := webhook.New(webhook.Config{Clusters: []webhook.Cluster{{Name: "prod"}}, Logger: slog.New(slog.DiscardHandler),
		Deliver: func(ctx context.Context, d nightcrier.Delivery) (nightcrier.Outcome, bool, error) {
			dec, err := in.Deliver(ctx, d)
			return dec.Outcome, dec.Repeated, err
		}})
	if err != nil {
		b.Fatal(err)
	}
	face := h.Local()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		var list []any
		for n := range alerts {
			list = append(list, map[string]any{"status": "firing", "startsAt": "2026-11-20T10:00:00Z", "fingerprint": name(i, n),
				"annotations": map[string]string{"summary": "Replicas do not match.", "runbook_url": "https://runbooks.example/KubeDeploymentReplicasMismatch"},
				"labels":      map[string]string{"alertname": "KubeDeploymentReplicasMismatch", "namespace": "shop", "deployment": name(i, n), "severity": "warning"}})
		}
		body, err := json.Marshal(map[string]any{"version": "4", "alerts": list})
		if err != nil {
			b.Fatal(err)
		}
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, webhook.Path+"alertmanager/prod", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		b.StartTimer()
		if face.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/alerts, "µs/alert")
}
