package main

import (
	"cmp"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"

	"github.com/spf13/cobra"
)

// groundsOfAnswer is how many facts an answer shows.
const groundsOfAnswer = 3

func (p *program) askCommand() *cobra.Command {
	var f triageFlags
	cmd := &cobra.Command{Use: "ask QUESTION", Short: "Ask about a cluster in words, without a server", Args: checkArgs(oneQuestion),
		Long: `Finds what of the cluster a question names, investigates that as triage does, and answers
with the facts and the ids of their evidence. A name that nothing has is taken for the one that is
nearly so, and that is said; a question that names nothing is about the whole cluster. Without an
agent the built-in rules answer, and say when they do not know. Exits 3 when there is no valid report.`,
		Example: `  nightcrier ask "why is checkout slow?"
  nightcrier ask "why does the payment api time out?" -n shop
  nightcrier ask "what is broken?" --context prod
  nightcrier ask "why is checkout slow?" --executor claude-code -o json`}
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace to look in; without a name in the question, the namespace to investigate")
	f.addTo(cmd)
	p.formatFlag(cmd, "text", "full", "markdown", "html", "json")
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return p.runAsk(cmd, f, given[0]) }
	return cmd
}

// oneQuestion wants the question as one word of the command line.
func oneQuestion(_ *cobra.Command, given []string) error {
	switch {
	case len(given) == 0:
		return fmt.Errorf("what is asked? Write it in quotes, such as \"why is checkout slow?\"")
	case len(given) > 1:
		return fmt.Errorf("one question is asked, and %d words were given: write it in quotes", len(given))
	}
	return nil
}

// askDocument is an answer in JSON: of one investigation, or of a look at a whole cluster.
type askDocument struct {
	Question string         `json:"question"`
	Meant    triage.Meaning `json:"meant"`
	// Unanswered says what of the question is open, "" for nothing.
	Unanswered string `json:"unanswered,omitempty"`
	*triageDocument
	*sweepDocument
}

func (p *program) runAsk(cmd *cobra.Command, f triageFlags, question string) error {
	line := p.beginProgress()
	defer line.endLine()
	o, err := p.triageOptions(cmd, f)
	if err != nil {
		return err
	}
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	m, err := triage.Understand(ctx, o, question, f.namespace)
	if err != nil {
		return err
	}
	p.sayMeaning(m)
	o.Target, o.Question, o.Progress = m.Target, question, line.showProgress
	builtin := o.Config.Agent.Executor == config.Builtin
	if builtin && m.Target.Kind == kinds.Cluster {
		return p.runSweep(ctx, o, f, line, func(s sweepDocument) any {
			return askDocument{Question: question, Meant: m, sweepDocument: &s}
		})
	}
	t, err := p.investigate(ctx, &o, line)
	if err != nil {
		return err
	}
	open := ""
	if t.Report != nil && t.Report.RootCause == nil {
		open = unansweredText(t.Report, builtin)
	}
	switch {
	case p.format == "json":
		err = p.printJSON(askDocument{question, m, open, &triageDocument{t.Incident, t.Report}, nil})
	case t.Report != nil:
		err = p.printReport(t, report.Beside{Unanswered: open, Grounds: report.Grounds(t.Report, groundsOfAnswer), Rest: restOf(t, o.Out), Flags: f.kubectlFlags()})
	}
	return cmp.Or(err, p.checkTriage(t))
}

// sayMeaning says what a question was taken to be about, where that is not what it says.
func (p *program) sayMeaning(m triage.Meaning) {
	what := text.DropHidden(m.Target.String())
	switch {
	case m.Corrected:
		p.printMessage("Nothing is called %q here: taken for %s.", text.DropHidden(m.Said), what)
	case m.Said == "" && m.Target.Kind == kinds.Cluster:
		p.printMessage("The question names nothing that this cluster has: looking at all of it.")
	}
	if len(m.Unread) > 0 {
		p.printMessage("Not looked for among what cannot be listed: %s.", text.JoinWords(m.Unread, "and"))
	}
}

// unansweredText says that a report without a cause is no answer, and what would find more.
func unansweredText(r *nightcrier.Report, builtin bool) string {
	said := "no cause was found"
	if r.Verdict == nightcrier.VerdictHealthy {
		said = "nothing that was looked at is wrong, which is no proof that all is well"
	}
	if builtin {
		return said + ": the built-in rules know faults of Kubernetes, and do not measure how fast something answers; --executor has an agent investigate the question"
	}
	return said + "; what could not be looked at is listed below"
}
