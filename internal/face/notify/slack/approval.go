package slack

import (
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// maxShownArguments is how much of a call's arguments a message has, in characters.
const maxShownArguments = 2000

// renderApproval says what people are asked, with the exact call, and how to decide. All of it but
// our own words may come from a model.
func (w *Webhook) renderApproval(a *nightcrier.Approval) (string, string, []block) {
	until := "for ever"
	if !a.ExpiresAt.IsZero() {
		until = a.ExpiresAt.UTC().Format(time.RFC3339)
	}
	facts := table{{"Pipeline", a.Pipeline}, {"Step", a.Step}, {"Asked by", a.RequestedBy}, {"Who may decide", strings.Join(a.Entitled(), ", ")},
		{"Have to agree", fmt.Sprint(a.Needed)}, {"Until", until}, {"Tool", a.Tool}, {"Server", a.Server}, {"Digest", a.Digest[:min(12, len(a.Digest))]}}
	for i := range facts {
		facts[i][1] = texts.MaskClean(facts[i][1], w.mask, texts.FoldLine)
	}
	blocks := []block{facts.asBlock(), sectionBlock("Asked", w.mask(a.Prompt))}
	if args := string(a.CallArguments()); args != "" {
		shown := texts.MaskClean(args, w.mask, texts.MarkHidden)
		if cut := texts.CutRunes(shown, maxShownArguments); cut != shown {
			shown = cut + "\n… cut: the command below shows all of it"
		}
		blocks = append(blocks, sectionBlock("Arguments", shown))
	}
	id := escapeText(a.ID, 64)
	return "✋ " + a.Pipeline + " waits for a decision: " + texts.CutRunes(texts.FoldLine(a.Prompt), 80), colours[nightcrier.Warning],
		append(blocks, footerBlock("`nightcrier approvals show "+id+"`", "`nightcrier approvals approve "+id+" --digest "+a.Digest[:min(12, len(a.Digest))]+"`"))
}
