package kubetool

import (
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"nightcrier.dev/nightcrier/internal/text"
)

// shortLine is one line of at most limit bytes.
func shortLine(s string, limit int) string { return text.CutLine(text.MarkHidden(s), limit) }

// Fence is for text from elsewhere that stands in a tool's result: it is set off
// behind a fence that the text cannot close.
func Fence(said string) string {
	run, longest := 0, 2
	for _, r := range said {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	bar := strings.Repeat("`", longest+1)
	return bar + "\n" + strings.TrimSuffix(text.MarkHidden(said), "\n") + "\n" + bar + "\n"
}

// formatTable lays rows out in columns, the first row being the head. Cells are
// shortened to one line; the last column is not padded.
func formatTable(rows [][]string) string {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i >= len(width) {
				width = append(width, 0)
			}
			row[i] = shortLine(cell, 300)
			width[i] = max(width[i], min(utf8.RuneCountInString(row[i]), 60))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(cell))+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// formatAge says how long ago at was, roughly, "" for the zero time.
func formatAge(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(at), 0))
}

func formatAgo(now, at time.Time) string {
	if at.IsZero() {
		return "at an unknown time"
	}
	return formatAge(now, at) + " ago"
}
