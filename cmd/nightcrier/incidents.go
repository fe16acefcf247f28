package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"

	"github.com/spf13/cobra"
)

func (p *program) incidentsCommand() *cobra.Command {
	return groupCommand("incidents", "List, read and control incidents",
		p.listCommand(), p.showCommand(), p.incidentEventsCommand(), p.reportCommand(), p.tailCommand(), p.cancelCommand(), p.retryCommand(), p.tellCommand(), p.noteCommand(), p.askIncidentCommand())
}

func (p *program) listCommand() *cobra.Command {
	var q client.IncidentQuery
	cmd := &cobra.Command{Use: "list", Short: "List incidents, newest first", Args: checkArgs(noArgs)}
	cmd.Flags().StringVar(&q.Cluster, "cluster", "", "only incidents of this cluster")
	cmd.Flags().Var(&judged{take: func(s string) (err error) {
		q.Status, err = statusNamed(s)
		return err
	}}, "status", "only incidents in this status, as the list or as JSON has it: "+statusNames())
	cmd.Flags().Var(&judged{take: func(s string) (err error) {
		q.Since, err = p.parseMoment(s)
		return err
	}}, "since", "only incidents opened within this time, e.g. 24h, or since an RFC 3339 time")
	limitFlag(cmd, &q.Limit, "incidents")
	p.formatFlag(cmd, "text", "json", "jsonl")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Incidents(ctx, q)
		if err != nil {
			return err
		}
		return p.printIncidents(list)
	})
}

// statusNames are the words of the statuses, as lists show them.
func statusNames() string {
	var words []string
	for _, s := range nightcrier.IncidentStatuses() {
		words = append(words, fmt.Sprintf("%q", s.Words()))
	}
	return strings.Join(words, ", ")
}

// statusNamed is the status that a person names, in whichever words; "" is any.
func statusNamed(words string) (string, error) {
	if words == "" {
		return "", nil
	}
	s, err := nightcrier.ParseIncidentStatus(words)
	if err != nil {
		return "", err
	}
	return string(s), nil
}

// parseMoment reads a duration back from now, or a point in time.
func (p *program) parseMoment(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return p.now().Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration such as 24h nor a moment such as 2026-05-01T10:00:00Z", s)
}

func (p *program) printIncidents(list api.IncidentList) error {
	switch p.format {
	case "json":
		return p.printJSON(list)
	case "jsonl":
		return printLines(p.stdout, list.Incidents)
	}
	if len(list.Incidents) == 0 {
		p.printMessage("No incidents. `nightcrier clusters list` shows whether faults can arrive, `nightcrier events list --suppressed` what was filtered out.")
		return nil
	}
	t := table{heading: []string{"ID", "AGE", "SEVERITY", "STATUS", "CONDITION", "CLUSTER", "FAULT", "RESOURCE", "EVENTS", "ROOT CAUSE"},
		expendable: []string{"EVENTS", "CONDITION", "ROOT CAUSE", "FAULT", "CLUSTER", "STATUS"}}
	ids := make([]string, len(list.Incidents))
	for i, inc := range list.Incidents {
		ids[i] = inc.ID
	}
	ids = p.shownIDs(ids)
	for i, inc := range list.Incidents {
		t.addRow(plainCell(ids[i]), p.ageCell(inc.CreatedAt), severityCell(inc.Severity), statusCell(inc.Status), conditionCell(inc.Condition), plainCell(inc.Cluster), plainCell(inc.FaultType),
			plainCell(workloadToMend(inc)), plainCell(fmt.Sprint(inc.EventCount)), plainCell(describeCause(inc)))
	}
	p.printTable(t)
	if list.NextCursor != "" {
		p.printMessage("There are more; --limit shows up to 1000, --since and --cluster narrow them down.")
	}
	return nil
}

// describeCause says what an incident came to, or why to nothing; of one that another incident has
// caused, which that is.
func describeCause(inc nightcrier.Incident) string {
	s := cmp.Or(inc.RootCause, inc.FailureReason)
	if inc.CausedBy != "" {
		s = "caused by " + inc.CausedBy + ": " + s
	}
	return s
}

// narrow is the width of a terminal below which a list shows less of an id, so that
// there is room for what became of an incident.
const narrow = 110

// beginning is how much of an id: the millisecond that it was made in.
const beginning = len("01a20801-a86e")

// shownIDs are the ids, or so much of them as names each: see wholeID.
func (p *program) shownIDs(whole []string) []string {
	short, seen := make([]string, len(whole)), map[string]bool{}
	for i, id := range whole {
		short[i] = id[:min(len(id), beginning)]
		seen[short[i]] = true
	}
	if p.width == 0 || p.width >= narrow || len(seen) < len(whole) {
		return whole
	}
	return short
}

