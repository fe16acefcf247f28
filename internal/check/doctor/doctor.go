package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/notify/slack"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// Check is one thing that was looked at. The codes are documented in docs/cli.md.
type Check struct {
	// Code names the check, Name the thing it looked at.
	Code string `json:"code"`
	Name string `json:"name"`
	// Status is ok, warn or fail.
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
}

// The codes of checks.
const (
	CheckDisk  = "disk"
	CheckStore = "store"
	// CheckListen and the three below it are whether the configured addresses can be
	// listened on; their names are those of the keys.
	CheckListen        = "listen"
	CheckHealthListen  = "health_listen"
	CheckWebhookListen = "webhook_listen"
	CheckPageListen    = "page_listen"
	CheckCluster       = "cluster"
	// CheckCredential is what the cluster's credential may do.
	CheckCredential = "credential"
	// CheckWatch is what a watch needs of it.
	CheckWatch  = "watch"
	CheckSource = "source"
	// CheckSources is whether metrics and logs can be asked for.
	CheckSources = "sources"
	CheckAgent   = "agent"
	// CheckModel is whether an agent has a key for its model.
	CheckModel   = "model"
	CheckSandbox = "sandbox"
	// CheckRunbooks is whether the files of runbooks.dir can ever match.
	CheckRunbooks = "runbooks"
	CheckSlack    = "slack"
	// CheckSkills is whether what agents are taught is there and whole.
	CheckSkills = "skills"
	// CheckTools is whether an MCP server of tool_servers answers, and what agents get.
	CheckTools = "tools"
)

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"

	lowDisk       = 1 << 30
	doctorTimeout = 10 * time.Second
	doctorAtOnce  = 16
)

// Options say how far Doctor goes.
type Options struct {
	// AllAgents looks at every agent CLI that is known, not only at the one that is
	// configured.
	AllAgents bool
	// CheckKey calls the provider to learn whether the key is accepted.
	CheckKey bool
	// ListTools asks the configured MCP servers what they have.
	ListTools func(context.Context, *config.Config) []mcp.Offered
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
}

// Run looks at everything that serve would need, changes nothing, and sends
// no message.
func Run(ctx context.Context, cfg *config.Config, o Options) []Check {
	checks := []Check{checkDisk(cfg), checkStore(ctx, cfg)}
	checks = append(checks, checkListen(ctx, cfg)...)
	checks = append(checks, checkAgents(ctx, cfg, o)...)
	checks = append(checks, checkSandbox(ctx, cfg), checkSkills(cfg), checkRunbooks(cfg), checkSlack(cfg))
	checks = append(checks, checkToolServers(o.ListTools(ctx, cfg))...)
	return append(checks, checkClusters(ctx, cfg)...)
}

func checkDisk(cfg *config.Config) Check {
	c := Check{Code: CheckDisk, Name: cfg.WorkspaceRoot}
	dir := nearestDir(cfg.WorkspaceRoot)
	if err := checkUsable(dir, cfg.WorkspaceRoot); err != nil {
		return c.asFailed(err, "make the directory writable for this user and for no other, or set workspace_root")
	}
	space, err := portable.SpaceOf(dir)
	if err != nil {
		return c.asFailed(err, "")
	}
	c.Status, c.Detail = statusOK, fmt.Sprintf("%d MiB free", space.Free>>20)
	if space.Free < lowDisk {
		c.Status, c.Hint = statusWarn, "an incident may use 256 MiB; free some space or set retention lower"
	}
	return c
}

