package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier/internal/check/eval"
	"nightcrier.dev/nightcrier/internal/config"

	"github.com/spf13/cobra"
)

// evalFlags are the flags of eval beside the configuration's.
type evalFlags struct {
	executor, level string
	timeout         time.Duration
	listCauses      bool
	minExact        float64
	maxFalseAlarms  int
	gates           bool
	against         string
}

func (p *program) evalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{Use: "eval [DIR]", Short: "Measure diagnoses against cases whose cause is known", Args: checkArgs(atMostOne("directory")),
		Long: `Investigates every case below DIR and counts how many were diagnosed correctly. A case
is a directory with a snapshot of a cluster and a case.yaml with the right answer. Needs
no cluster, no key and no network, unless --executor names an agent that does.

With --min-exact or --max-false-alarms it exits 6 when the result is worse. --against tells
what an earlier evaluation, kept with -o json, answered differently. --gates changes each
case instead: with what a cause rests on taken out its diagnosis must change, with
unrelated trouble added it must not.`,
		Example: `  nightcrier eval eval/cases
  nightcrier eval cases --min-exact 0.9 --max-false-alarms 0 -o json
  nightcrier eval cases --against before.json
  nightcrier eval cases --gates
  nightcrier eval --list-causes`}
	cmd.Flags().StringVar(&f.executor, "executor", config.Builtin, "agent that investigates")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long one case may take (default agent.timeout)")
	cmd.Flags().BoolVar(&f.listCauses, "list-causes", false, "print the causes that a report can name, and investigate nothing")
	cmd.Flags().Float64Var(&f.minExact, "min-exact", 0, "exit 6 when a smaller share of the cases, 0 to 1, is exactly right")
	cmd.Flags().IntVar(&f.maxFalseAlarms, "max-false-alarms", -1, "exit 6 when there are more false alarms (default any number is accepted)")
	cmd.Flags().StringVar(&f.against, "against", "", "file of an earlier evaluation (-o json): print what changed; exit 6 when a case became worse")
	cmd.Flags().BoolVar(&f.gates, "gates", false, "change each case and tell whether its diagnosis follows; exit 6 when noise moves one")
	cmd.Flags().StringVar(&f.level, "log-level", "error", "lowest level that is logged to stderr")
	p.formatFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if f.listCauses {
			return p.listCauses()
		}
		return p.runEval(cmd, f, given)
	}
	return cmd
}

// listCauses prints what reports name, and the verdicts that stand where there is
// no cause.
func (p *program) listCauses() error {
	list := eval.Causes()
	if p.format == "json" {
		return p.printJSON(list)
	}
	t := table{heading: []string{"CAUSE", "CATEGORY", "MEANING"}}
	for _, c := range list {
		t.addRow(plainCell(c.ID), plainCell(c.Category), plainCell(c.Meaning))
	}
	p.printTable(t)
	return nil
}

