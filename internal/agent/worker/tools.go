package worker

import (
	"context"
	"net"
	"sync/atomic"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/journal"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// openTools starts our MCP server on l, which it takes over. What it reads of the
// cluster goes through the cluster's guard.
func (a *attempt) openTools(ctx context.Context, l net.Listener) (err error) {
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
	if a.tools, err = tools.Start(l, cfg); err != nil {
		l.Close()
	}
	return err
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
	return mcp.Open(ctx, a.spec.ToolServers, mcp.Options{
		Variables: a.secret.Variables, SandboxName: a.spec.WorkerName(), SandboxOwner: a.dir.OwnerName(), Dir: string(a.dir), Unconfined: a.spec.Require == agent.RequireNone,
		Mask: func(b []byte) []byte { return a.mask.Bytes(own.Bytes(b)) }, Record: a.records.Record, Journal: a.journalCall, Now: a.now, Take: a.kept.Take(),
		MaskLog: func(b []byte) []byte {
			b, _ = own.Log(b)
			b, _ = a.mask.Log(b)
			return b
		},
		Note: func(text string) { a.appendNote("warn", text) },
	})
}

// journalCall tells of a call of a foreign tool, before it is made and after.
func (a *attempt) journalCall(c mcp.Call) error {
	if c.Denied != "" {
		return a.records.appendItem(journal.OfDenial(journal.Denial{Tool: c.Tool, Command: c.Command, Message: c.Denied}))
	}
	if !c.Done {
		if err := a.records.countDecision(len(c.Command)); err != nil {
			return err
		}
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
