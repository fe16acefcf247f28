package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/triage/report"

	"github.com/spf13/cobra"
)

// maxEvent and maxAlerts bound payloads that are read from a file, in bytes.
const (
	maxEvent  = 1 << 20
	maxAlerts = 4 << 20
)

// triageFlags are the flags of triage beside the configuration's.
type triageFlags struct {
	namespace, kubeconfig, context, cluster, event, alert, snapshot, executor, out, level string
	timeout                                                                               time.Duration
	everywhere, open                                                                      bool
}

// clusterFlags are the flags that lead to the cluster, for a command that a person copies.
func (f triageFlags) clusterFlags() (s string) {
	for _, flag := range [][2]string{{"kubeconfig", f.kubeconfig}, {"context", f.context}, {"cluster", f.cluster}, {"snapshot", f.snapshot}} {
		if flag[1] != "" {
			s += " --" + flag[0] + " " + report.ShellWords(flag[1])
		}
	}
	return s
}

// kubectlFlags are those of them that kubectl needs as well: it knows the context.
func (f triageFlags) kubectlFlags() string {
	if f.kubeconfig == "" {
		return ""
	}
	return "--kubeconfig " + report.ShellWords(f.kubeconfig)
}

func (p *program) triageCommand() *cobra.Command {
	var f triageFlags
	cmd := &cobra.Command{Use: "triage [KIND/NAME | KIND NAME]", Short: "Investigate one object, namespace or alert now, without a server", Args: checkArgs(oneObject),
		Long: `Investigates one object of a cluster, a whole namespace, or an event or alert as a
source would have sent it, with a private store. What it found is printed as a card;
-o full prints the whole report. Exits 3 when there is no valid report.`,
		Example: `  nightcrier triage deployment/cart -n shop
  nightcrier triage -n shop
  nightcrier triage -A
  nightcrier triage --snapshot shop-outage
  nightcrier triage --event notification.json -o json
  amtool alert query -o json | nightcrier triage --alert -`}
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of the object (default the context's); without an object, the namespace to investigate")
	cmd.Flags().BoolVarP(&f.everywhere, "all-namespaces", "A", false, "look at the whole cluster: each fault once, the worst first; with the built-in rules unless --executor names an agent")
	cmd.Flags().StringVar(&f.event, "event", "", "file with a captured notification, - for stdin")
	cmd.Flags().StringVar(&f.alert, "alert", "", "file with a notification of Alertmanager, a list of alerts or one alert, - for stdin")
	cmd.Flags().BoolVar(&f.open, "open", false, "show the report in a browser as well")
	f.addTo(cmd)
	p.formatFlag(cmd, "text", "full", "markdown", "html", "json")
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return p.runTriage(cmd, f, given) }
	return cmd
}

// addTo adds the flags that any investigation without a server has.
func (f *triageFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "credential to read the cluster with (default KUBECONFIG, then ~/.kube/config)")
	cmd.Flags().StringVar(&f.context, "context", "", "context within the kubeconfig")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "name of the cluster; for a configured one its credential is used")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "directory with a recorded cluster to investigate instead of a live one")
	cmd.Flags().StringVar(&f.executor, "executor", "", "agent that investigates (default the configured one)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long it may take (default agent.timeout)")
	cmd.Flags().StringVar(&f.out, "out", "", "directory to keep the workspace in (default a temporary one)")
	cmd.Flags().StringVar(&f.level, "log-level", "error", "lowest level that is logged to stderr")
}

// oneObject wants KIND/NAME, KIND NAME, or nothing.
func oneObject(_ *cobra.Command, given []string) error {
	if len(given) > 2 || len(given) == 2 && strings.Contains(given[0], "/") {
		return fmt.Errorf("one object is looked at, as KIND/NAME; %d were given", len(given))
	}
	return nil
}

