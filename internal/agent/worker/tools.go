package worker

import (
	"context"
	"net"
	"sync/atomic"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/guard/kept"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/journal"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// openTools starts our MCP server on l, which it takes over. What it reads of the
// cluster goes through the cluster's guard.
func (a *attempt) openTools(ctx context.Context, l net.Listener) (err error) {
	if a.tools, err = tools.Start(l, a.toolsConfig(ctx)); err != nil {
		l.Close()
	}
	return err
}

// toolsConfig is what our MCP server offers. It begins the sessions with the operator's servers.
func (a *attempt) toolsConfig(ctx context.Context) tools.Config {
	cfg := tools.Config{
		ClusterName: a.spec.Cluster, Workspace: a.spec.Workspace, Files: toolFiles, Logger: a.log,
		Denied: a.toolDenials(), More: a.toolSources(), Result: a.records.Result,
	}
	if a.cluster != nil {
		cfg.Cluster = a.cluster.guard
	}
	if len(a.spec.ToolServers) > 0 {
		servers := a.toolServers(ctx)
		a.absent = servers.Absent()
		cfg.More = append(cfg.More, servers)
	}
	return cfg
}

// closeTools ends our MCP server and the commands behind it.
func (a *attempt) closeTools() {
	if a.tools == nil {
		return
	}
	if err := a.tools.Close(); err != nil {
		a.log.Warn("end the tools", "error", err)
	}
}

// toolServers opens the operator's MCP servers.
func (a *attempt) toolServers(ctx context.Context) *mcp.Servers {
	own := a.secret.NewSeparateMasker("tools")
	var pins func(string, map[string]toolserver.Pin) (map[string]string, error)
	if a.spec.PinsDir != "" {
		pins = toolserver.Pins{Dir: a.spec.PinsDir}.Match
	}
	return mcp.Open(ctx, a.spec.ToolServers, mcp.Options{
		Variables: a.secret.Variables, SandboxName: a.spec.WorkerName(), SandboxOwner: a.dir.OwnerName(), Dir: string(a.dir), Unconfined: a.spec.Require == agent.RequireNone,
		Mask: func(b []byte) []byte { return a.mask.Bytes(own.Bytes(b)) }, Record: a.records.Record, Journal: a.journalCall, Now: a.now, Take: a.kept.Take(),
		MaskLog: func(b []byte) []byte {
			b, _ = own.Log(b)
			b, _ = a.mask.Log(b)
			return b
		},
		Note: func(text string) { a.appendNote("warn", text) }, Pins: pins,
	})
}

// journalCall tells of a call of a foreign tool, before it is made and after.
func (a *attempt) journalCall(c mcp.Call) error {
	if !c.Done {
		if err := a.records.countDecision(len(c.Command)); err != nil {
			return err
		}
	}
	if c.Denied != "" {
		return a.records.appendItem(journal.OfDenial(journal.Denial{Tool: c.Tool, Command: c.Command, Message: c.Denied}))
	}
	return a.records.appendItem(journal.OfEvidence(journal.Evidence{ID: c.Evidence, Kind: toolserver.Kind, Source: c.Command, Bytes: c.Bytes, SHA256: c.SHA256}))
}

// maxToolDenials is how many refusals of the tools are journaled one by one.
const maxToolDenials = 500

// toolDenials journals what the tools refused, so often that people see it and no
// oftener: an agent can ask for ever.
func (a *attempt) toolDenials() func(tool, what, why string) {
	var n atomic.Int64
	return func(tool, what, why string) {
		switch count := n.Add(1); {
		case count <= maxToolDenials:
			a.recordItems(journal.OfDenial(journal.Denial{Tool: tool, Command: texts.CutBytes(what, 512), Message: why}))
		case count == maxToolDenials+1:
			a.appendNote("warn", "the agent goes on asking for what is not open to it; no more of it is recorded")
		}
	}
}

// toolFiles are what our tools show of the workspace: no directory that holds a token, a
// session or an answer.
var toolFiles = []string{".claude", "context", "incident.json", "incident_cluster_permissions.json", "PROMPT.md"}

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

// keepAnswers begins the record of what others answer, where there is somebody to ask: tool
// servers, or sources of metrics and logs.
func (a *attempt) keepAnswers() error {
	asks := a.executor.UsesTools || a.executor.ToolPrefix != ""
	if !asks || len(a.spec.ToolServers) == 0 && a.secret.Sources == nil && a.spec.Record == "" {
		return nil
	}
	ws, err := a.openWorkspace()
	if err == nil {
		a.kept, err = kept.BeginAttempt(ws, kept.AttemptOptions{
			RunID: a.spec.RunID, Attempt: a.spec.Attempt, Mask: a.mask.Bytes, Sources: a.secret.Sources, From: a.spec.Record,
		})
	}
	switch {
	case err == nil:
		a.secret.Sources = a.kept.Sources
		if a.kept.Lacking != nil {
			a.appendNote("warn", a.kept.Lacking.Error())
		}
		return nil
	case a.spec.Record != "":
		return err // nobody is to be asked, and nothing answers
	}
	a.appendNote("warn", "what the tools of others, metrics and logs answer is not kept: "+err.Error())
	return nil
}

// endAnswers ends the record.
func (a *attempt) endAnswers() {
	if err := a.kept.Close(); err != nil {
		a.log.Warn("what others answered is not kept", "error", err)
		a.lacksRoom("the record of what others answered", err)
	}
}