// conditionCell is whether the fault is still there.
func conditionCell(c nightcrier.Condition) cell {
	return cell{string(c), map[nightcrier.Condition]string{nightcrier.ConditionActive: yellow, nightcrier.ConditionCleared: green, nightcrier.ConditionUnknown: dim}[c]}
}

// workloadToMend is what a person would go and mend: the workload, where it is known.
func workloadToMend(inc nightcrier.Incident) string {
	if !inc.Owner.IsZero() {
		return inc.Owner.String()
	}
	return inc.Resource.String()
}

// incidentCommand is a command about the incident that its argument names.
func incidentCommand(use, short string) *cobra.Command {
	return &cobra.Command{Use: use + " ID", Short: short, Args: checkArgs(oneArg("ID", "which incident? Take its ID from `nightcrier incidents list`"))}
}

func (p *program) showCommand() *cobra.Command {
	cmd := incidentCommand("show", "Show one incident")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		inc, err := c.Incident(ctx, given[0])
		if err != nil {
			return err
		}
		if p.format == "json" {
			return p.printJSON(inc)
		}
		told, err := c.Notifications(ctx, inc.ID)
		if err != nil {
			return err
		}
		noted, err := c.Notes(ctx, inc.ID)
		if err != nil {
			return err
		}
		caused, err := c.Incidents(ctx, client.IncidentQuery{CausedBy: inc.ID})
		if err != nil {
			return err
		}
		asked, err := c.Questions(ctx, inc.ID)
		if err != nil {
			return err
		}
		p.printIncident(inc, caused.Incidents, told.Notifications, noted.Notes, asked.Questions)
		return nil
	})
}

func (p *program) printIncident(inc nightcrier.Incident, caused []nightcrier.Incident, told []store.Notification, noted []nightcrier.Note, asked []nightcrier.Question) {
	t := table{}
	row := func(label string, c cell) {
		if c.text != "" {
			t.addRow(cell{label, dim}, c)
		}
	}
	row("Incident", plainCell(inc.ID))
	row("Status", statusCell(inc.Status))
	row("Condition", conditionCell(inc.Condition))
	row("Over", plainCell(formatMoment(inc.ClearedAt)))
	row("Seen by", plainCell(strings.Join(inc.SeenBy, ", ")))
	row("Severity", severityCell(inc.Severity))
	row("Cluster", plainCell(inc.Cluster))
	row("Fault", plainCell(inc.FaultType))
	row("Resource", plainCell(inc.Resource.String()))
	if !inc.Owner.IsZero() {
		row("Owner", plainCell(inc.Owner.String()))
	}
	row("Root cause", plainCell(inc.RootCause))
	row("Caused by", plainCell(inc.CausedBy))
	for _, other := range caused {
		row("Caused", plainCell(other.ID+" "+workloadToMend(other)+", "+other.FaultType))
	}
	why := "Failure"
	if inc.Status == nightcrier.Listed {
		why = "Why"
	}
	row(why, plainCell(inc.FailureReason))
	row("Class", plainCell(string(inc.FailureClass)))
	row("Opened", plainCell(formatMoment(inc.CreatedAt)))
	row("Started", plainCell(formatMoment(inc.StartedAt)))
	row("Completed", plainCell(formatMoment(inc.CompletedAt)))
	row("Events", plainCell(fmt.Sprint(inc.EventCount)))
	row("Executor", plainCell(inc.Executor))
	row("Attempts", plainCell(strings.TrimPrefix(fmt.Sprint(inc.Attempts), "0")))
	row("Incomplete", plainCell(inc.ContextIncomplete))
	row("Previous", plainCell(inc.PreviousID))
	row("Workspace", plainCell(inc.Workspace))
	for _, n := range told {
		row("Told", plainCell(describeNotification(n)))
	}
	for _, n := range noted {
		row("Note", plainCell(describeNote(n)))
	}
	for _, q := range asked {
		row("Question", plainCell(describeQuestion(q)))
	}
	p.printTable(t)
	if slices.ContainsFunc(told, func(n store.Notification) bool { return inDoubt(n, told) }) {
		p.printMessage("A message about it failed, or may not have arrived: look into the channel, and send it again with `nightcrier incidents tell %s`.", inc.ID)
	}
	p.printMessage("%s", nextStep(inc))
}

