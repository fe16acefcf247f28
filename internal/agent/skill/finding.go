package skill

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Level says what follows from a finding.
type Level string

// The levels.
const (
	// Fail is what makes a skill unusable.
	Fail Level = "fail"
	// Refuse is why it can be read, and not be executed.
	Refuse Level = "refused"
	// Warn is what is not used as it stands there.
	Warn Level = "warn"
	// Hint is advice.
	Hint Level = "hint"
)

var levels = []Level{Fail, Refuse, Warn, Hint}

// Finding is one thing about a skill that its author should know.
type Finding struct {
	// File is the path in the skill, Line counts from 1; 0 when the whole file is meant.
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Text  string `json:"text"`
	Level Level  `json:"level"`
}

// Place is the file with its line.
func (f Finding) Place() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// String returns "file:line: text".
func (f Finding) String() string { return f.Place() + ": " + f.Text }

// findings collects what is found about one skill.
type findings struct{ all []Finding }

func (f *findings) add(level Level, file string, line int, format string, args ...any) {
	f.all = append(f.all, Finding{file, line, fmt.Sprintf(format, args...), level})
}

// has says whether something was found about a file.
func (f *findings) has(file string) bool {
	return slices.ContainsFunc(f.all, func(one Finding) bool { return one.File == file })
}

// sort puts the worst first, and what stands in a file in its order.
func (f *findings) sort() {
	slices.SortStableFunc(f.all, func(a, b Finding) int {
		if a.Level != b.Level {
			return slices.Index(levels, a.Level) - slices.Index(levels, b.Level)
		}
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
}

// firstOf returns the first of a level as an error, nil when there is none.
func firstOf(all []Finding, level Level, code nightcrier.Code) error {
	if i := slices.IndexFunc(all, func(f Finding) bool { return f.Level == level }); i >= 0 {
		return nightcrier.Errorf(code, "%s", all[i])
	}
	return nil
}

// maxFindings bounds what is said of a skill.
const maxFindings = 40

// boundFindings cuts what nobody reads to its end, and says so.
func boundFindings(all []Finding) []Finding {
	more := len(all) - maxFindings
	if more <= 0 {
		return all
	}
	return append(all[:maxFindings:maxFindings], Finding{".", 0, fmt.Sprintf("and %d more, not shown here", more), all[maxFindings].Level})
}
