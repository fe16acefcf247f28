package githubtest

import (
	"fmt"
	"strconv"
	"strings"
)

// file is one of a diff, as GitHub lists it.
type file struct {
	Filename         string `json:"filename"`
	PreviousFilename string `json:"previous_filename,omitempty"`
	Status           string `json:"status"`
	SHA              string `json:"sha"`
	Additions        int    `json:"additions"`
	Deletions        int    `json:"deletions"`
	Changes          int    `json:"changes"`
	Patch            string `json:"patch,omitempty"`

	hunks []map[string]bool // the lines of each, such as RIGHT:12
}

// readDiff takes a diff of git's apart, as `git diff` prints it.
func readDiff(diff string) []*file {
	var list []*file
	var f *file
	var left, right int
	for line := range strings.Lines(diff) {
		bare := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(bare, "diff --git "):
			_, name, _ := strings.Cut(bare, " b/")
			f = &file{Filename: name, Status: "modified", SHA: fmt.Sprintf("%040x", len(list)+1)}
			list = append(list, f)
		case f == nil:
		case strings.HasPrefix(bare, "@@ "):
			left, right = startOf(bare, "-"), startOf(bare, "+")
			f.hunks = append(f.hunks, map[string]bool{})
			f.Patch += line
		case len(f.hunks) == 0:
			f.readHeader(bare)
		default:
			f.Patch += line
			left, right = f.readLine(bare, left, right)
		}
	}
	for _, f := range list {
		f.Patch, f.Changes = strings.TrimSuffix(f.Patch, "\n"), f.Additions+f.Deletions
	}
	return list
}

func (f *file) readHeader(line string) {
	switch name, _ := strings.CutPrefix(line, "rename from "); {
	case name != line:
		f.PreviousFilename, f.Status = name, "renamed"
	case strings.HasPrefix(line, "new file"):
		f.Status = "added"
	case strings.HasPrefix(line, "deleted file"):
		f.Status = "removed"
	}
}

func (f *file) readLine(line string, left, right int) (int, int) {
	lines := f.hunks[len(f.hunks)-1]
	kind := " "
	if line != "" {
		kind = line[:1]
	}
	switch kind {
	case "+":
		lines[fmt.Sprintf("RIGHT:%d", right)] = true
		f.Additions++
		return left, right + 1
	case "-":
		lines[fmt.Sprintf("LEFT:%d", left)] = true
		f.Deletions++
		return left + 1, right
	case " ":
		lines[fmt.Sprintf("RIGHT:%d", right)], lines[fmt.Sprintf("LEFT:%d", left)] = true, true
		return left + 1, right + 1
	}
	return left, right // "\ No newline at end of file"
}

// startOf reads where a side of a hunk begins.
func startOf(header, sign string) int {
	_, rest, _ := strings.Cut(header, " "+sign)
	n, _ := strconv.Atoi(rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))])
	return n
}

// whyNoThread says why a comment cannot stand where it wants to, "" if it can.
func whyNoThread(files []*file, c ReviewComment) string {
	side := c.Side
	if side == "" {
		side = "RIGHT"
	}
	startSide := c.StartSide
	if startSide == "" {
		startSide = side
	}
	for _, f := range files {
		if f.Filename != c.Path {
			continue
		}
		for _, lines := range f.hunks {
			if !lines[fmt.Sprintf("%s:%d", side, c.Line)] {
				continue
			}
			switch {
			case c.StartLine == 0:
				return ""
			case startSide == side && c.StartLine >= c.Line:
				return "Pull request review thread start line must precede the end line."
			case !lines[fmt.Sprintf("%s:%d", startSide, c.StartLine)]:
				return "Pull request review thread start line must be part of the same hunk as the line."
			}
			return ""
		}
		return "Pull request review thread line must be part of the diff"
	}
	return "Pull request review thread path is invalid, and diff hunk can't be blank"
}
