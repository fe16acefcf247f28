package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

func (p *program) runsCommand() *cobra.Command {
	return groupCommand("runs", "List, read and control runs of pipelines",
		p.listRunsCommand(), p.showRunCommand(), p.tailRunCommand(), p.cancelRunCommand(), p.retryRunCommand(), p.tellRunCommand())
}

func (p *program) listRunsCommand() *cobra.Command {
	var q client.RunQuery
	cmd := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: checkArgs(noArgs)}
	cmd.Flags().StringVar(&q.Pipeline, "pipeline", "", "only runs of this pipeline")
	cmd.Flags().StringVar(&q.SubjectKind, "kind", "", "only runs about such a thing: incident, pull_request, conversation, schedule, call")
	cmd.Flags().StringVar(&q.Subject, "subject", "", "only runs about this one, such as an incident's ID")
	cmd.Flags().StringVar(&q.Status, "status", "", "only runs in this status: queued, admitted, finished, dropped")
	cmd.Flags().StringVar(&q.Key, "key", "", "only runs with this key, such as a cluster")
	cmd.Flags().Var(&judged{take: func(s string) (err error) {
		q.Since, err = p.parseMoment(s)
		return err
	}}, "since", "only runs queued within this time, e.g. 24h, or since an RFC 3339 time")
	limitFlag(cmd, &q.Limit, "runs")
	p.formatFlag(cmd, "text", "json", "jsonl")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Runs(ctx, q)
		if err != nil {
			return err
		}
		return p.printRuns(list)
	})
}

func (p *program) printRuns(list api.RunList) error {
	switch p.format {
	case "json":
		return p.printJSON(list)
	case "jsonl":
		return printLines(p.stdout, list.Runs)
	}
	if len(list.Runs) == 0 {
		p.printMessage("No such runs.")
		return nil
	}
	t := table{heading: []string{"ID", "AGE", "PIPELINE", "ABOUT", "KEY", "STATUS", "DETAIL"}, expendable: []string{"KEY", "DETAIL", "PIPELINE", "ABOUT"}}
	ids := make([]string, len(list.Runs))
	for i, run := range list.Runs {
		ids[i] = run.ID
	}
	for i, id := range p.shownIDs(ids) {
		run := list.Runs[i]
		t.addRow(plainCell(id), p.ageCell(run.QueuedAt), plainCell(run.Pipeline), plainCell(describeSubject(run.Subject)), plainCell(sharedKey(run)), runStatusCell(run), plainCell(describeRun(run)))
	}
	p.printTable(t)
	if list.NextCursor != "" {
		p.printMessage("There are more; --limit shows up to 1000, --since and --pipeline narrow them down.")
	}
	return nil
}

// describeSubject says what a run is about.
func describeSubject(s nightcrier.Subject) string {
	return strings.ReplaceAll(string(s.Kind), "_", " ") + " " + cmp.Or(s.Title, s.ID)
}

// describeRun says why a run is where it is.
func describeRun(run nightcrier.Run) string {
	if run.WaitsFor != nil {
		return "waits for " + run.WaitsFor.Text
	}
	if !run.Status.Open() {
		return run.WhyUnsuccessful()
	}
	return run.Cause
}

// sharedKey is what a run may not share, "" for the key of one that shares with nothing.
func sharedKey(run nightcrier.Run) string {
	if run.Key == run.ID {
		return ""
	}
	return run.Key
}

// maxShown is how much of what a step delivered stands in a line.
const maxShown = 200

// stepDetail is why a step did not succeed, or what it delivered.
func stepDetail(s nightcrier.Step) string {
	return cmp.Or(s.FailureReason, s.Skipped, text.CutLine(string(s.Output), maxShown))
}

// runStatusCell is where a run stands; of one that has ended, how.
func runStatusCell(run nightcrier.Run) cell {
	s := cell{text: string(run.Status)}
	switch {
	case run.Outcome == nightcrier.StateSuccess:
		s = cell{string(run.Outcome), green}
	case run.Outcome != "":
		s = cell{string(run.Outcome), red}
	case run.Status == nightcrier.Dropped:
		s = cell{"dropped: " + strings.ReplaceAll(string(run.Reason), "_", " "), red}
	case run.CancelRequested:
		s.text = "stopping"
	case run.Status == nightcrier.Admitted:
		s = cell{"under way", yellow}
	}
	return s
}

// runCommand is a command about the run that its argument names.
func runCommand(use, short string) *cobra.Command {
	return &cobra.Command{Use: use + " ID", Short: short, Args: checkArgs(oneArg("ID", "which run? Take its ID from `nightcrier runs list`"))}
}

func (p *program) showRunCommand() *cobra.Command {
	cmd := runCommand("show", "Show one run and its steps")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(runNames, cmd, func(ctx context.Context, c *client.Client, given []string) error {
		run, err := c.Run(ctx, given[0])
		if err != nil {
			return err
		}
		if p.format == "json" {
			return p.printJSON(run)
		}
		told, err := c.RunNotifications(ctx, run.ID)
		if err != nil {
			return err
		}
		p.printWholeRun(run, told.Notifications)
		return nil
	})
}