func (p *program) runTriage(cmd *cobra.Command, f triageFlags, given []string) error {
	line := p.beginProgress()
	defer line.endLine()
	if f.everywhere && f.open {
		return usageError(cmd, errors.New("--open shows one report: leave out -A, and name an object or a namespace"))
	}
	if f.everywhere {
		f.executor = cmp.Or(f.executor, config.Builtin)
	}
	o, err := p.triageOptions(cmd, f)
	if err == nil {
		err = p.readTarget(cmd, f, given, &o)
	}
	if err != nil {
		return err
	}
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	o.Progress = line.showProgress
	if f.everywhere {
		return p.runSweep(ctx, o, f, line, func(s sweepDocument) any { return s })
	}
	t, err := p.investigate(ctx, &o, line)
	if err != nil {
		return f.ofFile(err)
	}
	if t.Host != "" && o.Target.IsZero() && f.kubeconfig+f.context+f.cluster == "" {
		p.printMessage("Looked into the cluster at %s, as kubectl would; --context or --kubeconfig name another.", t.Host)
	}
	if t.Others > 0 {
		p.printMessage("This report is about the most severe alert; %d more fire.", t.Others)
	}
	if f.open && t.Report != nil {
		if err := p.openReport(t); err != nil {
			return err
		}
	}
	return p.printTriage(t, report.Beside{Reported: reportedFault(t.Incident), Rest: restOf(t, o.Out), Look: "give --kubeconfig FILE, or --context", Flags: f.kubectlFlags()})
}

// investigate runs one investigation. What an agent found is kept, in o.Out.
func (p *program) investigate(ctx context.Context, o *triage.Options, line *progressLine) (t triage.Result, err error) {
	if a := o.Config.Agent; a.Executor != config.Builtin {
		p.printMessage("Investigating with %s; it takes at most %s, Ctrl-C stops it.", a.Executor, a.Timeout)
		if o.Out == "" { // it is not to be asked again for what does not fit on a card
			if o.Out, err = os.MkdirTemp("", "nightcrier-triage-"); err != nil {
				return t, nightcrier.Errorf(nightcrier.Exhausted, "make a temporary directory: %w", err)
			}
		}
	}
	t, err = triage.Run(ctx, *o)
	line.endLine()
	return t, err
}

// ofFile names the file that is wrong, where one is.
func (f triageFlags) ofFile(err error) error {
	for _, flag := range [][2]string{{"--event", f.event}, {"--alert", f.alert}} {
		if flag[1] != "" && nightcrier.CodeOf(err) == nightcrier.Invalid {
			return fmt.Errorf("%s %s: %w", flag[0], flag[1], err)
		}
	}
	return err
}

func (p *program) triageOptions(cmd *cobra.Command, f triageFlags) (triage.Options, error) {
	from := p.configOptions(cmd)
	if f.executor != "" {
		standsFor(from, "executor", "agent.executor", f.executor)
	}
	if cmd.Flags().Changed("timeout") {
		standsFor(from, "timeout", "agent.timeout", f.timeout.String())
	}
	cfg, warnings, err := p.loadFrom(from)
	if err != nil {
		return triage.Options{}, err
	}
	p.printWarnings(warnings)
	log, err := p.newLogger(f.level)
	if err != nil {
		return triage.Options{}, usageError(cmd, err)
	}
	o := triage.Options{Config: cfg, Logger: log, Version: buildVersion().Version, Kubeconfig: f.kubeconfig, Context: f.context,
		Cluster: f.cluster, Out: f.out}
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err != nil {
			return o, unreadable("--kubeconfig", f.kubeconfig, err)
		}
	}
	if f.snapshot != "" {
		if o.Snapshot, err = p.openSnapshot(cmd, f); err != nil {
			return o, err
		}
	}
	return o, nil
}

// openSnapshot opens the recorded cluster, and says what of it cannot be read.
func (p *program) openSnapshot(cmd *cobra.Command, f triageFlags) (*snapshot.Snapshot, error) {
	if f.kubeconfig != "" || f.context != "" {
		return nil, usageError(cmd, fmt.Errorf("--snapshot replaces --kubeconfig and --context: leave them out"))
	}
	s, err := snapshot.Open(f.snapshot)
	if err == nil && len(s.NotCaptured) > 0 {
		p.sayFolded("The snapshot is incomplete%s", describeMissing(s))
	}
	return s, err
}

