package oneshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/demo"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// DemoOptions say how the demo is shown.
type DemoOptions struct {
	Version string
	// Once ends the demo when all incidents have ended; otherwise it serves until
	// ctx is done.
	Once bool
	// Out keeps the workspaces; empty keeps the reports alone, in a temporary directory.
	Out      string
	Executor string
	Listen   string
	// PageListen is where the page is served, "" for nowhere; Open is handed the link to it.
	PageListen string
	Open       func(link string)
	Stdout     io.Writer
	Stderr     io.Writer
	Logger     *slog.Logger
	// Page shows a report to whoever reads; md is the same as Markdown.
	Page func(r *nightcrier.Report, md []byte) string
	// Row prints what became of one incident.
	Row func(status, severity, cluster, object, what string)
}

// Demo replays recorded fault notifications through an embedded MCP peer and the
// whole pipeline. It needs no cluster, no key and no network. It is a NoReport
// error when an incident ended without a valid report.
func Demo(ctx context.Context, o DemoOptions) (err error) {
	d, err := demo.Load(time.Now())
	if err != nil {
		return err
	}
	if missingKeyVariable(o) != "" {
		d = slices.DeleteFunc(d, func(sc demo.Scenario) bool { return sc.Calm })
		d = d[:min(len(d), scriptedMost)]
	}
	peer, err := openDemoPeer(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.Close()) }()
	dir, cleanup, err := workspace.ChooseRoot(o.Out, "nightcrier-demo-")
	if err != nil {
		return err
	}
	defer cleanup()
	cfg, done, err := demoConfig(o, d, peer, dir)
	if err != nil {
		return err
	}
	defer done()
	opt := app.Options{Config: cfg, Logger: o.Logger, Version: o.Version, RetryPause: triage.RetryPause}
	reach, closeAll, err := reachScenarios(d, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	opt.Reach = reach
	a, err := app.New(opt)
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	defer func() {
		clean := context.WithoutCancel(ctx)
		err = errors.Join(err, cancelOpen(clean, a), a.Stop(clean))
	}()
	if link := a.PageLink(); link != "" {
		fmt.Fprintf(o.Stderr, "See it happen; this link logs one browser in:\n  %s\n\n", link)
		o.Open(link)
	}
	return demoShow{o: o, app: a, scenarios: d, peer: peer}.playScenarios(ctx)
}

// reachScenarios serves the scenarios' clusters until closeAll.
func reachScenarios(d []demo.Scenario, log *slog.Logger) (reach func(config.Cluster) app.Reach, closeAll func() error, err error) {
	all := map[string]app.Reach{}
	var served []*triage.Snapshot
	closeAll = func() (err error) {
		for _, s := range served {
			err = errors.Join(err, s.Close())
		}
		return err
	}
	for _, sc := range d {
		s, err := triage.ReachSnapshot(sc.Cluster, sc.Snapshot, log)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		all[sc.Cluster], served = s, append(served, s)
	}
	return func(c config.Cluster) app.Reach { return all[c.Name] }, closeAll, nil
}

