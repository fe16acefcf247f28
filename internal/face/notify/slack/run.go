package slack

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// maxSteps bounds the steps that a message lists, and maxReason what it says of one.
const (
	maxSteps  = 20
	maxReason = 240
)

var outcomeWords = map[nightcrier.State]string{
	nightcrier.StateSuccess: "✅ succeeded", nightcrier.StateFailed: "🔴 failed", nightcrier.StateTimeout: "🔴 took too long", nightcrier.StateCancelled: "⚪ was cancelled",
}

// renderRun says how a run ended, what its pipeline says of it, and what each step came to.
func (w *Webhook) renderRun(r *notify.Run) (string, string, []block) {
	mark, words, _ := strings.Cut(cmp.Or(outcomeWords[r.Outcome], "⚪ did not begin"), " ")
	colour := colours[nightcrier.Critical]
	switch r.Outcome {
	case nightcrier.StateSuccess:
		colour = green
	case nightcrier.StateCancelled, "":
		colour = grey
	}
	about := describeRun(r)
	facts := table{{"Pipeline", r.Pipeline}, {"About", about}, {"Outcome", words}, {"Duration", describeTime(r.AdmittedAt, r.EndedAt)}, {"Started by", r.TriggeredBy}}
	if r.CostUSD > 0 {
		facts = append(facts, [2]string{"Cost", fmt.Sprintf("$%.2f", r.CostUSD)})
	}
	for i := range facts {
		facts[i][1] = texts.MaskClean(facts[i][1], w.mask, texts.FoldLine)
	}
	var blocks []block
	if r.Text != "" {
		blocks = append(blocks, sectionBlock("", w.mask(r.Text)))
	}
	blocks = append(blocks, facts.asBlock())
	if why := cmp.Or(r.FailureReason, r.Cause, strings.ReplaceAll(string(r.Reason), "_", " ")); r.Outcome != nightcrier.StateSuccess && why != "" {
		blocks = append(blocks, sectionBlock("Why", w.mask(why)))
	}
	if lines := w.stepLines(r.Steps); lines != "" {
		blocks = append(blocks, sectionBlock("Steps", lines))
	}
	look := "`nightcrier runs show " + escapeText(r.ID, 64) + "`"
	headline := mark + " " + r.Pipeline + " " + words
	if about != "" {
		headline += ": " + about
	}
	return headline, colour, append(blocks, footerBlock(look))
}

// describeRun says what a run is about. A call is about nothing but its key: who made it stands beside.
func describeRun(r *notify.Run) string {
	if r.Subject.Kind == nightcrier.SubjectCall {
		return r.Key
	}
	return strings.ReplaceAll(string(r.Subject.Kind), "_", " ") + " " + cmp.Or(r.Subject.Title, r.Subject.ID)
}

// stepLines has a line for each step: what it came to, in what time, and for how much.
func (w *Webhook) stepLines(steps []nightcrier.Step) string {
	var lines []string
	for _, s := range steps[:min(len(steps), maxSteps)] {
		line := s.ID + ": " + string(s.State)
		why := s.FailureReason
		switch {
		case s.Skipped != "":
			line, why = s.ID+": skipped", s.Skipped
		case s.FromRun != "":
			line += ", in run " + s.FromRun
		}
		if took := describeTime(s.StartedAt, s.EndedAt); took != "" && s.FromRun == "" {
			line += ", " + took
		}
		if s.Usage.CostUSD > 0 && s.FromRun == "" {
			line += fmt.Sprintf(", $%.2f", s.Usage.CostUSD)
		}
		if why != "" {
			line += " – " + texts.CutRunes(texts.MaskClean(why, w.mask, texts.FoldLine), maxReason)
		}
		lines = append(lines, line)
	}
	if more := len(steps) - maxSteps; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// describeTime is what lies between two moments, to the unit that a person reads.
func describeTime(from, to time.Time) string {
	d := to.Sub(from)
	switch {
	case from.IsZero() || d < 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
