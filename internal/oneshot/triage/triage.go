package triage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Options say what is to be investigated now: one of Target, Event and Alert.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// Target is an object to look at; its kind may be written as kubectl takes it, and
	// without a namespace it is in that of the context.
	Target nightcrier.Resource
	// Question is what a person wants to know of the target, in words; "" for how it is.
	Question string
	// Event is a notification as a source would have sent it.
	Event []byte
	// Alert is a notification of Alertmanager, a list of alerts, or one; of several
	// the most severe that fires is taken.
	Alert []byte
	// Kubeconfig and Context are the credential. With both empty that of the
	// configured cluster is taken, else kubectl's own default. An Event and an Alert
	// say something without one; where there is none, no cluster is looked at.
	Kubeconfig, Context string
	// Snapshot is looked at in place of a live cluster, as of its own moment.
	Snapshot *snapshot.Snapshot
	// Cluster is the name in the report; empty means the configured one, the event's own,
	// that of the context as kubectl shows it, or "local" in a Pod.
	Cluster string
	// Executor and Timeout replace the configured ones, Out the temporary directory.
	Executor string
	Timeout  time.Duration
	Out      string
	// IncidentID is the id of the incident to open; empty makes one.
	IncidentID string
	// Slack is told how it ended; the configured one is not, as somebody is waiting.
	Slack config.Slack
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
	// Progress, where it is set, is told what goes on.
	Progress func(Progress)
}

// Result is what came of a triage.
type Result struct {
	Incident nightcrier.Incident
	// Report is nil when there is none; Markdown is the same for people.
	Report   *nightcrier.Report
	Markdown []byte
	// Others is how many more alerts fire in the payload.
	Others int
	// Host is the live cluster that was asked, "" for none.
	Host string
}

// ReportFile is the whole report in the incident's workspace.
func (t Result) ReportFile() string { return filepath.Join(t.Incident.Workspace, report.FinalFile) }

// Run investigates one thing with a store of its own. A Target that cannot be
// read is an error: NotFound, or Unreachable also when access is denied.
// Interrupted, it stops the agent before it returns.
func Run(ctx context.Context, o Options) (t Result, err error) {
	dir, cleanup, err := workspace.ChooseRoot(o.Out, "nightcrier-triage-")
	if err != nil {
		return t, err
	}
	defer cleanup()
	p, err := o.prepare(ctx, dir)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	a := p.app
	if err := a.Start(ctx); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, a.Stop(context.WithoutCancel(ctx))) }()
	dec, err := a.Deliver(ctx, p.delivery)
	if err == nil && dec.Reason == nightcrier.NotAFault {
		dec, err = lookAnyway(ctx, a, p.delivery, dec.EventID)
	}
	if err != nil {
		return t, err
	}
	if dec.Incident.ID == "" {
		return t, nightcrier.Errorf(nightcrier.Invalid, "the event opens no incident: %s%s", dec.Reason, reasonSuffix(dec.Detail))
	}
	f := follower{store: a.Store(), tell: o.Progress}
	inc, err := a.AwaitEnd(ctx, dec.Incident.ID, func(inc nightcrier.Incident) { f.readNewEntries(context.WithoutCancel(ctx), inc) })
	if err != nil {
		return t, err
	}
	if o.Slack.WebhookURL.IsSet() {
		if err := awaitTold(ctx, a, inc.ID); err != nil {
			return t, err
		}
	}
	t, err = readResult(ctx, a, inc)
	t.Others, t.Host = p.others, p.host
	return t, err
}

// lookAnyway asks about the object of an event that is no fault: a server would
// leave it at that, but a person has asked.
func lookAnyway(ctx context.Context, a *app.Investigator, d nightcrier.Delivery, eventID string) (store.Decision, error) {
	ev, err := a.Store().Event(ctx, eventID)
	if err != nil {
		return store.Decision{}, err
	}
	if d.Raw, err = newQuestion(d.Cluster, ev.Resource, "An engineer asked to have this looked at, because of an event: "+ev.Detail+". "+ev.Context, time.Now()); err != nil {
		return store.Decision{}, err
	}
	return a.Deliver(ctx, d)
}

func reasonSuffix(detail string) string {
	if detail == "" {
		return ""
	}
	return " (" + detail + ")"
}

// prepared is what a triage starts with.
type prepared struct {
	app      *app.Investigator
	delivery nightcrier.Delivery
	others   int // the alerts left out
	host     string
	close    func() error
}

