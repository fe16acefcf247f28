package review

import (
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// cleanDiff masks the secrets in a diff, and puts a mark in the place of each character that a reader
// does not see: it is what agents are shown, and what they are held against. It returns how many lines
// had such characters.
func (d *Diff) clean(mask func(string) string) (hidden int) {
	for i := range d.Files {
		f := &d.Files[i]
		f.Path, f.Old = text.MarkHidden(mask(f.Path)), text.MarkHidden(mask(f.Old))
		for j := range f.Hunks {
			h := &f.Hunks[j]
			h.Section = text.MarkHidden(mask(h.Section))
			hidden += h.clean(mask)
		}
	}
	return hidden
}

// clean masks the lines of a hunk together: a key may stand in several. Where that joins some of them, each is
// masked by itself, and what stands between the ends of a key is left out.
func (h *Hunk) clean(mask func(string) string) (hidden int) {
	all := make([]string, len(h.Lines))
	for i, l := range h.Lines {
		all[i] = l.Text
	}
	masked := strings.Split(mask(strings.Join(all, "\n")), "\n")
	if len(masked) != len(all) {
		masked = maskEach(all, mask)
	}
	for i := range h.Lines {
		shown := text.MarkHidden(masked[i])
		if shown != masked[i] {
			hidden++
		}
		h.Lines[i].Text = shown
	}
	return hidden
}

func maskEach(all []string, mask func(string) string) []string {
	masked, inKey := make([]string, len(all)), false
	for i, l := range all {
		begins, ends := strings.Contains(l, "-----BEGIN "), strings.Contains(l, "-----END ")
		if masked[i] = strings.ReplaceAll(mask(l), "\n", " "); inKey && !ends {
			masked[i] = "(a line of a key)"
		}
		inKey = (inKey || begins) && !ends
	}
	return masked
}

// What a page shows nobody, though a model reads it: comments, what stands for a picture or a link when the
// pointer is over it, and links that nothing names.
var (
	comments = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)
	pictures = regexp.MustCompile(`!\[[^\]]*\]`)
	titles   = regexp.MustCompile(`\]\(([^\s()]*)\s+(?:"[^"]*"|'[^']*'|\([^()]*\))\s*\)`)
	unnamed  = regexp.MustCompile(`(?m)^\s{0,3}\[[^\]]*\]:.*$`)
	hiddenIn = regexp.MustCompile(`(?i)\s(?:alt|title|aria-label|data-[\w-]*|content|value|placeholder|summary)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)`)
)

// cleanProse takes out of a description what a page does not show.
func cleanProse(s string, mask func(string) string) string {
	return text.MaskClean(s, mask, func(s string) string {
		s = comments.ReplaceAllString(text.DropHidden(s), "")
		s = pictures.ReplaceAllString(s, "![]")
		s = titles.ReplaceAllString(s, "](${1})")
		s = unnamed.ReplaceAllString(s, "")
		return hiddenIn.ReplaceAllString(s, "")
	})
}
