package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier/internal/oneshot/replay"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	recording "nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

// replayFlags are the flags of replay beside the configuration's.
type replayFlags struct {
	workspace, out, level   string
	executor, model, prompt string
	skill                   string
	force                   bool
}

func (p *program) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{Use: "replay [INCIDENT]", Short: "Repeat an investigation from its record, without a network", Args: checkArgs(atMostOne("incident")),
		Long: `Repeats a past investigation with the recorded answers of the cluster, and compares what
is found and asked: verdict, root cause, object, facts, questions. Times, ids, the order of
lists and the wording of the report are not compared. The command reads the incident's
workspace and changes nothing in it. Exits 0 when both come to the same, 6 when something
differs, 4 when there is no such workspace, 2 when the record cannot be read, is
incomplete, or was changed.

With --executor, --model, --prompt or --skill another agent investigates the recorded
cluster, with its real model, and its report is compared with the old one. Exits 0 when
its report is valid and names the same verdict, root cause and object, else 6.`,
		Example: `  nightcrier replay 0198f1c2-5f0e-7c3a-9a52-0d4be1c1a001
  nightcrier replay --workspace ./incidents/incident-0198f1c2-5f0e-7c3a-9a52-0d4be1c1a001 --out again
  nightcrier replay 0198f1c2 --executor codex --model gpt-5.2
  nightcrier replay 0198f1c2 --skill ./skills/our-runbook`}
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "directory of the incident, instead of its ID")
	cmd.Flags().StringVar(&f.out, "out", "", "directory to keep the new workspace in (default a temporary one)")
	cmd.Flags().StringVar(&f.executor, "executor", "", "agent that investigates the recorded cluster, with its real model (default the recorded one)")
	cmd.Flags().StringVar(&f.model, "model", "", "model to use for this replay (default agent.model)")
	cmd.Flags().StringVar(&f.prompt, "prompt", "", "file to use as agent.system_prompt_file for this replay")
	cmd.Flags().StringVar(&f.skill, "skill", "", "skill to add for this replay: the name of a configured one, or its directory (with a /)")
	cmd.Flags().BoolVar(&f.force, "force", false, "replay what can be read of a record that is incomplete or was changed")
	cmd.Flags().StringVar(&f.level, "log-level", "error", "lowest level that is logged to stderr")
	p.formatFlag(cmd, "text", "json")
	configFlags(cmd, "workspace-root")
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return p.runReplay(cmd, f, given) }
	return cmd
}

func (p *program) runReplay(cmd *cobra.Command, f replayFlags, given []string) error {
	if (len(given) == 1) == (f.workspace != "") {
		return usageError(cmd, fmt.Errorf("which investigation is to be repeated? Name the ID of an incident, or its directory with --workspace"))
	}
	from, another := p.configOptions(cmd), f.skill != ""
	for _, s := range []struct{ flag, key, value string }{
		{"executor", "agent.executor", f.executor}, {"model", "agent.model", f.model}, {"prompt", "agent.system_prompt_file", f.prompt},
	} {
		if s.value != "" {
			standsFor(from, s.flag, s.key, s.value)
			another = true
		}
	}
	cfg, warnings, err := p.loadFrom(from)
	if err != nil {
		return err
	}
	p.printWarnings(warnings)
	log, err := p.newLogger(f.level)
	if err != nil {
		return usageError(cmd, err)
	}
	o := replay.Options{Config: cfg, Logger: log, Version: buildVersion().Version, Workspace: f.workspace, Out: f.out, Force: f.force,
		Another: another, Executor: f.executor, Skill: f.skill, Aloud: func(text string) { p.printMessage("%s", text) }}
	if f.workspace == "" {
		if o.Workspace, err = incidentDir(cfg, given[0]); err != nil {
			return err
		}
	}
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	again, err := replay.Replay(ctx, o)
	if err != nil {
		return err
	}
	return p.printReplay(again)
}