// inDoubt reports whether a message is the last of its kind, and people may not have it.
func inDoubt(n store.Notification, all []store.Notification) bool {
	if n.State != store.NotificationUnknown && n.State != store.NotificationFailed {
		return false
	}
	return !slices.ContainsFunc(all, func(later store.Notification) bool {
		return later.Channel == n.Channel && later.Kind == n.Kind && later.CreatedAt.After(n.CreatedAt)
	})
}

// describeNotification says what became of one message: when it is not known whether it
// arrived, nobody sends it again.
func describeNotification(n store.Notification) string {
	s := n.Channel + ", " + strings.ReplaceAll(n.Kind, "_", " ") + ": " + string(n.State)
	why := cmp.Or(n.Detail, strings.ReplaceAll(string(n.Reason), "_", " "))
	if n.State != store.NotificationSent && why != "" {
		s += " (" + why + ")"
	}
	return s
}

// describeNote puts one into a line, with who wrote it and when.
func describeNote(n nightcrier.Note) string {
	return strings.TrimSpace(formatMoment(n.At)+" "+n.By) + ": " + text.FoldLine(n.Text)
}

// nextStep says what can be done with an incident as it stands.
func nextStep(inc nightcrier.Incident) string {
	switch {
	case inc.Status.Open():
		return "Follow it with `nightcrier incidents tail " + inc.ID + "`."
	case inc.Status == nightcrier.Resolved:
		return "Read the report with `nightcrier incidents report " + inc.ID + "`."
	}
	if inc.RootCause != "" {
		return "`nightcrier incidents report " + inc.ID + "` shows what the facts alone say, `nightcrier incidents retry " + inc.ID + "` investigates it again."
	}
	return "Investigate it again with `nightcrier incidents retry " + inc.ID + "`."
}

func formatMoment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339)
}

func (p *program) incidentEventsCommand() *cobra.Command {
	cmd := incidentCommand("events", "List the events of an incident")
	p.formatFlag(cmd, "text", "json", "jsonl")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		if _, err := c.Incident(ctx, given[0]); err != nil {
			return err
		}
		list, err := c.Events(ctx, client.EventQuery{Incident: given[0], Limit: 1000})
		if err != nil {
			return err
		}
		return p.printEvents(list)
	})
}

func (p *program) reportCommand() *cobra.Command {
	cmd := incidentCommand("report", "Print the report of an incident")
	p.formatFlag(cmd, "text", "full", "markdown", "html", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		form := map[string]string{"text": "json", "full": "markdown"}[p.format]
		raw, err := c.Report(ctx, given[0], cmp.Or(form, p.format))
		if err != nil {
			return err
		}
		switch p.format {
		case "json":
			return p.printJSON(json.RawMessage(raw))
		case "text":
			var r nightcrier.Report
			if err := json.Unmarshal(raw, &r); err != nil {
				return nightcrier.Errorf(nightcrier.Internal, "decode the report of %s: %w", given[0], err)
			}
			return p.printReport(triage.Result{Report: &r}, report.Beside{Rest: "nightcrier incidents report " + given[0] + " -o full", Look: "clusters[].kubeconfig in its configuration names the credential to look with"})
		case "full":
			return p.printReport(triage.Result{Markdown: raw}, report.Beside{})
		}
		_, err = p.stdout.Write(raw)
		return err
	})
}

func (p *program) tailCommand() *cobra.Command {
	q := &client.JournalQuery{}
	cmd := incidentCommand("tail", "Follow an investigation until it ends")
	cmd.Flags().StringVar(&q.Run, "run", "", "run of the incident to read (default the newest)")
	return p.followCommand(incidentNames, cmd, q, (*client.Client).Journal)
}

// journalReader reads a journal, an entry at a time.
type journalReader func(c *client.Client, ctx context.Context, id string, q client.JournalQuery, each func(nightcrier.JournalEntry) error) error

// followCommand makes cmd print the journal of what its argument names.
func (p *program) followCommand(thing named, cmd *cobra.Command, q *client.JournalQuery, read journalReader) *cobra.Command {
	once := false
	cmd.Flags().BoolVar(&once, "no-follow", false, "print what there is now, and exit")
	cmd.Flags().Int64Var(&q.From, "from", 1, "number of the first entry to print (`seq` in -o jsonl)")
	p.formatFlag(cmd, "text", "jsonl", "json")
	return p.runWithClientOf(thing, cmd, func(ctx context.Context, c *client.Client, given []string) error {
		if q.From < 1 {
			return usageError(cmd, fmt.Errorf("--from %d: entries are numbered from 1", q.From))
		}
		q.Follow = !once
		all, names := []nightcrier.JournalEntry{}, thing.steps
		err := read(c, ctx, given[0], *q, func(e nightcrier.JournalEntry) error {
			switch p.format {
			case "json":
				all = append(all, e)
			case "jsonl":
				return printLines(p.stdout, []nightcrier.JournalEntry{e})
			default:
				p.printEntry(e, &names)
			}
			return nil
		})
		if p.format == "json" && err == nil {
			return p.printJSON(all)
		}
		return err
	})
}