// readTarget reads what is to be investigated.
func (p *program) readTarget(cmd *cobra.Command, f triageFlags, given []string, o *triage.Options) (err error) {
	named := min(1, len(given)) // KIND/NAME, or KIND NAME
	for _, file := range []string{f.event, f.alert} {
		if file != "" {
			named++
		}
	}
	switch {
	case f.everywhere && (named > 0 || f.namespace != ""):
		return usageError(cmd, fmt.Errorf("-A looks at the whole cluster: leave out the object, event, alert or namespace"))
	case f.everywhere && (p.format == "markdown" || p.format == "html"):
		return usageError(cmd, fmt.Errorf("-A prints text, full or json"))
	case f.everywhere:
	case named > 1:
		return usageError(cmd, fmt.Errorf("name one object, event or alert"))
	case f.event != "":
		o.Event, err = p.readPayload("--event", f.event, maxEvent)
	case f.alert != "":
		o.Alert, err = p.readPayload("--alert", f.alert, maxAlerts)
	case len(given) > 0 || f.namespace != "":
		o.Target, err = triage.ParseTarget(given, f.namespace)
	case o.Snapshot != nil && o.Snapshot.Namespace() != "":
		o.Target = nightcrier.Resource{Kind: "Namespace", Name: o.Snapshot.Namespace()}
	case o.Snapshot != nil:
		o.Target = nightcrier.Resource{Kind: kinds.Cluster}
	default:
		return usageError(cmd, fmt.Errorf("what is to be investigated? Name an object such as deployment/cart, a whole namespace with -n NAMESPACE, the whole cluster with -A, an event with --event FILE, or an alert with --alert FILE"))
	}
	return err
}

// readPayload reads JSON from the file that a flag names.
func (p *program) readPayload(flag, file string, limit int64) ([]byte, error) {
	in := p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, unreadable(flag, file, err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return nil, unreadable(flag, file, err)
	case int64(len(raw)) > limit:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s %s is larger than %d bytes", flag, file, limit)
	case len(bytes.TrimSpace(raw)) == 0:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s %s is empty", flag, file)
	}
	var any json.RawMessage
	if err := json.Unmarshal(raw, &any); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s %s is not JSON: %w; %s", flag, file, err, payloadsOf[flag])
	}
	return raw, nil
}

// payloadsOf say what the files of flags hold.
var payloadsOf = map[string]string{
	"--event": "it takes one notification as a source sent it",
	"--alert": "it takes a notification of Alertmanager, or the output of `amtool alert query -o json`",
}

// printTriage prints what came of it, and fails with NoReport when that is no valid
// report.
func (p *program) printTriage(t triage.Result, beside report.Beside) error {
	var err error
	switch {
	case p.format == "json":
		err = p.printJSON(triageDocument{t.Incident, t.Report})
	case t.Report != nil:
		err = p.printReport(t, beside)
	}
	if err != nil {
		return err
	}
	return p.checkTriage(t)
}

// checkTriage warns of a credential that can write, and fails with NoReport where there is no valid
// report.
func (p *program) checkTriage(t triage.Result) error {
	if t.Report != nil && t.Report.Permissions["canWrite"] == string(preflight.Yes) {
		p.printMessage("Warning: the credential is not read-only: %v. `nightcrier rbac manifest` and `rbac kubeconfig` make one that is.", t.Report.Permissions["worstCase"])
	}
	if t.Report != nil && t.Report.Valid && t.Incident.Status == nightcrier.Resolved {
		return nil
	}
	return nightcrier.Errorf(nightcrier.NoReport, "no valid report: %s", cmp.Or(t.Incident.FailureReason, "the incident is "+string(t.Incident.Status)))
}

// reportedFault is what a source told of; a person who asks has told of nothing.
func reportedFault(inc nightcrier.Incident) string {
	if inc.FaultType == nightcrier.Asked {
		return ""
	}
	return inc.FaultType + " of " + inc.Resource.String()
}

// restOf says where the whole report is: in the workspace that was kept, or printed
// in place of the card.
func restOf(t triage.Result, out string) string {
	again := "add -o full to read it here, or -o html for a page"
	if out == "" {
		return again
	}
	return t.ReportFile() + "; " + again
}

// printReport prints a report for people: the card, all of it, or a page.
func (p *program) printReport(t triage.Result, beside report.Beside) error {
	page := string(t.Markdown)
	switch p.format {
	case "text":
		page = p.resultScreen().Card(report.NewCard(t.Report), beside)
	case "full":
		page = p.resultScreen().Report(t.Markdown)
	case "html":
		page = string(report.HTML(t.Report, &t.Incident, t.Markdown))
	}
	_, err := io.WriteString(p.stdout, page)
	return err
}

// openReport keeps the page of a report in a file, and has a browser show it.
func (p *program) openReport(t triage.Result) error {
	f, err := os.CreateTemp("", "nightcrier-report-*.html")
	if err == nil {
		_, err = f.Write(report.HTML(t.Report, &t.Incident, t.Markdown))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "keep the page of the report: %w", err)
	}
	p.printMessage("The page of the report is %s.", f.Name())
	p.openInBrowser(f.Name())
	return nil
}

// resultScreen is the terminal that results go to.
func (p *program) resultScreen() report.Screen {
	return report.Screen{Width: p.width, Colour: p.colour}
}