// cancelOpen cancels every open incident, and returns when their agents are gone: the
// workers of a server outlive it, and nobody would come back for these.
func cancelOpen(ctx context.Context, a *app.App) error {
	list, _, err := a.Store().Incidents(ctx, store.IncidentFilter{Limit: 1000})
	if err != nil {
		return err
	}
	now, cancel := context.WithCancel(ctx)
	cancel()
	for _, inc := range list {
		if !inc.Status.Open() {
			continue
		}
		if _, e := a.AwaitEnd(now, inc.ID, func(nightcrier.Incident) {}); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// missingKeyVariable is the variable in which a key is missing, where the agent's model is
// therefore one that plays a script.
func missingKeyVariable(o DemoOptions) (missing string) {
	cli, err := agent.For(o.Executor)
	if err != nil || !cli.NeedsModel {
		return ""
	}
	p := cmp.Or(nightcrier.Provider(os.Getenv("NIGHTCRIER_AGENT_PROVIDER")), cli.Providers[0])
	keys := config.KeyVariables(p)
	if len(keys) == 0 || slices.ContainsFunc(keys, func(name string) bool { return os.Getenv(name) != "" }) {
		return ""
	}
	return keys[0]
}

// demoVariables are what the environment has a say in: a real agent and its model.
func demoVariables() []string {
	names := []string{"PATH", "HOME", "NIGHTCRIER_AGENT_PROVIDER", "NIGHTCRIER_AGENT_MODEL", "AGENT_MODEL"}
	for _, p := range nightcrier.Providers() {
		names = append(names, config.KeyVariables(p)...)
		names = append(names, config.AddressVariables(p)...)
	}
	return names
}

// scriptedMost is how many scenarios a scripted model gets: enough to see agents
// at work, each of which is a process of some weight.
const scriptedMost = 6

// demoConfig is the embedded defaults with the scenarios' clusters. The
// environment has no say, but for a real agent.
func demoConfig(o DemoOptions, d []demo.Scenario, peer *demoPeer, dir string) (*config.Config, func(), error) {
	done := func() {}
	var env []string
	for _, name := range demoVariables() {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	flags := map[string]string{"workspace_root": dir, "agent.executor": o.Executor, "listen": o.Listen, "page_listen": cmp.Or(o.PageListen, "none"), "severity_threshold": "warning"}
	if missing := missingKeyVariable(o); missing != "" {
		model, err := fakemodel.Start()
		if err != nil {
			return nil, nil, err
		}
		done = func() { _ = model.Close() }
		env = append(env, "NIGHTCRIER_AGENT_API_KEY="+fakemodel.Key)
		flags["agent.base_url"], flags["agent.model"] = model.URL("triage-report"), "scripted"
		for _, scope := range []string{"run", "incident", "cluster_day", "day"} { // it costs nothing, and has no price
			flags["budget.per_"+scope+"_usd"] = "0"
		}
		fmt.Fprintf(o.Stderr, "No %s is set: the agent talks to a scripted model on this machine. It can only report faults, so some scenarios, those without one among them, are skipped.\n", missing)
	}
	cfg, warnings, err := config.Load(config.Options{Env: env, Flags: flags, Typed: map[string]string{"agent.executor": "executor"}})
	if err == nil {
		err = hopelessError(warnings)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	for _, sc := range d {
		cfg.Clusters = append(cfg.Clusters, config.Cluster{Name: sc.Cluster, MCP: config.MCP{Endpoint: peer.endpointOf(sc.Cluster), Mode: "auto"}})
	}
	return cfg, done, nil
}

// hopelessError is an error where a server would start and every investigation fail: a
// demo has nobody who mends it meanwhile.
func hopelessError(warnings []config.Warning) error {
	for _, w := range warnings {
		if w.FailsCheck {
			return nightcrier.Errorf(nightcrier.Invalid, "%s", w)
		}
	}
	return nil
}

// demoShow plays the scenarios and prints what comes of them.
type demoShow struct {
	o         DemoOptions
	app       *app.App
	scenarios []demo.Scenario
	peer      *demoPeer
}

func (s demoShow) playScenarios(ctx context.Context) error {
	err := s.peer.pushAll(ctx, s.scenarios, func() {
		fmt.Fprintf(s.o.Stderr, "Replaying %d recorded notifications from %d clusters; executor %s.\n", s.countPushed(), len(s.scenarios), s.o.Executor)
	})
	if err != nil {
		return err
	}
	list, err := s.awaitIncidents(ctx)
	if err != nil {
		return err
	}
	if err := s.printConclusion(ctx, list); err != nil {
		return err
	}
	if !s.o.Once {
		fmt.Fprintf(s.o.Stderr, "\nThe API is at http://%s/api/v1/incidents until you press Ctrl-C.\n", s.app.Addr())
		if link := s.app.PageLink(); link != "" {
			fmt.Fprintf(s.o.Stderr, "The page, for a browser that is not logged in yet: %s\n", link)
		}
		<-ctx.Done()
		return nil
	}
	for _, inc := range list {
		if inc.Status != nightcrier.Resolved && !isListed(inc) {
			return nightcrier.Errorf(nightcrier.NoReport, "incident %s ended without a valid report: %s", inc.ID, inc.FailureReason)
		}
	}
	return nil
}

// countPushed counts how many notifications there are.
func (s demoShow) countPushed() (n int) {
	for _, sc := range s.scenarios {
		n += len(sc.Notifications)
	}
	return n
}

// isListed reports whether an incident was named in a storm's message only.
func isListed(inc nightcrier.Incident) bool {
	return inc.Status == nightcrier.Listed
}

// awaitIncidents prints each incident as it ends, and returns all when every notification
// has been decided and no incident is open.
func (s demoShow) awaitIncidents(ctx context.Context) ([]nightcrier.Incident, error) {
	printed, storm := map[string]bool{}, []nightcrier.Incident{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		events, _, err := s.app.Store().Events(ctx, store.EventFilter{Limit: 1000})
		if err != nil {
			return nil, err
		}
		list, _, err := s.app.Store().Incidents(ctx, store.IncidentFilter{Limit: 1000})
		if err != nil {
			return nil, err
		}
		open := 0
		for _, inc := range list {
			switch {
			case inc.Status.Open():
				open++
			case printed[inc.ID]:
			case isListed(inc):
				storm = append(storm, inc)
			default:
				s.printIncident(ctx, inc)
			}
			printed[inc.ID] = !inc.Status.Open()
		}
		if open == 0 && len(events) >= s.countPushed() {
			s.printStorm(storm)
			return list, nil
		}
		select {
		case <-ctx.Done():
			return nil, nightcrier.Errorf(nightcrier.Interrupted, "the demo was stopped with %d incidents open", open)
		case <-tick.C:
		}
	}
}

// printIncident prints one incident.
func (s demoShow) printIncident(ctx context.Context, inc nightcrier.Incident) {
	status := inc.Status.Words()
	what := inc.RootCause
	switch {
	case what == "" && inc.Status == nightcrier.Resolved:
		what = s.describeVerdict(ctx, inc)
	case what == "":
		what = inc.FailureReason
	}
	s.o.Row(status, inc.Severity.String(), inc.Cluster, workloadToMend(inc), what)
}

// printStorm prints those that were named in a storm's message together.
func (s demoShow) printStorm(list []nightcrier.Incident) {
	if len(list) == 0 {
		return
	}
	inc, more := list[0], ""
	if len(list) > 1 {
		more = fmt.Sprintf("and %d more, ", len(list)-1)
	}
	s.o.Row("storm, listed", inc.Severity.String(), inc.Cluster, workloadToMend(inc), more+"named in the storm's one message: of a storm only the most severe are investigated")
}

// workloadToMend names the object of an incident by the workload to be mended.
func workloadToMend(inc nightcrier.Incident) string {
	if inc.Owner.IsZero() {
		return inc.Resource.String()
	}
	return inc.Owner.String()
}

// describeVerdict says what a report without a cause comes to.
func (s demoShow) describeVerdict(ctx context.Context, inc nightcrier.Incident) string {
	rep, err := s.readReport(ctx, inc)
	if err != nil {
		return nightcrier.Verdict("").Words()
	}
	return rep.Verdict.Words()
}

func (s demoShow) readReport(ctx context.Context, inc nightcrier.Incident) (rep nightcrier.Report, err error) {
	raw, err := s.app.Store().Report(ctx, inc.ID)
	if err == nil {
		err = json.Unmarshal(raw, &rep)
	}
	return rep, err
}

// symptoms is how many troubles of another kind follow from a report's root cause.
func symptoms(r *nightcrier.Report) (n int) {
	for _, c := range r.Consequences {
		if r.RootCause == nil || c.Cause != r.RootCause.Cause {
			n++
		}
	}
	return n
}

// mostTelling is the incident whose report shows most: the one with the most symptoms
// of one root, and of those the most severe.
func (s demoShow) mostTelling(ctx context.Context, list []nightcrier.Incident) (best *nightcrier.Incident, err error) {
	follows := -1
	for i, inc := range list {
		if inc.Status != nightcrier.Resolved || inc.RootCause == "" {
			continue
		}
		rep, err := s.readReport(ctx, inc)
		if err != nil {
			return nil, err
		}
		if n := symptoms(&rep); n > follows || n == follows && inc.Severity > best.Severity {
			follows, best = n, &list[i]
		}
	}
	return best, nil
}

// printConclusion prints one whole report and what became of the other events.
func (s demoShow) printConclusion(ctx context.Context, list []nightcrier.Incident) error {
	shown, err := s.mostTelling(ctx, list)
	if err != nil {
		return err
	}
	if shown != nil {
		if err := s.printReport(ctx, *shown); err != nil {
			return err
		}
	}
	c, err := s.app.Store().Counts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.o.Stdout, "%d events: %d incidents opened, %d joined one, %s.\n",
		s.countPushed(), c.Events[nightcrier.Opened], c.Events[nightcrier.Joined], ledToNone(c.Suppressed))
	return s.printPlaces(ctx, list)
}

// printPlaces says where the reports are, which it keeps where nobody keeps the workspaces,
// and what to do next.
func (s demoShow) printPlaces(ctx context.Context, list []nightcrier.Incident) error {
	if s.o.Out != "" {
		fmt.Fprintf(s.o.Stdout, "The workspaces are in %s, each with output/%s.\n", s.o.Out, filepath.Base(report.FinalFile))
	} else {
		dir, err := s.keepReports(ctx, list)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.o.Stdout, "The reports are in %s.\n", dir)
	}
	fmt.Fprintln(s.o.Stdout, "\nNext, look at a cluster of yours; it is only read, and needs no key:\n  nightcrier triage -A\n  nightcrier triage -n NAMESPACE")
	return nil
}

// keepReports writes a page for each report, named after its object.
func (s demoShow) keepReports(ctx context.Context, list []nightcrier.Incident) (string, error) {
	dir, err := os.MkdirTemp("", "nightcrier-demo-reports-")
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "make a directory for the reports: %w", err)
	}
	for _, inc := range list {
		rep, md, err := s.readPage(ctx, inc)
		if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport {
			continue
		}
		if err != nil {
			return "", err
		}
		name := strings.ReplaceAll(inc.Cluster+"-"+workloadToMend(inc), "/", "-") + ".html"
		if err := os.WriteFile(filepath.Join(dir, name), report.HTML(&rep, &inc, md), 0o600); err != nil {
			return "", nightcrier.Errorf(nightcrier.Exhausted, "keep a report: %w", err)
		}
	}
	return dir, nil
}

