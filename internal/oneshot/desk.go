package oneshot

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
)

// keptFindings is how many investigations of its own a desk remembers.
const keptFindings = 50

// desk investigates for MCP clients, each time with a store of its own, and
// remembers what came of it beside the incidents of a server.
type desk struct {
	options  MCPOptions
	contexts []servedContext
	next     mcpserver.Records // nil when there is no server

	mu   sync.Mutex
	done []mcpserver.Finding // the newest first
}

// Investigate implements mcpserver.Investigator.
func (d *desk) Investigate(ctx context.Context, cluster string, of nightcrier.Resource) (mcpserver.Finding, error) {
	o := triage.Options{
		Config: d.options.Config, Logger: d.options.Logger, Version: d.options.Version, Target: of, Cluster: cluster,
		Kubeconfig: d.options.Kubeconfig, Executor: d.options.Executor, WorkerCommand: d.options.WorkerCommand,
	}
	for _, sc := range d.contexts {
		if sc.cluster == cluster {
			o.Context = sc.context
		}
	}
	t, err := triage.Run(ctx, o)
	if err != nil {
		return mcpserver.Finding{}, err
	}
	f := mcpserver.Finding{Incident: t.Incident, Report: t.Report, Markdown: t.Markdown}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = slices.Insert(d.done, 0, f)
	d.done = d.done[:min(len(d.done), keptFindings)]
	return f, nil
}

// Report implements mcpserver.Records.
func (d *desk) Report(ctx context.Context, id string, markdown bool) ([]byte, error) {
	if f, ok := d.findDone(id); ok {
		switch {
		case f.Report == nil:
			return nil, nightcrier.Errorf(nightcrier.NoReport, "incident %s has no report", id)
		case markdown:
			return f.Markdown, nil
		}
		return json.MarshalIndent(f.Report, "", "  ")
	}
	if d.next == nil {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "no incident %s here; search_incidents lists them", id)
	}
	return d.next.Report(ctx, id, markdown)
}

func (d *desk) findDone(id string) (mcpserver.Finding, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.done, func(f mcpserver.Finding) bool { return f.Incident.ID == id })
	if i < 0 {
		return mcpserver.Finding{}, false
	}
	return d.done[i], true
}

// Search implements mcpserver.Records.
func (d *desk) Search(ctx context.Context, status, cluster string, since time.Time, limit int) ([]nightcrier.Incident, error) {
	var list []nightcrier.Incident
	d.mu.Lock()
	for _, f := range d.done {
		inc := f.Incident
		if (status == "" || string(inc.Status) == status) && (cluster == "" || inc.Cluster == cluster) && !inc.CreatedAt.Before(since) {
			list = append(list, inc)
		}
	}
	d.mu.Unlock()
	if d.next != nil {
		more, err := d.next.Search(ctx, status, cluster, since, limit)
		if err != nil && len(list) == 0 { // what was investigated here can be told without a server
			return nil, err
		}
		list = append(list, more...)
	}
	slices.SortStableFunc(list, func(a, b nightcrier.Incident) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list[:min(len(list), limit)], nil
}
