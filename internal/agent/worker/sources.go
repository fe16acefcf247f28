package worker

import (
	"context"

	"nightcrier.dev/nightcrier/internal/guard/data"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// hasSources says whether the agent may ask for metrics and logs: where it may look
// into the cluster, and there is somebody to ask.
func (a *attempt) hasSources() bool {
	return a.secret.Sources != nil && a.secret.Cluster != nil && (a.executor.UsesTools || a.executor.ToolPrefix != "")
}

// toolSources are the tools that ask them, nil where there are none. Their answers are kept
// and journaled like those of the cluster's guard.
func (a *attempt) toolSources() []tools.Source {
	if !a.hasSources() || a.cluster == nil {
		return nil
	}
	g, err := data.New(data.Config{
		Access: *a.secret.Sources, Mask: a.mask.Bytes, MaskLog: a.mask.Log, Evidence: a.records, Logger: a.log, Now: a.now, Take: a.kept.Take(),
		Audit: func(ctx context.Context, r journal.Request) error {
			return a.cluster.auditRequest(ctx, guardkube.AuditRecord(r))
		},
	})
	if err != nil {
		a.appendNote("warn", "the agent cannot ask for metrics and logs: "+err.Error())
		return nil
	}
	return []tools.Source{tools.Data(g)}
}
