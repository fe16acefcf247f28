package app

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/eval"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
)

// EvalOptions say which cases are run, and by whom.
type EvalOptions struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// Dir is searched for cases.
	Dir string
	// Executor is who investigates; builtin runs the rules alone.
	Executor string
	// WorkerCommand is that of Options.
	WorkerCommand []string
}

// Eval investigates all cases below a directory and scores what came of it.
func Eval(ctx context.Context, o EvalOptions) (eval.Result, error) {
	cases, err := eval.Load(o.Dir)
	if err != nil {
		return eval.Result{}, err
	}
	look := o.triageCase
	if o.Executor == config.Builtin {
		look = o.diagnoseCase
	}
	return eval.Run(ctx, cases, look)
}

// diagnoseCase applies the rules to a case, read through a guard as a cluster is.
func (o EvalOptions) diagnoseCase(ctx context.Context, c eval.Case) (_ *nightcrier.Report, err error) {
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
	masker := mask.New([]byte(rand.Text())).Learning(snap.Cluster)
	guard, err := guardkube.New(guardkube.Config{
		Upstream: upstreamOf(snap), Mask: masker.Bytes, MaskLog: masker.Log, Logger: o.Logger,
		Audit: func(context.Context, guardkube.AuditRecord) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	target, err := targetOf(c)
	if err != nil {
		return nil, err
	}
	d, err := diagnose.Run(ctx, diagnose.Input{
		Event:    nightcrier.Event{Cluster: snap.Cluster, Resource: target, FaultType: nightcrier.Asked, Severity: nightcrier.ErrorSeverity},
		Reader:   recorded{kube.Over(snapshot.Host, guard, 0)},
		Evidence: rec, Mask: masker.String,
		Now: func() time.Time { return snap.CapturedAt },
	})
	return &d.Report, err
}

func upstreamOf(s *snapshot.Snapshot) guardkube.Upstream {
	base, transport := s.Client().Upstream()
	return guardkube.Upstream{Base: base, Transport: transport}
}

// recorded reads a snapshot, on which nobody has any permission but to read.
type recorded struct{ *kube.Client }

// Permissions implements diagnose.Reader.
func (recorded) Permissions(context.Context, string) (map[string]any, error) { return nil, nil }

// targetOf is what a case asks about.
func targetOf(c eval.Case) (nightcrier.Resource, error) {
	kind, name := c.Asked()
	return completeResource(nightcrier.Resource{Kind: kind, Namespace: c.Namespace, Name: name})
}

// triageCase lets an agent investigate a case as it would a cluster.
func (o EvalOptions) triageCase(ctx context.Context, c eval.Case) (*nightcrier.Report, error) {
	snap, err := snapshot.Open(c.Dir)
	if err != nil {
		return nil, err
	}
	kind, name := c.Asked()
	t, err := Triage(ctx, TriageOptions{
		Config: o.Config, Logger: o.Logger, Version: o.Version, WorkerCommand: o.WorkerCommand,
		Target: nightcrier.Resource{Kind: kind, Namespace: c.Namespace, Name: name}, Snapshot: snap, Cluster: snap.Cluster, Executor: o.Executor,
	})
	if err == nil && t.Report == nil {
		err = nightcrier.Errorf(nightcrier.NoReport, "%s: no report: %s", c.Name, t.Incident.FailureReason)
	}
	return t.Report, err
}

// Causes are what reports name: the published causes, and the verdicts that stand
// in their place where there is no root cause.
func Causes() []diagnose.Cause {
	return append(diagnose.Causes(),
		diagnose.Cause{ID: string(nightcrier.VerdictHealthy), Category: "Verdict", Meaning: "everything that was looked at is well"},
		diagnose.Cause{ID: string(nightcrier.VerdictRecovered), Category: "Verdict", Meaning: "there was a fault, and it is over"},
		diagnose.Cause{ID: string(eval.Noise), Category: "Verdict", Meaning: "there are warnings that ask for nothing: all is well"},
		diagnose.Cause{ID: string(nightcrier.VerdictUndetermined), Category: "Verdict", Meaning: "the evidence does not carry a cause"},
	)
}