// incidentDir is where the workspace of an incident is, by its ID or the beginning
// of it.
func incidentDir(cfg *config.Config, id string) (string, error) {
	id = strings.TrimPrefix(id, "incident-")
	if nightcrier.CheckID(id) == nil {
		return filepath.Join(cfg.WorkspaceRoot, "incident-"+id), nil
	}
	if !idBeginning.MatchString(id) {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%.100q is not the ID of an incident: `nightcrier incidents list` shows them", id)
	}
	found, err := fs.Glob(os.DirFS(cfg.WorkspaceRoot), "incident-"+id+"*")
	switch {
	case err != nil || len(found) == 0:
		return "", nightcrier.Errorf(nightcrier.NotFound, "no incident in %s begins with %s: `nightcrier incidents list` shows those that there are", cfg.WorkspaceRoot, id)
	case len(found) > 1:
		return "", nightcrier.Errorf(nightcrier.Invalid, "%d incidents begin with %s: give more of the ID", len(found), id)
	}
	return filepath.Join(cfg.WorkspaceRoot, found[0]), nil
}

// printReplay prints what came of it; what differs is something found.
func (p *program) printReplay(again replay.Result) error {
	if p.format == "json" {
		if err := p.printJSON(again); err != nil {
			return err
		}
	} else {
		p.showReplay(again)
	}
	if !again.Same {
		return errFound
	}
	return nil
}

func (p *program) showReplay(r replay.Result) {
	how := "repeated from its record"
	if r.Another != nil {
		how = "investigated again by " + r.Another.Executor + " on the recorded cluster"
	}
	fmt.Fprintf(p.stdout, "Incident %s of %s, investigated by %s, %s in %s.\n", r.Incident, text.DropHidden(r.Cluster), r.Executor, how, r.Took.Round(1e6))
	if r.Recorded != r.Version {
		fmt.Fprintf(p.stdout, "It was recorded by version %s; this is %s.\n", text.DropHidden(r.Recorded), r.Version)
	}
	for _, d := range r.Doubts {
		fmt.Fprintln(p.stdout, "The record was changed: "+text.DropHidden(d))
	}
	p.showAspects(r.Aspects)
	fmt.Fprintln(p.stdout, "\n"+summaryOf(r))
	if r.Another != nil && r.Another.Derived > 0 {
		fmt.Fprintf(p.stdout, "%d requests that were not recorded in this form were answered from the recorded objects.\n", r.Another.Derived)
	}
	p.showDifferences(r.Differences)
	showList(p, "Not served in a replay:", r.NotServed)
	showList(p, "Asked now, and not then:", r.NotRecorded)
	showList(p, "Asked then, and not now:", r.NotAsked)
	if r.Workspace != "" {
		fmt.Fprintf(p.stdout, "The new workspace is %s.\n", r.Workspace)
	}
}

// summaryOf says in a sentence how two investigations compare.
func summaryOf(r replay.Result) string {
	switch {
	case r.Another != nil && r.Same:
		return "Both name the same verdict and root cause."
	case r.Another != nil:
		return "They do not name the same verdict and root cause."
	case r.Same:
		return "Both come to the same: verdict, root cause, facts and questions."
	}
	return "They do not come to the same."
}

// showAspects prints two investigations beside each other.
func (p *program) showAspects(list []replay.Aspect) {
	fmt.Fprintln(p.stdout)
	t := table{heading: []string{"WHAT", "THEN", "NOW"}}
	for _, x := range list {
		colour := ""
		if x.Then == "" && x.Now == "" {
			continue
		}
		if x.Then != x.Now {
			colour = yellow
		}
		t.addRow(plainCell(x.Name), plainCell(text.CutRunes(x.Then, widestBeside)), cell{text.CutRunes(x.Now, widestBeside), colour})
	}
	p.printTable(t)
}

// widestBeside is how many characters of a text stand beside another; -o json has all
// of it.
const widestBeside = 56

// maxShownDifferences is how many differences are printed; -o json has all.
const maxShownDifferences = 12

func (p *program) showDifferences(list []recording.Difference) {
	for i, d := range list {
		if i == maxShownDifferences {
			fmt.Fprintf(p.stdout, "\nand %d more; -o json lists all.\n", len(list)-i)
			return
		}
		fmt.Fprintf(p.stdout, "\n%s\n  - %s\n  + %s\n", text.DropHidden(d.Where), text.DropHidden(cmp.Or(d.Then, "(none)")), text.DropHidden(cmp.Or(d.Now, "(none)")))
	}
}

func showList(p *program, title string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(p.stdout, "\n"+title)
	for i, s := range list {
		if i == maxShownDifferences {
			fmt.Fprintf(p.stdout, "  and %d more\n", len(list)-i)
			return
		}
		fmt.Fprintln(p.stdout, "  "+text.DropHidden(s))
	}
}
