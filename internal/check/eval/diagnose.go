package eval

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/diagnose"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
)

// Diagnose applies the rules alone to a case, read through a guard as a cluster is.
func Diagnose(ctx context.Context, c Case, log *slog.Logger) (_ *nightcrier.Report, err error) {
	snap, err := snapshot.Open(c.Dir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nightcrier-eval-")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "evidence of %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rec, err := evidence.Open(dir)
	if err != nil {
		return nil, err
	}
	defer rec.Close()
	masker := mask.Fresh()
	masker.Spare(snap.Cluster)
	guard, err := guardkube.New(guardkube.Config{
		Upstream: recorded.UpstreamOf(snap), Mask: masker.Bytes, MaskLog: masker.Log, Logger: log,
		Audit: func(context.Context, guardkube.AuditRecord) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	kind, name := c.Asked()
	target, err := kinds.Complete(nightcrier.Resource{Kind: kind, Namespace: c.Namespace, Name: name})
	if err != nil {
		return nil, err
	}
	d, err := diagnose.Run(ctx, diagnose.Input{
		Event:    nightcrier.Event{Cluster: snap.Cluster, Resource: target, FaultType: nightcrier.Asked, Severity: nightcrier.ErrorSeverity},
		Reader:   readOnly{kube.Over(snapshot.Host, guard, 0)},
		Evidence: rec, Mask: masker.String,
		Now: func() time.Time { return snap.CapturedAt },
	})
	return &d.Report, err
}

// readOnly reads a snapshot, on which nobody has any permission but to read.
type readOnly struct{ *kube.Client }

// Permissions implements diagnose.Reader.
func (readOnly) Permissions(context.Context, string) (map[string]any, error) { return nil, nil }

// Causes are what reports name: the published causes, and the verdicts that stand
// in their place where there is no root cause.
func Causes() []diagnose.Cause {
	return append(diagnose.Causes(),
		diagnose.Cause{ID: string(nightcrier.VerdictHealthy), Category: "Verdict", Meaning: "everything that was looked at is well"},
		diagnose.Cause{ID: string(nightcrier.VerdictRecovered), Category: "Verdict", Meaning: "there was a fault, and it is over"},
		diagnose.Cause{ID: string(Noise), Category: "Verdict", Meaning: "there are warnings that ask for nothing: all is well"},
		diagnose.Cause{ID: string(nightcrier.VerdictUndetermined), Category: "Verdict", Meaning: "the evidence does not carry a cause"},
	)
}
