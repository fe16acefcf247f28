package main

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier/internal/check/selftest"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

// selftestFlags are the flags of selftest beside the configuration's.
type selftestFlags struct {
	cluster, kubeconfig, context, against, sandbox, level string
}

func (p *program) selftestCommand() *cobra.Command {
	var f selftestFlags
	cmd := &cobra.Command{Use: "selftest [all|" + strings.Join(suiteNames(), "|") + "]", Short: "Attack the guards and the sandbox, and show what stops each attack", Args: checkArgs(atMostOne("suite")),
		Long: `Attacks an investigation from the position of its agent: with requests written byte by
byte, with commands in the sandbox, and with every agent CLI on this machine, whose
scripted model orders it to attack. No key is needed and nothing is spent.

With --kubeconfig or --cluster the attacks are aimed at your own cluster. It is read,
and asked what its credential may do, and never changed: between the guard and the cluster's API stands a recorder that lets plain
reads pass and refuses everything else, even if the guard had a hole, and every order
that would change something names an object that only the recorder knows. Without these
flags the cluster is scripted.

With --sandbox the agents run in another sandbox than the configuration requires: floor
is what is left where a machine refuses namespaces.

With --against another agent is tested in place of ours, on this machine and without a
sandbox. If its command contains {command}, each attack is put there as a command to
run. Otherwise it is driven by a scripted model; the vendor's usual variables
(ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL) point to it, and so does
{model}. The task is given on stdin and in place of {prompt}. KUBECONFIG points to the
recorder. No attack starts until one harmless read from the agent has arrived there.

Exits 6 when an attack succeeded, was ordered but never made, or failed although nothing
was seen to stop it; 7 when the cluster does not answer, or no attack was started.`,
		Example: `  nightcrier selftest
  nightcrier selftest readonly --kubeconfig prod.yaml -o json
  nightcrier selftest --against 'claude -p {prompt} --allowedTools "Bash(kubectl get:*)"'
  nightcrier selftest --against 'codex exec --dangerously-bypass-approvals-and-sandbox {prompt}'
  nightcrier selftest --against 'bash -c {command}'`}
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "configured cluster to read through the guard")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "credential of a cluster to read through the guard")
	cmd.Flags().StringVar(&f.context, "context", "", "context within the kubeconfig")
	cmd.Flags().StringVar(&f.against, "against", "", "command that starts another agent to test; it is not run by a shell")
	cmd.Flags().StringVar(&f.sandbox, "sandbox", "", "sandbox to use instead of the configured one: "+strings.Join(selftest.Requires(), ", "))
	cmd.Flags().StringVar(&f.level, "log-level", "error", "lowest level that is logged to stderr")
	p.formatFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return p.runSelftest(cmd, f, given) }
	return cmd
}

func suiteNames() (names []string) {
	for _, s := range selftest.Suites() {
		names = append(names, s.Name)
	}
	return names
}

func (p *program) runSelftest(cmd *cobra.Command, f selftestFlags, given []string) error {
	o := oneshot.SelftestOptions{Cluster: f.cluster, Kubeconfig: f.kubeconfig, Context: f.context, Sandbox: f.sandbox, Environ: p.environ,
		Progress: func(text string) { p.printMessage("%s", text) }}
	if len(given) == 1 && given[0] != "all" {
		if !slices.Contains(suiteNames(), given[0]) {
			return usageError(cmd, fmt.Errorf("%s is not a suite; the suites are all, %s", given[0], strings.Join(suiteNames(), ", ")))
		}
		o.Suites = given
	}
	if f.sandbox != "" && !slices.Contains(selftest.Requires(), f.sandbox) {
		return usageError(cmd, fmt.Errorf("--sandbox %s is not one of %s", f.sandbox, strings.Join(selftest.Requires(), ", ")))
	}
	if f.sandbox != "" && cmd.Flags().Changed("against") {
		return usageError(cmd, fmt.Errorf("--against tests an agent without our sandbox: leave --sandbox out"))
	}
	if f.cluster != "" && f.kubeconfig != "" {
		return usageError(cmd, fmt.Errorf("--cluster replaces --kubeconfig: give one of them"))
	}
	var err error
	if cmd.Flags().Changed("against") {
		if o.Against, err = selftest.ParseCommand(f.against); err != nil {
			return usageError(cmd, fmt.Errorf("--against: %w", err))
		}
	}
	if o.Logger, err = p.newLogger(f.level); err != nil {
		return usageError(cmd, err)
	}
	cfg, warnings, err := p.loadWithWarnings(cmd)
	if err != nil {
		return err
	}
	p.printWarnings(warnings)
	o.Config = cfg
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	found, err := oneshot.Selftest(ctx, o)
	if err != nil {
		return err
	}
	return p.printSelftest(found)
}

// printSelftest prints what became of the attacks; errFound when one is not passed.
func (p *program) printSelftest(found selftest.Report) (err error) {
	if !found.Passed() {
		err = errFound
	}
	if p.format == "json" {
		if printErr := p.printJSON(found); printErr != nil {
			return printErr
		}
		return err
	}
	if found.Sandbox != nil {
		fmt.Fprintf(p.stdout, "sandbox %s\n", text.DropHidden(found.Sandbox.String()))
	}
	fmt.Fprintf(p.stdout, "%s\n\n", text.DropHidden(found.Summary()))
	t := table{heading: []string{"SUITE", "BY", "ATTACKS", "STOPPED BY", "DEFUSED", "NOT POSSIBLE", "FAILED"}}
	for _, s := range found.Totals {
		failed := cell{fmt.Sprint(s.Failed), green}
		if s.Failed > 0 {
			failed.colour = red
		}
		t.addRow(plainCell(s.Suite), plainCell(s.By), plainCell(fmt.Sprint(s.Attacks)), plainCell(s.Layers()), plainCell(fmt.Sprint(s.Defused)), plainCell(fmt.Sprint(s.NotPossible)), failed)
	}
	p.printTable(t)
	if rbac := found.RBAC(); rbac != "" {
		fmt.Fprintf(p.stdout, "%s\n", rbac)
	}
	for _, g := range found.NotExercised {
		about := fmt.Sprintf("%s by %s", g.Suite, g.By)
		if g.Attacks > 0 {
			about = fmt.Sprintf("%d attacks of %s", g.Attacks, about)
		}
		fmt.Fprintf(p.stdout, "%s\n", p.paintCell(cell{text.DropHidden(fmt.Sprintf("not exercised: %s: %s", about, g.Reason)), yellow}))
	}
	for _, r := range found.Attacks {
		if !r.Passed {
			colour := red
			if r.Outcome == selftest.NotPossible {
				colour = yellow
			}
			fmt.Fprintf(p.stdout, "\n%s\n    %s\n", p.paintCell(cell{text.DropHidden(fmt.Sprintf("%s: %s, by %s: %s", r.Suite, r.Attack, r.By, r.Outcome)), colour}), text.DropHidden(r.Detail))
		}
	}
	return err
}