// labelColours make what a person looks for stand out of a journal.
var labelColours = map[string]string{"DENIED": red, "error": red, "state": green, "agent": "1", "run": "1", "evidence": dim, "result": dim, "usage": dim}

// stepColumn is how wide the column with the names of steps is, 0 where there is none: an
// investigation has but one agent.
type stepColumn int

// nameStep is the column's text for a step; the column is as wide as the longest until now.
func (w *stepColumn) nameStep(step string) string {
	if *w == 0 {
		return ""
	}
	*w = max(*w, stepColumn(len(step)))
	return fmt.Sprintf("%-*s ", int(*w), step)
}

// printEntry prints a line of a journal, with nothing of one that is not worth it.
func (p *program) printEntry(e nightcrier.JournalEntry, w *stepColumn) {
	l := journal.Tail(e, nil)
	if l.Text == "" {
		return
	}
	l.Label = p.paintCell(cell{fmt.Sprintf("%-8s", l.Label), labelColours[l.Label]})
	fmt.Fprintln(p.stdout, l.At+" "+text.DropHidden(w.nameStep(e.Step))+l.Label+" "+text.DropHidden(l.Text))
}

func (p *program) cancelCommand() *cobra.Command {
	cmd := incidentCommand("cancel", "Stop the investigation of an incident")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		run, err := c.Cancel(ctx, given[0])
		if err != nil {
			return err
		}
		if run.Status == nightcrier.Dropped {
			return p.printRun(run, "Cancelled before it began.")
		}
		return p.printRun(run, "Cancel requested; the agent has its grace time to end. `nightcrier incidents tail "+given[0]+"` shows when it has.")
	})
}

func (p *program) retryCommand() *cobra.Command {
	executor := ""
	cmd := incidentCommand("retry", "Investigate a closed incident again")
	cmd.Flags().StringVar(&executor, "executor", "", "agent that investigates this time (default the configured one)")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		if executor != "" && !slices.Contains(config.Executors(), executor) {
			return usageError(cmd, fmt.Errorf("--executor %s is not one of %s", executor, strings.Join(config.Executors(), ", ")))
		}
		run, err := c.Retry(ctx, given[0], executor)
		if err != nil {
			return err
		}
		return p.printRun(run, "Queued. Follow it with `nightcrier incidents tail "+given[0]+"`.")
	})
}

func (p *program) tellCommand() *cobra.Command {
	cmd := incidentCommand("tell", "Send again messages that failed or are in doubt")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		list, err := c.TellAgain(ctx, given[0])
		return p.printToldAgain(list, err, "incidents show "+given[0])
	})
}

// printToldAgain says what is being sent again, and where it is seen whether that arrived.
func (p *program) printToldAgain(list api.NotificationList, err error, look string) error {
	if err != nil {
		return err
	}
	if p.format == "json" {
		return p.printJSON(list)
	}
	for _, n := range list.Notifications {
		p.printMessage("Sending again: %s to %s.", strings.ReplaceAll(n.Kind, "_", " "), n.Channel)
	}
	p.printMessage("`nightcrier %s` says whether it arrived.", look)
	return nil
}

func (p *program) noteCommand() *cobra.Command {
	var n api.NewNote
	cmd := &cobra.Command{Use: "note ID TEXT", Short: "Add a note to an incident, for whoever meets the same fault again", Args: checkArgs(idAndText)}
	cmd.Flags().StringVar(&n.By, "by", "", "author of the note (default $USER)")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		n.By, n.Text = cmp.Or(n.By, p.envVariable("USER")), given[1]
		kept, err := c.Note(ctx, given[0], n)
		if err != nil {
			return err
		}
		if p.format == "json" {
			return p.printJSON(kept)
		}
		p.printMessage("Noted. `nightcrier incidents show %s` lists it, and so does the report of the next incident with the same diagnosis.", given[0])
		return nil
	})
}

func idAndText(_ *cobra.Command, given []string) error {
	if len(given) != 2 {
		return errors.New(`name the incident and what to note, in quotes: incidents note ID "TEXT"`)
	}
	return nil
}

func (p *program) printRun(run nightcrier.Run, words string) error {
	if p.format == "json" {
		return p.printJSON(run)
	}
	fmt.Fprintln(p.stdout, "run "+run.ID+" "+string(run.Status))
	p.printMessage("%s", words)
	return nil
}