// prepare makes the App and the delivery.
func (o Options) prepare(ctx context.Context, dir string) (p prepared, err error) {
	cfg := *o.Config
	cluster := o.chooseCluster(&cfg)
	cfg.WorkspaceRoot, cfg.DatabaseURL, cfg.Slack, cfg.Webhooks = dir, config.Secret{}, o.Slack, nil
	cfg.Clusters = []config.Cluster{cluster}
	cfg.SeverityThreshold = nightcrier.Info // who asks wants an answer
	cfg.Storm.Fingerprints = 0              // to each question
	if cfg.Agent, err = o.Config.AgentFor(o.Executor); err != nil {
		return p, err
	}
	if o.Timeout > 0 {
		cfg.Agent.Timeout = o.Timeout
	}
	opt := app.Options{Config: &cfg, Logger: o.Logger, Version: o.Version, WorkerCommand: o.WorkerCommand, RetryPause: RetryPause, Secrets: o.Config.Secrets()}
	if opt.BudgetDir, err = ServersBudget(o.Config); err != nil {
		o.Logger.Warn("what this triage spends on models is not counted with what the server's agents spend", "error", err)
	}
	at, err := o.reachCluster(cluster)
	if err != nil {
		return p, err
	}
	p.close, p.host, opt.Reach = at.close, at.host, func(config.Cluster) app.Reach { return at.reach }
	d := nightcrier.Delivery{Cluster: cluster.Name, Raw: o.Event}
	switch {
	case o.Alert != nil:
		d, p.others, err = o.pickAlert(cluster)
	case o.Event == nil:
		d.Raw, err = o.askedPayload(ctx, cluster.Name, at.client)
	}
	if err != nil {
		return p, errors.Join(err, p.close())
	}
	d.Source, d.ReceivedAt, d.IncidentID = "cli", time.Now(), o.IncidentID
	p.delivery = d
	if p.app, err = app.NewInvestigator(opt); err != nil {
		return p, errors.Join(err, p.close())
	}
	return p, nil
}

// pickAlert picks the alert to look at.
func (o Options) pickAlert(c config.Cluster) (nightcrier.Delivery, int, error) {
	cluster := app.AlertCluster(c)
	cluster.MaskLog = func(text string) string { masked, _ := mask.Fresh().Log([]byte(text)); return string(masked) }
	list, err := webhook.Alerts(cluster, o.Alert)
	if err != nil {
		return nightcrier.Delivery{}, 0, nightcrier.Errorf(nightcrier.CodeOf(err), "the alert cannot be read: %w", err)
	}
	return webhook.Foremost(list)
}

// RetryPause is the pause before a second attempt where a person waits for it.
const RetryPause = 2 * time.Second

// chooseCluster chooses the one cluster that is looked at.
func (o Options) chooseCluster(cfg *config.Config) config.Cluster {
	if o.Snapshot != nil { // no configured cluster is meant
		return config.Cluster{Name: cmp.Or(o.Cluster, cmp.Or(o.Snapshot.Cluster, "snapshot"))}
	}
	c := config.Cluster{Name: o.Cluster}
	for _, known := range cfg.Clusters {
		if known.Name == o.Cluster || o.Cluster == "" && len(cfg.Clusters) == 1 {
			c = known
		}
	}
	if o.Kubeconfig != "" { // another credential is good for other namespaces
		c.Kubeconfig, c.Namespaces = o.Kubeconfig, nil
	}
	c.Context = kube.ContextName(c.Kubeconfig, cmp.Or(o.Context, c.Context))
	c.Name = cmp.Or(c.Name, cmp.Or(c.Context, InCluster))
	c.MCP, c.Watch = config.MCP{}, false
	return c
}

// toldTime bounds how long a message about an incident's end is waited for.
const toldTime = 30 * time.Second

// awaitTold waits until a message about an incident was sent, or could not be.
func awaitTold(ctx context.Context, a *app.Investigator, id string) error {
	ctx, cancel := context.WithTimeout(ctx, toldTime)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		list, err := a.Store().Notifications(ctx, id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(n store.Notification) bool { return n.State != store.NotificationPending }) {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Exhausted, "no message about incident %s was sent", id)
		}
	}
}

// readResult returns an ended incident with its report.
func readResult(ctx context.Context, a *app.Investigator, inc nightcrier.Incident) (Result, error) {
	t := Result{Incident: inc}
	if ctx.Err() != nil {
		return t, nightcrier.Errorf(nightcrier.Interrupted, "interrupted; the agent was stopped")
	}
	raw, err := a.Store().Report(ctx, inc.ID)
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.Report = &nightcrier.Report{}
	if err := json.Unmarshal(raw, t.Report); err != nil {
		return t, nightcrier.Errorf(nightcrier.Internal, "decode the report of %s: %w", inc.ID, err)
	}
	t.Markdown, err = a.ReportMarkdown(ctx, inc, raw)
	return t, err
}

// ServersBudget is the record of the server whose workspace root is configured, for who
// spends beside it; "" where no server has been.
func ServersBudget(cfg *config.Config) (string, error) {
	if _, err := os.Stat(cfg.WorkspaceRoot); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	dir := filepath.Join(cfg.WorkspaceRoot, run.BudgetDir)
	l, err := budget.Open(dir, time.Now)
	if err != nil {
		return "", err
	}
	return dir, l.Close()
}

// InCluster is the name of the cluster that a Pod is in, which no context names.
const InCluster = "local"
