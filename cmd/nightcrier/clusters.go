package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/api/client"

	"github.com/spf13/cobra"
)

func (p *program) clustersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List clusters and whether their faults are received", Args: args(noArgs)}
	p.formatFlag(cmd, "text", "json", "jsonl")
	p.asks(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
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
	return group("clusters", "Show the watched clusters", cmd)
}

func (p *program) printClusters(list []nightcrier.SourceStatus) {
	if len(list) == 0 {
		p.say("No clusters are configured. Name one in the file given with --config, or set K8S_CLUSTER_MCP_ENDPOINT; examples/ has files to start from.")
		return
	}
	t := table{heading: []string{"CLUSTER", "SOURCE", "STATE", "SINCE", "MODE", "EVENTS", "LAST EVENT", "RECONNECTS", "READ-ONLY", "LABELS", "LAST ERROR"},
		expendable: []string{"LABELS", "RECONNECTS", "MODE", "EVENTS", "SINCE", "LAST EVENT", "SOURCE"}}
	for _, s := range list {
		t.add(plain(s.Cluster), plain(s.Source), state(s.State), p.age(s.Since), plain(s.Mode), plain(fmt.Sprint(s.Events)), p.age(s.LastEventAt),
			plain(fmt.Sprint(s.Reconnects)), readOnly(s.Access), plain(labels(s.Labels)), plain(s.LastError))
	}
	p.print(t)
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
			p.say("%s: %s is down: %s", s.Cluster, s.Source, s.LastError)
		case s.State == nightcrier.SourceDown, len(s.Problems) == 0:
			continue
		default:
			p.say("%s: %s does not see %s", s.Cluster, s.Source, inOne(s.Problems))
		}
		told = true
	}
	if told {
		p.say("`nightcrier doctor` says how to mend it.")
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
			p.say("%s: agents get no access: %s", s.Cluster, s.Access.Detail)
		}
	}
}

// readOnly is whether a credential can do nothing but read.
func readOnly(a *nightcrier.Access) cell {
	if a == nil {
		return plain("")
	}
	return cell{a.ReadOnly, map[string]string{"yes": green, "no": red, "unknown": yellow}[a.ReadOnly]}
}

// labels are name=value in the order of the names.
func labels(of map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		words = append(words, name+"="+of[name])
	}
	return strings.Join(words, ",")
}

func state(s nightcrier.SourceState) cell {
	return cell{string(s), map[nightcrier.SourceState]string{nightcrier.SourceSubscribed: green, nightcrier.SourceDown: red,
		nightcrier.SourceStale: red, nightcrier.SourceConnecting: yellow, nightcrier.SourceStopped: dim}[s]}
}
