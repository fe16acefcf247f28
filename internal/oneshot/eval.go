package oneshot

import (
	"context"
	"log/slog"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/eval"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
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
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
}

// Eval investigates all cases below a directory and scores what came of it.
func Eval(ctx context.Context, o EvalOptions) (eval.Result, error) {
	cases, err := eval.Load(o.Dir)
	if err != nil {
		return eval.Result{}, err
	}
	return eval.Run(ctx, cases, o.investigate())
}

// TryGates changes all cases below a directory and looks whether what is said follows.
func TryGates(ctx context.Context, o EvalOptions) ([]eval.Trial, error) {
	cases, err := eval.Load(o.Dir)
	if err != nil {
		return nil, err
	}
	return eval.TryGates(ctx, cases, o.investigate())
}

// investigate is how the executor looks at a case.
func (o EvalOptions) investigate() eval.Investigate {
	if o.Executor != config.Builtin {
		return o.triageCase
	}
	return func(ctx context.Context, c eval.Case) (*nightcrier.Report, error) {
		return eval.Diagnose(ctx, c, o.Logger)
	}
}

// triageCase lets an agent investigate a case as it would a cluster.
func (o EvalOptions) triageCase(ctx context.Context, c eval.Case) (*nightcrier.Report, error) {
	snap, err := snapshot.Open(c.Dir)
	if err != nil {
		return nil, err
	}
	kind, name := c.Asked()
	t, err := triage.Run(ctx, triage.Options{
		Config: o.Config, Logger: o.Logger, Version: o.Version, WorkerCommand: o.WorkerCommand,
		Target: nightcrier.Resource{Kind: kind, Namespace: c.Namespace, Name: name}, Snapshot: snap, Cluster: snap.Cluster, Executor: o.Executor,
	})
	if err == nil && t.Report == nil {
		err = nightcrier.Errorf(nightcrier.NoReport, "%s: no report: %s", c.Name, t.Incident.FailureReason)
	}
	return t.Report, err
}