func (p *program) printWholeRun(run nightcrier.Run, told []store.Notification) {
	t := table{}
	row := func(label string, c cell) {
		if c.text != "" {
			t.addRow(cell{label, dim}, c)
		}
	}
	row("Run", plainCell(run.ID))
	row("Pipeline", plainCell(run.Pipeline))
	row("About", plainCell(describeSubject(run.Subject)))
	row("Key", plainCell(sharedKey(run)))
	row("Status", runStatusCell(run))
	if run.WaitsFor != nil {
		row("Waits for", plainCell(run.WaitsFor.Text))
	}
	row("Failure", plainCell(run.FailureReason))
	row("Class", plainCell(string(run.FailureClass)))
	row("Asked to stop", plainCell(run.Cause))
	row("Priority", severityCell(run.Severity))
	row("Executor", plainCell(run.Executor))
	row("Triggered by", plainCell(run.TriggeredBy))
	row("Retry of", plainCell(run.RetryOf))
	row("From step", plainCell(run.FromStep))
	row("Queued", plainCell(formatMoment(run.QueuedAt)))
	row("Admitted", plainCell(formatMoment(run.AdmittedAt)))
	row("Ended", plainCell(formatMoment(run.EndedAt)))
	row("Deadline", plainCell(formatMoment(run.Deadline)))
	if run.CostUSD > 0 {
		row("Cost", plainCell(fmt.Sprintf("$%.4f", run.CostUSD)))
	}
	for _, n := range told {
		row("Told", plainCell(describeNotification(n)))
	}
	p.printTable(t)
	if slices.ContainsFunc(told, func(n store.Notification) bool { return inDoubt(n, told) }) {
		p.printMessage("A message about it failed, or may not have arrived: look into the channel, and send it again with `nightcrier runs tell %s`.", run.ID)
	}
	if len(run.Steps) == 0 {
		return
	}
	steps := table{heading: []string{"STEP", "ATTEMPT", "USES", "STATE", "TOOK", "DETAIL"}, expendable: []string{"ATTEMPT", "USES", "DETAIL"}}
	for _, s := range run.Steps {
		steps.addRow(plainCell(s.ID), plainCell(fmt.Sprint(s.Attempt)), plainCell(s.Uses), plainCell(stepState(s)), plainCell(stepTime(s)), plainCell(stepDetail(s)))
	}
	fmt.Fprintln(p.stdout)
	p.printTable(steps)
	if last := run.Steps[len(run.Steps)-1]; run.Outcome == nightcrier.StateSuccess && len(last.Output) > 0 {
		var said bytes.Buffer
		if json.Indent(&said, last.Output, "", "  ") == nil {
			fmt.Fprintln(p.stdout, "\n"+text.DropHidden(text.KeepBytes(said.String(), maxOutputShown)))
		}
	}
}

// maxOutputShown is how much of what a run delivered is shown, in bytes.
const maxOutputShown = 16 << 10

func stepState(s nightcrier.Step) string {
	switch {
	case s.Skipped != "":
		return "skipped"
	case s.FromRun != "":
		return string(s.State) + " in run " + s.FromRun
	}
	return string(s.State)
}

func stepTime(s nightcrier.Step) string {
	if s.StartedAt.IsZero() || s.EndedAt.Before(s.StartedAt) {
		return ""
	}
	return s.EndedAt.Sub(s.StartedAt).Round(time.Millisecond).String()
}

func (p *program) tailRunCommand() *cobra.Command {
	return p.followCommand(runNames, runCommand("tail", "Follow a run until it ends"), &client.JournalQuery{}, (*client.Client).RunJournal)
}

func (p *program) cancelRunCommand() *cobra.Command {
	cmd := runCommand("cancel", "Stop a run")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(runNames, cmd, func(ctx context.Context, c *client.Client, given []string) error {
		run, err := c.CancelRun(ctx, given[0])
		if err != nil {
			return err
		}
		if run.Status == nightcrier.Dropped {
			return p.printRun(run, "Cancelled before it began.")
		}
		return p.printRun(run, "Cancel requested; its agent has its grace time to end. `nightcrier runs show "+given[0]+"` shows when it has.")
	})
}

func (p *program) tellRunCommand() *cobra.Command {
	cmd := runCommand("tell", "Send again messages that failed or are in doubt")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(runNames, cmd, func(ctx context.Context, c *client.Client, given []string) error {
		list, err := c.TellRunAgain(ctx, given[0])
		return p.printToldAgain(list, err, "runs show "+given[0])
	})
}

func (p *program) retryRunCommand() *cobra.Command {
	from := ""
	cmd := runCommand("retry", "Run again what has ended")
	cmd.Flags().StringVar(&from, "from", "", "step to begin at, with what those before it delivered (default the first)")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(runNames, cmd, func(ctx context.Context, c *client.Client, given []string) error {
		run, err := c.RetryRun(ctx, given[0], from)
		if err != nil {
			return err
		}
		return p.printRun(run, "Queued. `nightcrier runs show "+run.ID+"` shows how it goes.")
	})
}
