package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what agents are shown.
const (
	maxShownFile  = 200 << 10
	maxShown      = 1 << 20
	maxPart       = 200 << 10 // of the diff in one file
	maxWhole      = 128 << 10 // of a file as it is now
	maxWholeFiles = 40
	maxRule       = 32 << 10
	maxListedIn   = 1000 // of the files that are named to agents
)

// About is what agents are told of a pull request, and what a review of it is planned by.
type About struct {
	Ref
	Title  string `json:"title,omitempty"`
	Body   string `json:"description,omitempty"`
	Author string `json:"author,omitempty"`
	Base   string `json:"base,omitempty"`
	Head   string `json:"head,omitempty"`
	// Since is the commit that was reviewed before: only what changed after it is shown. "" shows all.
	Since string      `json:"since,omitempty"`
	Files []ShownFile `json:"files"`
	// Diff are the files with what changed, Rules those with what the base says of working on it.
	Diff  []string   `json:"diff"`
	Rules []ShownRef `json:"rules,omitempty"`
	// HiddenLines counts the lines with characters that nobody sees.
	HiddenLines int `json:"hidden_lines,omitempty"`
}

// ShownFile is a file of the pull request.
type ShownFile struct {
	Path   string `json:"path"`
	Old    string `json:"old,omitempty"`
	Change Change `json:"change"`
	// LeftOut says why it is not shown, Cut why not all of it is.
	LeftOut string `json:"left_out,omitempty"`
	Cut     string `json:"cut,omitempty"`
	// Whole is the file that shows it as it is now, "" for none.
	Whole string `json:"whole,omitempty"`
}

// ShownRef is a file of the base, and where it is shown.
type ShownRef struct {
	Path string `json:"path"`
	File string `json:"file"`
}

// material are the files that agents are shown, by names of ours: those of the pull request could be
// what a CLI obeys.
type material struct {
	about About
	files map[string]string
}

// newMaterial shows what changed, in as few files as there is room for.
func newMaterial(about About, d *Diff, since *Diff, base attributes, skip []string) *material {
	m := &material{about: about, files: map[string]string{}}
	var part strings.Builder
	total := 0
	flush := func() {
		if part.Len() > 0 {
			name := fmt.Sprintf("diff-%d.txt", len(m.about.Diff)+1)
			m.files[name] = part.String()
			m.about.Diff = append(m.about.Diff, name)
			part.Reset()
		}
	}
	for i := range d.Files {
		f := &d.Files[i]
		shown := ShownFile{Path: f.Path, Old: f.Old, Change: f.Change, LeftOut: f.whyLeftOut(base, skip), Cut: f.Cut}
		if shown.LeftOut == "" {
			said := f.show(since)
			switch {
			case said == "":
				shown.LeftOut = outEarlier
			case len(said) > maxShownFile || total+len(said) > maxShown:
				shown.LeftOut = outTooMuch
			default:
				if part.Len()+len(said) > maxPart {
					flush()
				}
				total += len(said)
				part.WriteString(said)
			}
		}
		m.about.Files = append(m.about.Files, shown)
	}
	flush()
	return m
}

// show writes what changed in a file, each line with its numbers: before, and now. Of hunks none of whose
// lines changed since a commit nothing is shown.
func (f *File) show(since *Diff) string {
	var b strings.Builder
	for _, h := range f.Hunks {
		if since != nil && !since.touches(f.Path, &h) {
			continue
		}
		if b.Len() == 0 {
			fmt.Fprintf(&b, "=== %s (%s)\n", text.FoldLine(f.Path), f.Change)
		}
		fmt.Fprintf(&b, "--- lines %s\n", h.Section)
		for _, l := range h.Lines {
			sign, before, now := " ", fmt.Sprint(l.Old), fmt.Sprint(l.New)
			if l.Old == 0 {
				sign, before = "+", ""
			} else if l.New == 0 {
				sign, now = "-", ""
			}
			fmt.Fprintf(&b, "%6s %6s %s%s\n", before, now, sign, l.Text)
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// touches reports whether a hunk of the whole has something that changed since, by the numbers
// that lines have now.
func (d *Diff) touches(path string, of *Hunk) bool {
	file := d.findFile(path)
	if file == nil {
		return false
	}
	from, to := of.newRange()
	for _, h := range file.Hunks {
		now := 0
		for _, l := range h.Lines {
			now = max(now, l.New)
			if (l.Old == 0 || l.New == 0) && now >= from-1 && now <= to {
				return true
			}
		}
	}
	return len(file.Hunks) == 0 // it cannot be told
}

// newRange is the first and the last number that a hunk has now.
func (h *Hunk) newRange() (from, to int) {
	for _, l := range h.Lines {
		if l.New > 0 {
			if from == 0 {
				from = l.New
			}
			to = l.New
		}
	}
	return from, to
}

// addRule shows a file of the base.
func (m *material) addRule(path, content string) {
	name := fmt.Sprintf("rules-%d.txt", len(m.about.Rules)+1)
	m.files[name] = content
	m.about.Rules = append(m.about.Rules, ShownRef{path, name})
}

// wanted are the files that agents are shown as they are now.
func (m *material) wanted() (all []*ShownFile) {
	for i := range m.about.Files {
		if f := &m.about.Files[i]; f.LeftOut == "" && f.Change != Deleted && len(all) < maxWholeFiles {
			all = append(all, f)
		}
	}
	return all
}

// addWhole shows a file as it is now.
func (m *material) addWhole(f *ShownFile, n int, content string) {
	f.Whole = fmt.Sprintf("file-%d.txt", n)
	m.files[f.Whole] = content
}

// aboutFile is what agents read first. Of very many files not all are named.
func (m *material) aboutFile() ([]byte, error) {
	about := m.about
	about.Files = slices.Clone(about.Files)
	slices.SortStableFunc(about.Files, func(a, b ShownFile) int { return len(a.LeftOut) - len(b.LeftOut) })
	about.Files = about.Files[:min(len(about.Files), maxListedIn)]
	return json.MarshalIndent(about, "", "  ")
}