func (p *program) runEval(cmd *cobra.Command, f evalFlags, given []string) error {
	if len(given) == 0 {
		return usageError(cmd, fmt.Errorf("name the directory that holds the cases"))
	}
	if f.minExact < 0 || f.minExact > 1 {
		return usageError(cmd, fmt.Errorf("--min-exact %v is not a share between 0 and 1", f.minExact))
	}
	from := p.configOptions(cmd)
	standsFor(from, "executor", "agent.executor", f.executor)
	if cmd.Flags().Changed("timeout") {
		standsFor(from, "timeout", "agent.timeout", f.timeout.String())
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
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	options := oneshot.EvalOptions{Config: cfg, Logger: log, Version: buildVersion().Version, Dir: given[0], Executor: cfg.Agent.Executor}
	if f.gates {
		trials, err := oneshot.TryGates(ctx, options)
		if err != nil {
			return err
		}
		return p.reportGates(trials)
	}
	res, err := oneshot.Eval(ctx, options)
	switch {
	case err != nil:
		return err
	case f.against != "":
		return p.reportChanges(f.against, res)
	case p.format == "json":
		err = p.printJSON(res)
	default:
		p.printEval(res)
	}
	if err != nil {
		return err
	}
	return p.checkFloors(f, res.Totals)
}

// reportGates prints what the gates found, and fails where noise moved a diagnosis.
func (p *program) reportGates(trials []eval.Trial) error {
	totals := eval.SumGates(trials)
	if p.format == "json" {
		if err := p.printJSON(map[string]any{"trials": trials, "totals": totals}); err != nil {
			return err
		}
	} else {
		t := table{heading: []string{"CASE", "GATE", "BEFORE", "AFTER"}, expendable: []string{"BEFORE"}}
		for _, tr := range trials {
			if !tr.Passed && tr.Skipped == "" {
				t.addRow(plainCell(tr.Case), cell{tr.Gate, "31"}, plainCell(tr.Before), plainCell(tr.After))
			}
		}
		p.printTable(t)
		for _, s := range totals {
			fmt.Fprintf(p.stdout, "\n%s: %d passed, %d did not, %d could not be tried\n", s.Gate, s.Passed, s.Failed, s.Skipped)
		}
	}
	if slices.ContainsFunc(totals, func(s eval.GateTotals) bool { return s.Gate == eval.NoiseGate && s.Failed > 0 }) {
		return errFound
	}
	return nil
}

// reportChanges prints what an earlier evaluation answered differently, and fails where a
// case became worse.
func (p *program) reportChanges(file string, now eval.Result) error {
	raw, err := os.ReadFile(file)
	var before eval.Result
	if err == nil {
		err = json.Unmarshal(raw, &before)
	}
	if err != nil || len(before.Cases) == 0 {
		return nightcrier.Errorf(nightcrier.Invalid, "--against %s is no result of `nightcrier eval -o json`: %v", file, err)
	}
	changes := eval.Compare(before, now)
	better, worse := 0, 0
	t := table{heading: []string{"CASE", "CHANGE", "BEFORE", "AFTER"}}
	for _, c := range changes {
		change := cell{"other", "33"}
		switch {
		case c.Better():
			better, change = better+1, cell{"better", "32"}
		case c.Worse():
			worse, change = worse+1, cell{"worse", "31"}
		}
		t.addRow(plainCell(c.Case), change, plainCell(describeScore(c.Before)), plainCell(describeScore(c.After)))
	}
	if p.format == "json" {
		err = p.printJSON(changes)
	} else {
		p.printTable(t)
		fmt.Fprintf(p.stdout, "\n%d of %d cases changed: %d better, %d worse\nexact: %d before, %d after; calibration error: %.3f before, %.3f after\n",
			len(changes), now.Totals.Cases, better, worse, before.Totals.Exact, now.Totals.Exact, before.Totals.CalibrationError, now.Totals.CalibrationError)
	}
	if err == nil && worse > 0 {
		err = errFound
	}
	return err
}

// describeScore is an answer and what it is worth.
func describeScore(s *eval.Score) string {
	if s == nil {
		return "no such case"
	}
	word, _ := s.Outcome()
	says := cmp.Or(s.Error, s.Cause)
	if s.Object != nil {
		says += " " + s.Object.String()
	}
	return strings.TrimSpace(word + ": " + says + " " + string(s.Confidence))
}

// checkFloors fails the evaluation where it is worse than was asked for.
func (p *program) checkFloors(f evalFlags, t eval.Totals) error {
	worse := false
	if t.ExactShare < f.minExact {
		p.printMessage("A share of %.3f of the cases is exactly right, less than --min-exact %.3f.", t.ExactShare, f.minExact)
		worse = true
	}
	if f.maxFalseAlarms >= 0 && t.FalseAlarms > f.maxFalseAlarms {
		p.printMessage("There are %d false alarms, more than --max-false-alarms %d.", t.FalseAlarms, f.maxFalseAlarms)
		worse = true
	}
	if worse {
		return errFound
	}
	return nil
}

// printEval prints the cases, the wrong ones first, and what they add up to.
func (p *program) printEval(res eval.Result) {
	t := table{heading: []string{"CASE", "RESULT", "CONFIDENCE", "CHECKED", "READS", "MS", "SAYS", "EXPECTED"}, expendable: []string{"MS", "READS", "CHECKED", "CONFIDENCE"}}
	for _, s := range res.Cases {
		result, expected := s.Outcome()
		says := s.Cause
		if s.Object != nil {
			says += " " + s.Object.String()
		}
		t.addRow(plainCell(s.Case), cell{result, colourOf(result)}, plainCell(string(s.Confidence)), plainCell(fmt.Sprintf("%d/%d", s.Checked, s.Facts)),
			plainCell(fmt.Sprint(s.Reads)), plainCell(fmt.Sprint(s.MS)), plainCell(cmp.Or(s.Error, says)), plainCell(expected))
	}
	p.printTable(t)
	s := res.Totals
	fmt.Fprintf(p.stdout, `
%d cases: %d exact (%.1f %%), %d with the right object, %d abstained, %d false alarms, %d errors
%.1f %% of all facts checked, %.1f reads a case, %d ms p50, %d ms p95, expected calibration error %.3f
`, s.Cases, s.Exact, 100*s.ExactShare, s.ObjectRight, s.Abstained, s.FalseAlarms, s.Errors,
		100*s.CheckedShare, s.ReadsMean, s.MSP50, s.MSP95, s.CalibrationError)
	p.printCalibration(s.Calibration)
}

// plotWidth is how many characters a share of 1 is wide.
const plotWidth = 40

// printCalibration plots how often each confidence was right; the mark is how often it
// should be.
func (p *program) printCalibration(levels []eval.Level) {
	if len(levels) == 0 {
		return
	}
	fmt.Fprintf(p.stdout, "\nconfidence  right    0 %s 1\n", strings.Repeat(" ", plotWidth-2))
	for _, l := range levels {
		bar := []rune(strings.Repeat("█", int(l.Share*plotWidth+0.5)))
		for len(bar) < plotWidth+1 {
			bar = append(bar, ' ')
		}
		bar[int(l.Promised*plotWidth+0.5)] = '│'
		fmt.Fprintf(p.stdout, "%-10s  %3d/%-3d  %s  %.2f, says %.2f\n", l.Confidence, l.Right, l.Stated, strings.TrimRight(string(bar), " "), l.Share, l.Promised)
	}
}

func colourOf(result string) string {
	switch result {
	case eval.Exact:
		return "32"
	case eval.FalseAlarm, eval.Failed:
		return "31"
	}
	return "33"
}