// ledToNone counts the suppressed events, with their reasons: the store is gone
// when somebody would look them up.
func ledToNone(suppressed map[nightcrier.Reason]int) string {
	total, reasons := 0, []string{}
	for reason, n := range suppressed {
		total += n
		reasons = append(reasons, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(reason), "_", " ")))
	}
	if total == 0 {
		return "every one counts"
	}
	slices.Sort(reasons)
	return fmt.Sprintf("%d led to none (%s)", total, strings.Join(reasons, ", "))
}

func (s demoShow) printReport(ctx context.Context, inc nightcrier.Incident) error {
	rep, md, err := s.readPage(ctx, inc)
	if err == nil {
		_, err = fmt.Fprintf(s.o.Stdout, "\n%s\n", s.o.Page(&rep, md))
	}
	return err
}

// readPage reads a report, and the same as Markdown.
func (s demoShow) readPage(ctx context.Context, inc nightcrier.Incident) (rep nightcrier.Report, md []byte, err error) {
	raw, err := s.app.Store().Report(ctx, inc.ID)
	if err != nil {
		return rep, nil, err
	}
	if err = json.Unmarshal(raw, &rep); err == nil {
		md, err = s.app.ReportMarkdown(ctx, inc, raw)
	}
	return rep, md, err
}
