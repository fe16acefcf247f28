package slack

import (
	"fmt"
	"sort"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
	texts "nightcrier.dev/nightcrier/internal/text"
)

const (
	// maxListed bounds the incidents that a storm message lists one by one.
	maxListed = 60
	// perSection and lineLimit together stay below a section's limit.
	perSection = 10
	lineLimit  = 250
)

// renderStorm lists the incidents of a storm, the most severe first.
func (w *Webhook) renderStorm(m notify.Message) (string, string, []block) {
	s := m.Storm
	list := append([]nightcrier.Incident(nil), s.Incidents...)
	sort.SliceStable(list, func(i, j int) bool { return list[i].Severity > list[j].Severity })
	colour := colours[nightcrier.Warning]
	if len(list) > 0 {
		colour = colours[list[0].Severity]
	}
	blocks := []block{sectionBlock("", fmt.Sprintf("%d incidents were opened within a short time, which points to one cause above them. %d of them are investigated; the others can be with `nightcrier incidents retry ID`.",
		len(list), len(s.Investigated)))}
	shown := list[:min(len(list), maxListed)]
	for len(shown) > 0 {
		n := min(len(shown), perSection)
		blocks = append(blocks, w.stormLines(shown[:n], s.Investigated))
		shown = shown[n:]
	}
	if more := len(list) - maxListed; more > 0 {
		blocks = append(blocks, sectionBlock("", fmt.Sprintf("… and %d more: nightcrier incidents list --cluster %s", more, s.Cluster)))
	}
	blocks = append(blocks, dividerBlock(), footerBlock(renderLink(w.mask(m.Link)), "storm "+escapeText(s.ID, 64)))
	return fmt.Sprintf("🌩 Storm in %s: %d incidents", s.Cluster, len(list)), colour, blocks
}

func (w *Webhook) stormLines(list []nightcrier.Incident, investigated map[string]bool) block {
	lines := ""
	for i := range list {
		line := headlineOf(&list[i])
		if investigated[list[i].ID] {
			line += " (investigated)"
		}
		lines += escapeText(texts.MaskClean(line, w.mask, texts.FoldLine), lineLimit) + "\n"
	}
	t := mrkdwnText(lines)
	return block{Type: "section", Text: &t}
}
