package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/face/api/sock"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/triage/report"

	"github.com/spf13/cobra"
)

// maxReport bounds what is read of a report.
const maxReport = 8 << 20

// named is a kind of thing that has an id.
type named struct {
	one, many string
	// steps is how wide the names of steps are at least where it is followed.
	steps stepColumn
	// newest lists the ids of the newest ones, at most so many.
	newest func(ctx context.Context, c *client.Client, most int) ([]string, error)
}

var incidentNames = named{"an incident", "incidents", 0, func(ctx context.Context, c *client.Client, most int) (ids []string, err error) {
	list, err := c.Incidents(ctx, client.IncidentQuery{Limit: most})
	for _, inc := range list.Incidents {
		ids = append(ids, inc.ID)
	}
	return ids, err
}}

var runNames = named{"a run", "runs", 8, func(ctx context.Context, c *client.Client, most int) (ids []string, err error) {
	list, err := c.Runs(ctx, client.RunQuery{Limit: most})
	for _, run := range list.Runs {
		ids = append(ids, run.ID)
	}
	return ids, err
}}

// runWithClient is runWithClientOf for commands whose first argument is an incident's id.
func (p *program) runWithClient(cmd *cobra.Command, do func(ctx context.Context, c *client.Client, given []string) error) *cobra.Command {
	return p.runWithClientOf(incidentNames, cmd, do)
}

// runWithClientOf gives cmd what it needs to reach a server, and runs do with a client and
// the arguments, of which the first is the id of such a thing. The context ends at the first
// signal.
func (p *program) runWithClientOf(thing named, cmd *cobra.Command, do func(ctx context.Context, c *client.Client, given []string) error) *cobra.Command {
	cmd.Flags().StringVar(&p.server, "server", "", "address of the server, http://host:port (default the server of workspace_root)")
	configFlags(cmd, "workspace-root")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) > 0 && !nightcrier.ValidID(given[0]) && !idBeginning.MatchString(given[0]) {
			return usageError(cmd, fmt.Errorf("%q is not the ID of %s, nor the beginning of one: `nightcrier %s list` shows them", given[0], thing.one, thing.many))
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		c, end, err := p.connectClient(ctx, cmd)
		if err != nil {
			return err
		}
		if len(given) > 0 {
			given[0], err = thing.wholeID(ctx, c, given[0])
		}
		if err == nil {
			err = do(ctx, c, given)
		}
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			err = hinted{err, "`nightcrier " + thing.many + " list` shows those that are kept"}
		}
		return errors.Join(err, end())
	}
	return cmd
}

// idBeginning is what can be completed to an id: its first part at least.
var idBeginning = regexp.MustCompile(`^[0-9a-f]{8}[0-9a-f-]{0,27}$`)

// newest is how many the beginning of an id is looked for in.
const newest = 1000

// wholeID completes the beginning of an id, which is all that a narrow terminal shows.
func (n named) wholeID(ctx context.Context, c *client.Client, id string) (string, error) {
	if nightcrier.ValidID(id) {
		return id, nil
	}
	ids, err := n.newest(ctx, c, newest)
	if err != nil {
		return "", err
	}
	fits := slices.DeleteFunc(ids, func(other string) bool { return !strings.HasPrefix(other, id) })
	switch len(fits) {
	case 1:
		return fits[0], nil
	case 0:
		return "", nightcrier.Errorf(nightcrier.NotFound, "the id of none of the %d newest %s begins with %s", newest, n.many, id)
	}
	return "", nightcrier.Errorf(nightcrier.Invalid, "the ids of %d %s begin with %s, such as %s and %s: say more of it", len(fits), n.many, id, fits[0], fits[1])
}

// connectClient finds whom to ask: the server at --server, the one that owns
// workspace_root, or, when none runs, the store itself, to read only.
func (p *program) connectClient(ctx context.Context, cmd *cobra.Command) (*client.Client, func() error, error) {
	nothing := func() error { return nil }
	if p.server != "" {
		c, err := client.HTTP(p.server)
		if err == nil {
			c.Token = p.envVariable(api.TokenVariable)
		}
		return c, nothing, err
	}
	cfg, _, err := p.loadWithWarnings(cmd)
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(cfg.WorkspaceRoot, api.SocketName)
	if conn, err := sock.Dial(ctx, socket); err == nil {
		conn.Close()
		c := client.Unix(socket)
		c.Token = p.envVariable(api.TokenVariable)
		return c, nothing, nil
	}
	s, err := store.OpenReadOnly(ctx, store.Options{URL: cfg.DatabaseURL.Reveal(), Path: filepath.Join(cfg.WorkspaceRoot, "nightcrier.db"),
		Logger: slog.New(slog.DiscardHandler), Now: p.now})
	if err != nil {
		return nil, nil, noServer(cfg, err)
	}
	p.printMessage("No server runs for %s; this is what its store holds.", cfg.WorkspaceRoot)
	return client.InProcess(offlineAPI(cfg, s)), s.Close, nil
}

// noServer explains that nobody can answer.
func noServer(cfg *config.Config, err error) error {
	if nightcrier.CodeOf(err) != nightcrier.NotFound {
		return err
	}
	return hinted{nightcrier.Errorf(nightcrier.Unreachable, "no server runs for %s, and there is no store in it", cfg.WorkspaceRoot),
		"start one with `nightcrier serve --config FILE`, name its directory with --workspace-root, or try `nightcrier demo`"}
}

// offlineAPI answers from a store that no server owns.
func offlineAPI(cfg *config.Config, s *store.Store) *api.API {
	return api.New(api.Options{Version: buildVersion().Version, Incidents: s, Events: s, Runs: s, Approvals: s, Clusters: idle(cfg.Clusters),
		Limits: func() store.Limits {
			return store.Limits{Total: cfg.MaxConcurrentAgents, PerKey: cfg.MaxConcurrentPerCluster}
		},
		Markdown: reportReader(cfg.WorkspaceRoot), Logger: slog.New(slog.DiscardHandler)})
}

// idle are the clusters of a configuration that no server watches.
type idle []config.Cluster

// Statuses implements api.Clusters.
func (c idle) Statuses() []nightcrier.SourceStatus {
	var list []nightcrier.SourceStatus
	for _, cl := range c {
		st := nightcrier.SourceStatus{Cluster: cl.Name, Labels: cl.Labels, Source: "mcp", State: nightcrier.SourceStopped, LastError: "no server runs"}
		if cl.MCP.Endpoint != "" || !cl.Watch {
			list = append(list, st)
		}
		if cl.Watch {
			st.Source = "watch"
			list = append(list, st)
		}
	}
	return list
}

// reportReader returns the report for people: what the investigation has left
// in its workspace, or the stored report once the workspace is gone.
func reportReader(root string) func(context.Context, nightcrier.Incident, []byte) ([]byte, error) {
	return func(_ context.Context, inc nightcrier.Incident, raw []byte) ([]byte, error) {
		f, err := os.OpenInRoot(root, filepath.Join("incident-"+inc.ID, "output", "final-report.md"))
		if err == nil {
			defer f.Close()
			md, err := io.ReadAll(io.LimitReader(f, maxReport))
			return report.MarkOver(md, &inc), err
		}
		var r nightcrier.Report
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Internal, "the report of %s is not readable: %w", inc.ID, err)
		}
		return report.Final(&r, report.Detail{Incident: &inc}), nil
	}
}
