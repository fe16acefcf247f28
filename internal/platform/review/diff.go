package review

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is read of a diff. What is more is said of the file, or of the diff.
const (
	maxDiffBytes = 16 << 20
	maxFiles     = 3000
	maxLines     = 200_000
	maxLineBytes = 2000
	maxPathBytes = 1024
	maxNumber    = 1 << 30
)

// Diff is what a pull request changes.
type Diff struct {
	Files []File `json:"files"`
	// Cut says why there is more than this, "" where there is not.
	Cut string `json:"cut,omitempty"`
}

// Change is what became of a file.
type Change string

// The changes. A file that only has another mode is changed.
const (
	Added   Change = "added"
	Changed Change = "changed"
	Deleted Change = "deleted"
	Renamed Change = "renamed"
	Copied  Change = "copied"
)

// File is a file of a diff.
type File struct {
	// Path is how it is called; Old how it was, where that was otherwise.
	Path   string `json:"path"`
	Old    string `json:"old,omitempty"`
	Change Change `json:"change"`
	// Binary and Submodule say that its lines are none that can be read.
	Binary    bool   `json:"binary,omitempty"`
	Submodule bool   `json:"submodule,omitempty"`
	Hunks     []Hunk `json:"hunks,omitempty"`
	// Cut says why not all of its lines are there, "" where they are.
	Cut string `json:"cut,omitempty"`
}

// Hunk is some lines of a file that stand together.
type Hunk struct {
	// Section is what stands behind the numbers, such as the function.
	Section string `json:"section,omitempty"`
	Lines   []Line `json:"lines"`
}

// Line is a line of a diff. Old and New are its numbers before and after, 0 where it is not there.
type Line struct {
	Old  int    `json:"old,omitempty"`
	New  int    `json:"new,omitempty"`
	Text string `json:"text"`
	// Cut says that it is longer than this.
	Cut bool `json:"cut,omitempty"`
}

// Number is the line's on a side, 0 where it is not there. Lines that stayed are on the right alone: there they are
// shown, and commented.
func (l Line) Number(s Side) int {
	if s == Left && l.New == 0 {
		return l.Old
	}
	if s == Right {
		return l.New
	}
	return 0
}

// ParseDiff reads a unified diff as git and GitHub write it. It never fails: what it does not
// understand is left out, and said of the file that it stands in.
func ParseDiff(raw []byte) Diff {
	p := &parser{}
	if len(raw) > maxDiffBytes {
		raw, p.d.Cut = raw[:maxDiffBytes], "the diff has more than 16 MiB"
	}
	for len(raw) > 0 && p.lines < maxLines {
		line, rest, _ := bytes.Cut(raw, []byte("\n"))
		raw = rest
		p.readLine(line, raw)
	}
	p.endHunk()
	if p.lines == maxLines && len(raw) > 0 {
		p.d.Cut = "the diff has more than 200000 lines"
	}
	if p.d.Cut != "" && p.file != nil && p.file.Cut == "" {
		p.file.Cut = p.d.Cut
	}
	for i := range p.d.Files {
		p.d.Files[i].settle()
	}
	p.d.Files = withoutEmpty(p.d.Files)
	return p.d
}

// parser reads a diff line by line. The counts of a hunk say where it ends: a line that was taken
// out may look like a header.
type parser struct {
	d     Diff
	file  *File
	hunk  *Hunk
	lines int
	// inHeader says that no hunk of the file has begun.
	inHeader     bool
	oldAt, newAt int // the next line's numbers
	oldTo, newTo int // where the hunk ends
}

func (p *parser) readLine(line, rest []byte) {
	if p.hunk != nil && p.readHunkLine(line) {
		return
	}
	p.endHunk()
	switch {
	case bytes.HasPrefix(line, []byte("diff --git ")):
		p.beginFile()
		if p.file != nil {
			p.file.Old, p.file.Path = splitGitHeader(string(clipBytes(line[len("diff --git "):], 2*maxPathBytes)))
		}
	case bytes.HasPrefix(line, []byte("diff --cc ")), bytes.HasPrefix(line, []byte("diff --combined ")):
		p.beginFile()
		if p.file != nil {
			_, name, _ := strings.Cut(string(clipBytes(line[len("diff --"):], maxPathBytes)), " ")
			p.file.Path, p.file.Old = readPath(name, ""), ""
			p.file.Cut = "it is the diff of a merge, of which there are two"
		}
	case bytes.HasPrefix(line, []byte("--- ")) && bytes.HasPrefix(rest, []byte("+++ ")):
		if p.file == nil || !p.inHeader {
			p.beginFile() // a diff without the headers of git
		}
		if p.file != nil {
			p.readHeader(string(clipBytes(line, maxPathBytes)))
		}
	case bytes.HasPrefix(line, []byte("@@ ")):
		p.beginHunk(string(clipBytes(line, maxLineBytes)))
	case p.file != nil && p.inHeader:
		p.readHeader(string(clipBytes(line, maxPathBytes)))
	}
}

