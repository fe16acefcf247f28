package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// Severity is how much a finding matters.
type Severity string

// The severities, the gravest first.
const (
	Blocker    Severity = "blocker"
	Warning    Severity = "warning"
	Suggestion Severity = "suggestion"
)

var severities = []Severity{Blocker, Warning, Suggestion}

// Finding is what an agent says that it found.
type Finding struct {
	Path string `json:"path"`
	// Side is RIGHT where it is not said.
	Side Side `json:"side,omitempty"`
	// Line is the last one that it is about, Start the first one where it is about several.
	Line     int      `json:"line"`
	Start    int      `json:"start_line,omitempty"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	Body     string   `json:"body"`
	// Suggestion is what shall stand in the place of the lines, nil for none.
	Suggestion *string `json:"suggestion,omitempty"`
	Confidence float64 `json:"confidence"`
	// Evidence is one of the lines, word for word.
	Evidence string `json:"evidence"`
}

// delivered is what an agent delivers.
type delivered struct {
	Summary  string    `json:"summary"`
	Findings []Finding `json:"findings"`
}

// Bounds of what is taken of an agent.
const (
	maxFindings   = 50
	maxTitle      = 160
	maxBody       = 4 << 10
	maxSuggestion = 8 << 10
)

// readDelivered reads what a step delivered. What is too long is cut.
func readDelivered(raw []byte) (d delivered, err error) {
	if err = json.Unmarshal(raw, &d); err != nil {
		return d, fmt.Errorf("what it delivered cannot be read: %w", err)
	}
	d.Findings = d.Findings[:min(len(d.Findings), maxFindings)]
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Side != Left {
			f.Side = Right
		}
		if !slices.Contains(severities, f.Severity) {
			f.Severity = Suggestion
		}
		if math.IsNaN(f.Confidence) || f.Confidence < 0 || f.Confidence > 1 {
			f.Confidence = 0
		}
		f.Path = strings.TrimPrefix(f.Path, "./")
		f.Title, f.Body = text.CutLine(f.Title, maxTitle), text.CutBytes(text.DropHidden(f.Body), maxBody)
		if s := f.Suggestion; s != nil && (len(*s) > maxSuggestion || text.DropHidden(*s) != strings.ReplaceAll(*s, "\r\n", "\n")) {
			f.Suggestion = nil
		}
	}
	return d, nil
}

// found is a finding with what we know of it.
type found struct {
	Finding
	// By are the steps that found it, and Also what the later ones said of the same lines.
	By   []string `json:"by"`
	Also []string `json:"also,omitempty"`
	// Print is its fingerprint: that of what it is about, not of the words.
	Print string `json:"print"`
	// Unplaced says why it can stand on no line, "" where it can.
	Unplaced string `json:"unplaced,omitempty"`
}

// Why a finding stands on no line of the diff.
const (
	notInDiff  = "the file is not in the diff"
	notQuoted  = "the diff does not show the line that it quotes"
	notEnough  = "it quotes no line"
	notInLines = "the file has no lines in the diff"
)

// place holds a finding against the diff. A line whose number is wrong is found by what it quotes; a
// suggestion stays only where the lines are the very ones.
func (d *Diff) place(f Finding) found {
	p := found{Finding: f}
	file := d.findFile(f.Path)
	if file == nil {
		p.Unplaced = notInDiff
	} else {
		p.Path = file.Path
		p.Unplaced = file.place(&p.Finding)
	}
	if p.Unplaced != "" {
		p.Line, p.Start, p.Suggestion = max(p.Line, 0), 0, nil
		p.Print = printOf(p.Path, foldCode(f.Evidence))
	} else {
		p.Print = printOf(p.Path, file.anchor(p.Side, p.Line))
	}
	return p
}

// findFile finds a file by its name, or by the one that it had.
func (d *Diff) findFile(name string) *File {
	for i := range d.Files {
		if f := &d.Files[i]; f.Path == name || f.Old != "" && f.Old == name {
			return f
		}
	}
	return nil
}

// place moves a finding to lines of the file, and says why it cannot.
func (file *File) place(f *Finding) (why string) {
	quoted := quotedLine(f.Evidence)
	switch {
	case len(file.Hunks) == 0:
		return notInLines
	case quoted == "":
		return notEnough
	}
	sides := []Side{f.Side, Right, Left}
	for _, side := range sides {
		if f.Start > 0 && f.Start < f.Line && file.holds(side, f.Start, f.Line, quoted) {
			f.Side = side
			file.keepSuggestion(f)
			return ""
		}
		if file.holds(side, f.Line, f.Line, quoted) {
			f.Side, f.Start = side, 0
			file.keepSuggestion(f)
			return ""
		}
	}
	for _, side := range sides {
		if at := file.nearest(side, f.Line, quoted); at > 0 {
			f.Side, f.Line, f.Start, f.Suggestion = side, at, 0, nil
			return ""
		}
	}
	return notQuoted
}

// holds reports whether lines stand together on a side of one hunk, one of them as it is quoted.
func (file *File) holds(side Side, from, to int, quoted string) bool {
	for _, h := range file.Hunks {
		n, hit := 0, false
		for _, l := range h.Lines {
			if at := l.Number(side); at >= from && at <= to && at > 0 {
				n++
				hit = hit || isQuoted(l.Text, quoted)
			}
		}
		if n > 0 {
			return n == to-from+1 && hit
		}
	}
	return false
}

// nearest is the number of the line that is as it is quoted and closest to another, 0 for none.
func (file *File) nearest(side Side, to int, quoted string) (best int) {
	for _, h := range file.Hunks {
		for _, l := range h.Lines {
			at := l.Number(side)
			if at > 0 && isQuoted(l.Text, quoted) && (best == 0 || distance(at, to) < distance(best, to)) {
				best = at
			}
		}
	}
	return best
}

func distance(a, b int) int { return max(a-b, b-a) }

// keepSuggestion takes away a suggestion that cannot be applied, or that changes nothing.
func (file *File) keepSuggestion(f *Finding) {
	if f.Suggestion == nil {
		return
	}
	var now []string
	for _, h := range file.Hunks {
		for _, l := range h.Lines {
			if at := l.Number(Right); at > 0 && at >= cmp.Or(f.Start, f.Line) && at <= f.Line {
				if now = append(now, l.Text); l.Cut {
					f.Suggestion = nil
					return
				}
			}
		}
	}
	same := strings.TrimRight(*f.Suggestion, "\r\n") == strings.Join(now, "\n")
	if f.Side != Right || same || strings.Contains(*f.Suggestion, "‹") { // the last is what stands for a secret
		f.Suggestion = nil
	}
}

// minQuote is how many characters of a line have to be quoted, where it is not the whole one.
const minQuote = 8

// isQuoted reports whether a line is what somebody quotes, but for blanks.
func isQuoted(line, quoted string) bool {
	folded := foldCode(line)
	return folded == quoted || len(quoted) >= minQuote && strings.Contains(folded, quoted)
}

// quotedLine is the first line of a quote that says something, without the sign that a diff has in front.
func quotedLine(quote string) string {
	for line := range strings.Lines(quote) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			continue
		}
		if sign := strings.TrimLeft(line, "+-"); len(line)-len(sign) == 1 {
			line = sign
		}
		if folded := foldCode(line); folded != "" {
			return folded
		}
	}
	return ""
}

// foldCode is a line of code with one blank for many, as agents and editors change those.
func foldCode(s string) string { return strings.Join(strings.Fields(text.MarkHidden(s)), " ") }

// anchor is what a finding is about, whatever its line's number: the line, and where that says
// little the one before it.
func (file *File) anchor(side Side, at int) string {
	before := ""
	for _, h := range file.Hunks {
		for _, l := range h.Lines {
			n, folded := l.Number(side), foldCode(l.Text)
			switch {
			case n == 0:
			case n == at && len(folded) < 2*minQuote:
				return before + "\n" + folded
			case n == at:
				return folded
			case folded != "":
				before = folded
			}
		}
	}
	return ""
}

// printOf is the fingerprint of what stands in a file: it survives pushes that move the line.
func printOf(path, anchor string) string {
	sum := sha256.Sum256([]byte(path + "\x00" + anchor))
	return hex.EncodeToString(sum[:8])
}

// mergeFindings makes one of findings about the same line, and ranks them: the gravest first, then
// the surest. Two places that look the same have fingerprints of their own.
func mergeFindings(all []found) []found {
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), cmp.Compare(b.Confidence, a.Confidence),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	var kept []found
	for _, f := range all {
		if i := slices.IndexFunc(kept, f.isAbout); i >= 0 {
			if kept[i].By = append(kept[i].By, f.By...); f.Title != kept[i].Title {
				kept[i].Also = append(kept[i].Also, f.Title)
			}
			continue
		}
		kept = append(kept, f)
	}
	taken := map[string]int{}
	for i, f := range kept {
		if taken[f.Print]++; taken[f.Print] > 1 {
			kept[i].Print = printOf(f.Print, fmt.Sprint(taken[f.Print]))
		}
	}
	return kept
}

// isAbout reports whether two findings are about the same lines.
func (f found) isAbout(other found) bool {
	if f.Unplaced != "" || other.Unplaced != "" {
		return f.Unplaced == other.Unplaced && f.Print == other.Print && f.Title == other.Title
	}
	return f.Path == other.Path && f.Side == other.Side && f.Line == other.Line
}
