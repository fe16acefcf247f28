package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// cardsOfSweep is how many faults of a whole cluster are shown as a card; of the
// others a line is.
const cardsOfSweep = 3

// runSweep looks at a whole cluster and prints what it found, in JSON what document makes of it. It is a NoReport error when
// a report is not valid.
func (p *program) runSweep(ctx context.Context, o triage.Options, f triageFlags, line *progressLine, document func(sweepDocument) any) error {
	s, err := triage.Sweep(ctx, o)
	line.endLine()
	if err != nil {
		return err
	}
	if p.format == "json" {
		err = p.printJSON(document(newSweepDocument(s)))
	} else {
		err = p.printSweep(s, f)
	}
	if err != nil {
		return err
	}
	for _, t := range slices.Concat([]triage.Result{s.Whole}, s.Found, s.Unclear) {
		if t.Report == nil || !t.Report.Valid || t.Incident.Status != nightcrier.Resolved {
			return nightcrier.Errorf(nightcrier.NoReport, "no valid report of %s: %s", t.Incident.Resource, cmp.Or(t.Incident.FailureReason, "the incident is "+string(t.Incident.Status)))
		}
	}
	return nil
}

// triageDocument is one investigation in JSON.
type triageDocument struct {
	Incident nightcrier.Incident `json:"incident"`
	Report   *nightcrier.Report  `json:"report"`
}

func triageDocuments(list []triage.Result) []triageDocument {
	out := []triageDocument{}
	for _, t := range list {
		out = append(out, triageDocument{t.Incident, t.Report})
	}
	return out
}

// sweepDocument is the look at a whole cluster in JSON.
type sweepDocument struct {
	Cluster triageDocument      `json:"cluster"`
	Faults  []triageDocument    `json:"faults"`
	Unclear []triageDocument    `json:"unclear"`
	Left    []nightcrier.Object `json:"left"`
}

func newSweepDocument(s triage.Swept) sweepDocument {
	return sweepDocument{triageDocument{s.Whole.Incident, s.Whole.Report}, triageDocuments(s.Found), triageDocuments(s.Unclear), append([]nightcrier.Object{}, s.Left...)}
}

// printSweep prints the faults, the worst first, and what was not looked at; f has the
// flags that lead to the cluster.
func (p *program) printSweep(s triage.Swept, f triageFlags) error {
	if s.Whole.Report == nil {
		return nil
	}
	if len(s.Found)+len(s.Unclear) == 0 {
		return p.printReport(s.Whole, report.Beside{Rest: "add -o full", Flags: f.kubectlFlags()})
	}
	fmt.Fprintln(p.stdout, p.paintCell(cell{text.DropHidden(fmt.Sprintf("%s in cluster %s, the worst first", faultsText(len(s.Found)), s.Whole.Report.Cluster)), "1"}))
	rest := table{}
	for i, t := range s.Found {
		if i >= cardsOfSweep && p.format != "full" {
			c := report.NewCard(t.Report)
			rest.addRow(plainCell(c.Severity), cell{cmp.Or(c.Mend.String(), c.Target.String()), "1"}, plainCell(c.Cause))
			continue
		}
		fmt.Fprintln(p.stdout)
		if err := p.printReport(t, report.Beside{Rest: sweepRest(t.Report, f.clusterFlags()), Flags: f.kubectlFlags()}); err != nil {
			return err
		}
	}
	for _, t := range s.Unclear {
		rest.addRow(plainCell(t.Report.Severity), cell{t.Report.Target.String(), "1"}, plainCell("in trouble; no cause was found, it may follow from the above"))
	}
	if len(rest.rows) > 0 {
		fmt.Fprintln(p.stdout)
		p.printTable(rest)
	}
	p.printBounds(s)
	return nil
}

// sweepRest is the command that shows more of one fault; from leads to its cluster.
func sweepRest(r *nightcrier.Report, from string) string {
	o := report.NewCard(r).Mend
	if o.Name == "" {
		o = r.Target
	}
	if o.Kind == "Cluster" {
		return "add -o full"
	}
	command := "nightcrier triage " + report.ShellWords(strings.ToLower(o.Kind)+"/"+o.Name)
	if o.Namespace != "" {
		command += " -n " + report.ShellWords(o.Namespace)
	}
	return command + from + " -o full"
}

// printBounds says what of the cluster was not looked at, and what to do about it. What
// a card has told already is not said again.
func (p *program) printBounds(s triage.Swept) {
	var bounds []string
	if len(s.Left) > 0 {
		var names []string
		for _, o := range s.Left {
			names = append(names, o.String())
		}
		bounds = append(bounds, fmt.Sprintf("In trouble too, but %d at most are looked at one by one: %s", triage.SweepMost, strings.Join(names, ", ")))
	}
	if s.Cut {
		bounds = append(bounds, fmt.Sprintf("One look names %d objects in trouble at most, and there may be more: look again when the first are mended, or at one namespace with -n.", len(s.Whole.Report.Scope.Affected)))
	}
	for _, n := range s.Whole.Report.NotChecked {
		if !p.toldOnCard(s, n) {
			bounds = append(bounds, fmt.Sprintf("Not looked at: %s (%s)", n.What, n.Why))
		}
	}
	for i, b := range bounds {
		if i == 0 {
			p.printMessage("")
		}
		p.sayFolded("%s", b)
	}
}

// toldOnCard reports whether the report of a card that was printed names what was not
// looked at.
func (p *program) toldOnCard(s triage.Swept, n nightcrier.NotChecked) bool {
	for i, t := range s.Found {
		if (i < cardsOfSweep || p.format == "full") && slices.Contains(t.Report.NotChecked, n) {
			return true
		}
	}
	return false
}

func faultsText(n int) string {
	switch n {
	case 0:
		return "No fault with a known cause"
	case 1:
		return "One fault"
	}
	return fmt.Sprintf("%d faults", n)
}
