package main

import (
	"context"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"

	"github.com/spf13/cobra"
)

func (p *program) eventsCommand() *cobra.Command {
	var q client.EventQuery
	cmd := &cobra.Command{Use: "list", Short: "List events and what became of them, newest first", Args: checkArgs(noArgs)}
	cmd.Flags().BoolVar(&q.Suppressed, "suppressed", false, "only events that were suppressed: recorded, and not worked on")
	cmd.Flags().StringVar(&q.Cluster, "cluster", "", "only events of this cluster")
	cmd.Flags().StringVar(&q.Cause, "reason", "", "only events suppressed for this reason, e.g. below_threshold")
	limitFlag(cmd, &q.Limit, "events")
	p.formatFlag(cmd, "text", "json", "jsonl")
	p.runWithClient(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Events(ctx, q)
		if err != nil {
			return err
		}
		if len(list.Events) == 0 && p.format == "text" && (q.Suppressed || q.Cause != "" || q.Cluster != "") {
			p.printMessage("No such events.")
			return nil
		}
		return p.printEvents(list)
	})
	return groupCommand("events", "Show the events that arrived", cmd)
}

func (p *program) printEvents(list api.EventList) error {
	switch p.format {
	case "json":
		return p.printJSON(list)
	case "jsonl":
		return printLines(p.stdout, list.Events)
	}
	if len(list.Events) == 0 {
		p.printMessage("No events. `nightcrier clusters list` shows whether faults can arrive.")
		return nil
	}
	t := table{heading: []string{"AGE", "CLUSTER", "SEVERITY", "FAULT", "RESOURCE", "OUTCOME", "INCIDENT", "DETAIL"},
		expendable: []string{"INCIDENT", "CLUSTER", "SEVERITY", "DETAIL", "FAULT"}}
	for _, ev := range list.Events {
		t.addRow(p.ageCell(ev.ReceivedAt), plainCell(ev.Cluster), severityCell(ev.Severity), faultOf(ev), plainCell(resourceText(ev.Resource)),
			outcomeCell(ev), plainCell(ev.IncidentID), plainCell(ev.Detail))
	}
	p.printTable(t)
	if list.NextCursor != "" {
		p.printMessage("There are more; --limit shows up to 1000.")
	}
	return nil
}

// faultOf is what an event tells: a fault, or that it is over.
func faultOf(ev nightcrier.Event) cell {
	if ev.Cleared {
		return cell{ev.FaultType + " is over", green}
	}
	return plainCell(ev.FaultType)
}

func resourceText(r nightcrier.Resource) string {
	if r.IsZero() {
		return ""
	}
	return r.String()
}

// outcomeCell is the outcome with its reason, if it has one.
func outcomeCell(ev nightcrier.Event) cell {
	text := strings.TrimSuffix(string(ev.Outcome)+": "+strings.ReplaceAll(string(ev.Reason), "_", " "), ": ")
	if ev.Repeats > 0 {
		text += fmt.Sprintf(" ×%d", ev.Repeats+1)
	}
	c := plainCell(text)
	if ev.Outcome == nightcrier.Suppressed {
		c.colour = dim
	}
	return c
}
