package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

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