// checkUsable asks what a server asks of its workspace root or, before the first start, whether
// it can be made in dir.
func checkUsable(dir, root string) error {
	if dir == root {
		return workspace.CheckRoot(root)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// nearestDir is dir, or what there is of its path: the workspace root is made at the
// first start.
func nearestDir(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func checkStore(ctx context.Context, cfg *config.Config) Check {
	c, hint := Check{Code: CheckStore, Name: "SQLite in the workspace root"}, "run this as the user that the server runs as"
	o := store.Options{URL: cfg.DatabaseURL.Reveal(), Path: filepath.Join(cfg.WorkspaceRoot, store.FileName)}
	if o.URL != "" {
		c.Name, hint = "PostgreSQL", "check database_url and that the server answers"
	} else if _, err := os.Stat(o.Path); err != nil {
		return c.asOK("is made at the first start")
	}
	st, err := store.OpenReadOnly(ctx, o)
	if err != nil {
		return c.asFailed(err, hint)
	}
	defer st.Close()
	n, err := st.Counts(ctx)
	if err != nil {
		return c.asFailed(err, "")
	}
	return c.asOK(fmt.Sprintf("%d runs queued, %d running", n.Queued, n.Leases))
}

// checkListen tries each address of a server, under the key that names it.
func checkListen(ctx context.Context, cfg *config.Config) (checks []Check) {
	try := func(code, address string, one api.ServerConfig) {
		one.Socket = filepath.Join(cfg.WorkspaceRoot, api.SocketName)
		c := Check{Code: code, Name: address}
		switch served, err := api.NewServer(one).Try(ctx); {
		case err != nil:
			checks = append(checks, c.asFailed(err, "stop what listens there, or set another address"))
		case served:
			checks = append(checks, c.asOK("a server of this workspace root runs"))
		default:
			checks = append(checks, c.asOK("free"))
		}
	}
	if cfg.Listen != "" {
		try(CheckListen, cfg.Listen, api.ServerConfig{Listen: cfg.Listen})
	}
	if cfg.HealthListen != "" {
		try(CheckHealthListen, cfg.HealthListen, api.ServerConfig{HealthListen: cfg.HealthListen})
	}
	if cfg.WebhookListen != "" {
		try(CheckWebhookListen, cfg.WebhookListen, api.ServerConfig{WebhookListen: cfg.WebhookListen})
	}
	if cfg.Page.Listen != "" {
		try(CheckPageListen, cfg.Page.Listen, api.ServerConfig{PageListen: cfg.Page.Listen})
	}
	return checks
}

func checkSandbox(ctx context.Context, cfg *config.Config) Check {
	c := Check{Code: CheckSandbox, Name: cfg.Agent.Require}
	if cfg.Agent.Executor == config.Builtin {
		return c.asOK("not needed: no agent is started" + describeGranted(ctx, cfg))
	}
	held, err := process.Probe(ctx, nearestDir(cfg.WorkspaceRoot))
	if err != nil {
		return c.asFailed(err, process.Remedy(process.Floor(held.Layers)))
	}
	return judgeSandbox(c, cfg.Agent.Require, held.Layers, held.Notes)
}

// judgeSandbox says what the layers mean for what is required.
func judgeSandbox(c Check, require string, held, notes []string) Check {
	missing := process.Strict(held)
	c = c.asOK(strings.Join(held, " "))
	if len(missing) > 0 {
		c.Status = statusWarn
		c.Detail = strings.Join(append([]string{c.Detail + "; missing: " + strings.Join(missing, " ")}, notes...), "; ")
		c.Hint = process.Remedy(missing)
		if require == agent.RequireStrict {
			c.Status = statusFail
		}
	}
	if floor := process.Floor(held); len(floor) > 0 && require != agent.RequireNone {
		c.Status, c.Hint = statusFail, process.Remedy(floor)
		c.Detail += "; no agent is started without " + strings.Join(floor, " ")
	}
	return c
}

// describeGranted says which layers an agent would have here, for whoever thinks of one.
func describeGranted(ctx context.Context, cfg *config.Config) string {
	held, err := process.Probe(ctx, nearestDir(cfg.WorkspaceRoot))
	if err != nil {
		return "; this machine would hold none: " + err.Error()
	}
	said := "; this machine would hold one by " + strings.Join(held.Layers, " ")
	if missing := process.Strict(held.Layers); len(missing) > 0 {
		said += ", without " + strings.Join(missing, " ")
	}
	return said
}

// maxShown is how many problems of one kind a check names.
const maxShown = 5

func checkSkills(cfg *config.Config) Check {
	c := Check{Code: CheckSkills, Name: strings.Join(cfg.Skills.Names(), ", ")}
	all, _, err := cfg.Skills.Find()
	if err != nil {
		return c.asFailed(err, "see `nightcrier skills list`, and `nightcrier skills validate DIR`")
	}
	var detail []string
	for _, s := range all {
		detail = append(detail, strings.TrimSpace(s.Version+" from "+s.From))
	}
	return c.asOK(strings.Join(detail, ", "))
}

func checkRunbooks(cfg *config.Config) Check {
	c := Check{Code: CheckRunbooks, Name: cmp.Or(cfg.Runbooks.Dir, "runbooks.dir")}
	if cfg.Runbooks.Dir == "" {
		return c.asOK("not configured: no files are joined to reports")
	}
	books, problems := runbook.Load(cfg.Runbooks.Dir)
	for _, b := range books {
		for _, id := range b.Causes() {
			if !slices.ContainsFunc(diagnose.Causes(), func(known diagnose.Cause) bool { return known.ID == id }) {
				problems = append(problems, fmt.Errorf("%s: match.cause: no rule finds %q", b.File, id))
			}
		}
	}
	if n := len(problems); n > 0 {
		return c.asFailed(errors.Join(problems[:min(n, maxShown)]...), fmt.Sprintf("mend the files (%d problems); the other %d are used", n, len(books)))
	}
	return c.asOK(fmt.Sprintf("%d files", len(books)))
}

func checkSlack(cfg *config.Config) Check {
	c := Check{Code: CheckSlack, Name: "incoming webhook"}
	if !cfg.Slack.WebhookURL.IsSet() {
		return c.asOK("not configured: outcomes are announced nowhere")
	}
	if _, err := slack.New(cfg.Slack.WebhookURL.Reveal(), slack.Options{}); err != nil {
		return c.asFailed(err, "copy the address from Slack's app settings")
	}
	return c.asOK("address is well-formed; nothing was sent")
}

// checkClusters asks all clusters at once, a few at a time, in their order.
func checkClusters(ctx context.Context, cfg *config.Config) []Check {
	if len(cfg.Clusters) == 0 {
		return []Check{{Code: CheckSource, Name: "clusters", Status: statusWarn, Detail: "none is configured: a server would watch nothing",
			Hint: "name one in the file given with --config, or set K8S_CLUSTER_MCP_ENDPOINT"}}
	}
	results := make([][]Check, len(cfg.Clusters))
	places := make(chan struct{}, doctorAtOnce)
	var wg sync.WaitGroup
	for i, cl := range cfg.Clusters {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
			defer cancel()
			results[i] = append(checkFaults(ctx, cfg, cl), checkAccess(ctx, cl)...)
			results[i] = append(results[i], checkSources(ctx, cl)...)
		})
	}
	wg.Wait()
	var all []Check
	for _, r := range results {
		all = append(all, r...)
	}
	return all
}

// checkAccess looks at whether a cluster can be read, and what else its
// credential could do.
func checkAccess(ctx context.Context, cl config.Cluster) []Check {
	c := Check{Code: CheckCluster, Name: cl.Name}
	if cl.Kubeconfig == "" {
		c.Status, c.Detail, c.Hint = statusWarn, "no kubeconfig", "investigations see only what events say; set clusters[].kubeconfig to a read-only credential"
		return []Check{c}
	}
	client, err := kube.Dial(cl.Kubeconfig, cl.Context, doctorTimeout)
	if err != nil {
		return []Check{c.asFailed(err, "check clusters[].kubeconfig and context")}
	}
	defer client.Close()
	c = checkCluster(ctx, c, cl, client)
	if c.Status == statusFail {
		return []Check{c}
	}
	checks := []Check{c, checkCredential(ctx, cl, client)}
	if cl.Watch {
		checks = append(checks, checkWatch(ctx, cl, client))
	}
	return checks
}

func checkCluster(ctx context.Context, c Check, cl config.Cluster, client *kube.Client) Check {
	if err := client.Check(ctx, cl.Namespaces...); err != nil {
		if nightcrier.CodeOf(err) == nightcrier.Refused {
			return c.asFailed(err, "grant it get, list and watch: `nightcrier rbac manifest` prints all that is read; one for some namespaces alone needs clusters[].namespaces")
		}
		return c.asFailed(err, "check the server's address in the kubeconfig, and that it can be reached from here")
	}
	version, err := client.Version(ctx)
	if err != nil {
		return c.asFailed(err, "")
	}
	return c.asOK(client.Host() + ", " + version)
}

// checkCredential asks what serve would ask, and says what it would decide.
func checkCredential(ctx context.Context, cl config.Cluster, client *kube.Client) Check {
	gate := preflight.NewGate(preflight.Config{
		Clusters: []string{cl.Name}, Ask: func(string) (preflight.Asker, error) { return client, nil },
		Namespaces: func(string) []string { return cl.Namespaces },
		Allowed:    func(string) bool { return cl.AllowWriteCredential }, Enforce: true, Logger: slog.New(slog.DiscardHandler),
	})
	gate.Refresh(ctx)
	c := Check{Code: CheckCredential, Name: cl.Name}
	known := gate.Access(cl.Name)
	switch {
	case !known.Agents:
		c.Status, c.Detail, c.Hint = statusWarn, "agents get no access: "+strings.TrimSuffix(known.Detail, ". "+preflight.Remedy), preflight.Remedy
	case known.ReadOnly != string(preflight.Yes):
		c.Status, c.Detail, c.Hint = statusWarn, known.Detail, "`nightcrier rbac manifest` prints what a read-only credential needs"
	default:
		c = c.asOK("read-only")
	}
	return c
}

func (c Check) asOK(detail string) Check {
	c.Status, c.Detail = statusOK, detail
	return c
}

func (c Check) asFailed(err error, hint string) Check {
	c.Status, c.Detail, c.Hint = statusFail, err.Error(), hint
	return c
}
