package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api/client"

	"github.com/spf13/cobra"
)

func (p *program) clustersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List clusters and whether their faults are received", Args: checkArgs(noArgs)}
	p.formatFlag(cmd, "text", "json", "jsonl")
	p.runWithClient(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Clusters(ctx)
		switch {
		case err != nil:
			return err
		case p.format == "json":
			return p.printJSON(list)
		case p.format == "jsonl":
			return printLines(p.stdout, list.Clusters)
		}
		p.printClusters(list.Clusters)
		return nil
	})
	return groupCommand("clusters", "Show the watched clusters", cmd)
}

func (p *program) printClusters(list []nightcrier.SourceStatus) {
	if len(list) == 0 {
		p.printMessage("No clusters are configured. Name one in the file given with --config, or set K8S_CLUSTER_MCP_ENDPOINT; examples/ has files to start from.")
		return
	}
	t := table{heading: []string{"CLUSTER", "SOURCE", "STATE", "SINCE", "MODE", "EVENTS", "LAST EVENT", "RECONNECTS", "READ-ONLY", "LABELS", "LAST ERROR"},
		expendable: []string{"LABELS", "RECONNECTS", "MODE", "EVENTS", "SINCE", "LAST EVENT", "SOURCE"}}
	for _, s := range list {
		t.addRow(plainCell(s.Cluster), plainCell(s.Source), stateCell(s.State), p.ageCell(s.Since), plainCell(s.Mode), plainCell(fmt.Sprint(s.Events)), p.ageCell(s.LastEventAt),
			plainCell(fmt.Sprint(s.Reconnects)), readOnly(s.Access), plainCell(joinLabels(s.Labels)), plainCell(s.LastError))
	}
	p.printTable(t)
	p.explainProblems(list)
	p.explainAccess(list)
}

// explainProblems says what of a cluster its source cannot see, one line for a
// source; of one that is down why, where a terminal clips LAST ERROR.
func (p *program) explainProblems(list []nightcrier.SourceStatus) {
	told := false
	for _, s := range list {
		switch {
		case s.State == nightcrier.SourceDown && p.width > 0:
			p.printMessage("%s: %s is down: %s", s.Cluster, s.Source, s.LastError)
		case s.State == nightcrier.SourceDown, len(s.Problems) == 0:
			continue
		default:
			p.printMessage("%s: %s does not see %s", s.Cluster, s.Source, inOne(s.Problems))
		}
		told = true
	}
	if told {
		p.printMessage("`nightcrier doctor` says how to mend it.")
	}
}

// inOne names the kinds of all problems, which are KIND: REASON, and the reason of
// the first.
func inOne(problems []string) string {
	kinds := make([]string, len(problems))
	for i, problem := range problems {
		kinds[i], _, _ = strings.Cut(problem, ": ")
	}
	_, why, _ := strings.Cut(problems[0], ": ")
	return strings.Join(kinds, ", ") + ": " + why
}

// explainAccess says why agents do not look into a cluster, and what to do.
func (p *program) explainAccess(list []nightcrier.SourceStatus) {
	told := map[string]bool{}
	for _, s := range list {
		if s.Access != nil && s.Access.ReadOnly != "none" && !s.Access.Agents && !told[s.Cluster] {
			told[s.Cluster] = true
			p.printMessage("%s: agents get no access: %s", s.Cluster, s.Access.Detail)
		}
	}
}

// readOnly is whether a credential can do nothing but read.
func readOnly(a *nightcrier.Access) cell {
	if a == nil {
		return plainCell("")
	}
	return cell{a.ReadOnly, map[string]string{"yes": green, "no": red, "unknown": yellow}[a.ReadOnly]}
}

// joinLabels returns name=value in the order of the names.
func joinLabels(of map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		words = append(words, name+"="+of[name])
	}
	return strings.Join(words, ",")
}

func stateCell(s nightcrier.SourceState) cell {
	return cell{string(s), map[nightcrier.SourceState]string{nightcrier.SourceSubscribed: green, nightcrier.SourceDown: red,
		nightcrier.SourceStale: red, nightcrier.SourceConnecting: yellow, nightcrier.SourceStopped: dim}[s]}
}
