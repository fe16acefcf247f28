package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
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

func (p *program) askIncidentCommand() *cobra.Command {
	var ask api.NewQuestion
	cmd := &cobra.Command{Use: "ask ID QUESTION", Short: "Ask about an incident that was investigated", Args: checkArgs(func(_ *cobra.Command, given []string) error {
		if len(given) != 2 {
			return errors.New(`name the incident and what is asked, in quotes: incidents ask ID "why?"`)
		}
		return nil
	}),
		Long: `An agent answers from the report and its facts and, where they do not answer it, from what
it reads in the cluster, which it cannot change. It is told what was asked and answered before. The
question and its answer are kept with the incident: incidents show lists them.`,
		Example: `  nightcrier incidents ask 0196f3b2 "did anything change before it began?"`}
	cmd.Flags().StringVar(&ask.By, "by", "", "who asks (default $USER)")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClient(cmd, func(ctx context.Context, c *client.Client, given []string) error {
		ask.By, ask.Question = cmp.Or(ask.By, p.envVariable("USER")), given[1]
		line := p.beginProgress()
		defer line.endLine()
		calls := 0
		q, err := c.AskIncident(ctx, given[0], ask, func(s client.Step) {
			calls++
			line.showProgress(triage.Progress{Doing: s.Tool, Reads: calls})
		})
		line.endLine()
		if err != nil && q.Seq > 0 {
			err = hinted{err, "the question is kept: `nightcrier incidents show " + given[0] + "` lists it with its answer"}
		}
		if err != nil {
			return err
		}
		if p.format == "json" {
			err = p.printJSON(q)
		} else {
			p.printAnswer(q)
		}
		if err == nil && q.Failure != "" {
			return nightcrier.Errorf(nightcrier.NoReport, "no answer: %s", text.FoldLine(q.Failure))
		}
		return err
	})
}

// printAnswer prints an answer, and what stands behind it.
func (p *program) printAnswer(q nightcrier.Question) {
	if q.Answer == "" {
		return
	}
	fmt.Fprintln(p.stdout, strings.TrimSpace(text.DropHidden(q.Answer)))
	fmt.Fprintln(p.stdout)
	fmt.Fprintln(p.stdout, p.paintCell(cell{citedText(q), dim}))
}

// citedText says what an answer rests on.
func citedText(q nightcrier.Question) string {
	var parts []string
	for _, of := range []struct {
		what string
		ids  []string
	}{{"facts of the report: ", q.Facts}, {"read for this answer: ", q.Evidence}, {"cited and not there: ", q.Unknown}} {
		if len(of.ids) > 0 {
			parts = append(parts, of.what+strings.Join(of.ids, ", "))
		}
	}
	if len(parts) == 0 {
		return "No evidence is cited: take it for a guess."
	}
	return strings.Join(parts, "; ") + fmt.Sprintf(" (run %s)", q.RunID)
}

// describeQuestion is a question with its answer as a row of an incident.
func describeQuestion(q nightcrier.Question) string {
	answer := cmp.Or(q.Answer, "no answer: "+q.Failure)
	if q.Open() {
		answer = "being answered, by run " + q.RunID
	}
	return cmp.Or(q.By, "somebody") + " asked: " + text.FoldLine(q.Text) + " — " + text.CutLine(answer, 500)
}