func (p *parser) beginFile() {
	p.inHeader, p.file = true, nil
	if len(p.d.Files) == maxFiles {
		p.d.Cut = "the diff has more than 3000 files"
		return
	}
	p.d.Files = append(p.d.Files, File{Change: Changed})
	p.file = &p.d.Files[len(p.d.Files)-1]
}

// readHeader reads a line between the name of a file and its first hunk.
func (p *parser) readHeader(line string) {
	line = strings.TrimSuffix(line, "\r")
	f := p.file
	word, value, _ := strings.Cut(line, " ")
	switch {
	case word == "---":
		if f.Old = readPath(value, "a/"); f.Old == "" {
			f.Change = Added
		}
	case word == "+++":
		if f.Path = readPath(value, "b/"); f.Path == "" {
			f.Change = Deleted
		}
	case strings.HasPrefix(line, "new file mode "):
		f.Change = Added
	case strings.HasPrefix(line, "deleted file mode "):
		f.Change = Deleted
	case strings.HasPrefix(line, "rename from "), strings.HasPrefix(line, "copy from "):
		_, from, _ := strings.Cut(value, " ")
		f.Old, f.Change = readPath(from, ""), map[string]Change{"rename": Renamed, "copy": Copied}[word]
	case strings.HasPrefix(line, "rename to "), strings.HasPrefix(line, "copy to "):
		_, to, _ := strings.Cut(value, " ")
		f.Path = readPath(to, "")
	case strings.HasPrefix(line, "Binary files "), line == "GIT binary patch":
		f.Binary = true
	}
	if modes, ok := strings.CutSuffix(line, " 160000"); ok && (word == "index" || slices.Contains(modeLines, modes)) {
		f.Submodule = true
	}
}

// modeLines are the lines of a header that end with a mode; that of a submodule is 160000.
var modeLines = []string{"new file mode", "deleted file mode", "old mode", "new mode"}

// beginHunk reads the numbers of a hunk: @@ -3,7 +3,8 @@. A count that is left out is 1.
func (p *parser) beginHunk(line string) {
	if p.file == nil {
		return
	}
	p.inHeader = false
	words := strings.SplitN(strings.TrimPrefix(line, "@@ "), " ", 4)
	if len(words) < 3 || strings.TrimSuffix(words[2], "\r") != "@@" {
		p.file.Cut = "the numbers of one of its hunks cannot be read"
		return
	}
	oldAt, oldCount, ok1 := readRange(words[0], '-')
	newAt, newCount, ok2 := readRange(words[1], '+')
	if !ok1 || !ok2 {
		p.file.Cut = "the numbers of one of its hunks cannot be read"
		return
	}
	p.oldAt, p.oldTo, p.newAt, p.newTo = oldAt, oldAt+oldCount, newAt, newAt+newCount
	p.hunk = &Hunk{}
	if len(words) == 4 {
		p.hunk.Section = text.CutLine(words[3], 120)
	}
}

// readHunkLine adds a line to the hunk, and reports whether it belongs there.
func (p *parser) readHunkLine(line []byte) bool {
	if bytes.HasPrefix(line, []byte(`\ `)) { // no newline at the end of the file
		return true
	}
	kind := byte(' ')
	if len(line) > 0 && string(line) != "\r" { // some programs take off the blank of an empty line
		kind, line = line[0], line[1:]
	}
	l := Line{Old: p.oldAt, New: p.newAt}
	switch kind {
	case '-':
		l.New = 0
	case '+':
		l.Old = 0
	case ' ':
	default:
		return false
	}
	if l.Old >= p.oldTo && l.Old > 0 || l.New >= p.newTo && l.New > 0 || l.Old+l.New == 0 {
		return false
	}
	if l.Old > 0 {
		p.oldAt++
	}
	if l.New > 0 {
		p.newAt++
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	l.Cut = len(line) > maxLineBytes
	l.Text = strings.ToValidUTF8(text.KeepBytes(string(clipBytes(line, maxLineBytes)), maxLineBytes), string(utf8.RuneError))
	p.hunk.Lines = append(p.hunk.Lines, l)
	p.lines++
	return true
}

// endHunk keeps the hunk that is under way.
func (p *parser) endHunk() {
	if p.hunk == nil {
		return
	}
	if p.oldAt < p.oldTo || p.newAt < p.newTo {
		p.file.Cut = "its diff breaks off"
	}
	if len(p.hunk.Lines) > 0 {
		p.file.Hunks = append(p.file.Hunks, *p.hunk)
	}
	p.hunk = nil
}

// settle gives a file the one name that it is called by.
func (f *File) settle() {
	if f.Path == "" {
		f.Path = f.Old
	}
	if f.Change == Changed && f.Old != "" && f.Old != f.Path {
		f.Change = Renamed
	}
	if f.Change != Renamed && f.Change != Copied {
		f.Old = ""
	}
	if f.Submodule || f.Binary {
		f.Hunks = nil
	}
}

func withoutEmpty(files []File) []File {
	kept := files[:0]
	for _, f := range files {
		if f.Path != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

func clipBytes(b []byte, n int) []byte { return b[:min(len(b), n)] }
