package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Finding is one thing about a skill that its author should know.
type Finding struct {
	// File is the path in the skill.
	File string `json:"file"`
	Text string `json:"text"`
	// Fatal says that the skill cannot be used; otherwise it is used without.
	Fatal bool `json:"fatal"`
}

// Sizes from which on a text is more than an agent should read, in bytes.
const (
	longMain = 12 << 10
	longFile = 16 << 10
)

const (
	// maxEntries bounds what is looked at of a directory that is no skill.
	maxEntries = 10 * maxFiles
	// maxFindings bounds what is said of it.
	maxFindings = 40
)

// Inspect says what is wrong with the skill in a directory, the fatal first: all at
// once, where Load stops at the first. Of one that is far too large it says so and
// looks no further, and of very many findings it says how many more there are.
func Inspect(dir string) ([]Finding, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	i := inspection{dir: os.DirFS(dir)}
	if err := CheckName(filepath.Base(dir)); err != nil {
		i.addFatal(".", "the directory's name: "+err.Error())
	}
	if err := fs.WalkDir(i.dir, ".", i.visitFile); err != nil {
		return nil, err
	}
	i.main(filepath.Base(dir))
	switch {
	case i.total > maxBytes || i.files > maxFiles:
		i.addFatal(".", fmt.Sprintf("it is larger than %d files or %d MiB; the rest was not looked at", maxFiles, maxBytes>>20))
	case i.hasEnough():
		i.addFinding(".", "it has more than %d files and directories; the rest was not looked at", maxEntries)
	}
	slices.SortStableFunc(i.found, func(a, b Finding) int {
		switch {
		case a.Fatal == b.Fatal:
			return strings.Compare(a.File, b.File)
		case a.Fatal:
			return -1
		}
		return 1
	})
	if more := len(i.found) - maxFindings; more > 0 {
		i.found = append(i.found[:maxFindings:maxFindings], Finding{File: ".", Text: fmt.Sprintf("and %d more, not shown here", more), Fatal: i.found[maxFindings].Fatal})
	}
	return i.found, nil
}

type inspection struct {
	dir   fs.FS
	found []Finding
	files int
	total int64
	// entries counts directories and what is left out as well.
	entries int
}

// hasEnough says that no more is looked at.
func (i *inspection) hasEnough() bool {
	return i.total > maxBytes || i.files > maxFiles || i.entries > maxEntries
}

func (i *inspection) addFatal(file, text string) {
	i.found = append(i.found, Finding{File: file, Text: text, Fatal: true})
}

func (i *inspection) addFinding(file, format string, args ...any) {
	i.found = append(i.found, Finding{File: file, Text: fmt.Sprintf(format, args...)})
}

func (i *inspection) visitFile(p string, d fs.DirEntry, err error) error {
	if i.hasEnough() {
		return fs.SkipAll
	}
	i.entries++
	switch {
	case err != nil:
		return err
	case p != "." && strings.HasPrefix(d.Name(), "."):
		if d.Name() != ".git" {
			i.addFinding(p, "is hidden, and left out")
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	case d.IsDir():
		return nil
	case strings.EqualFold(p, cliFile):
		i.addFinding(p, "configures a CLI, and is left out")
		return nil
	case !d.Type().IsRegular():
		i.addFatal(p, "is not a regular file: links and devices cannot be part of a skill")
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	i.files++
	i.total += info.Size()
	if info.Size() > longFile && strings.HasSuffix(p, ".md") && !isSkillFile(p) {
		i.addFinding(p, "has %d KiB: an agent reads it whole, split it into files that are read when needed", info.Size()>>10)
	}
	if isSkillFile(p) && info.Size() <= maxBytes {
		return i.skillFile(p)
	}
	return nil
}

// skillFile looks at a file that CLIs take for a skill.
func (i *inspection) skillFile(p string) error {
	data, err := fs.ReadFile(i.dir, p)
	if err != nil {
		return err
	}
	out, _, notes, err := makeHarmless(data)
	if err != nil {
		i.addFatal(p, err.Error())
		return nil
	}
	for _, n := range notes {
		i.addFinding(p, "%s", n)
	}
	if len(out) > longMain {
		i.addFinding(p, "has %d KiB: an agent reads it first and whole; move what is needed seldom into references/", len(out)>>10)
	}
	if p != "SKILL.md" {
		i.addFinding(p, "is a second skill within this one, which some CLIs list and others do not")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		i.addFinding(p, "holds NUL bytes")
	}
	return nil
}

// main looks at what makes the directory a skill.
func (i *inspection) main(name string) {
	data, err := readRegular(i.dir, "SKILL.md")
	if errors.Is(err, fs.ErrNotExist) {
		i.addFatal("SKILL.md", "is missing")
		return
	}
	if err != nil {
		i.addFatal("SKILL.md", err.Error())
		return
	}
	s := Skill{Name: name}
	if err := s.readSettings(i.dir); err != nil && !strings.HasPrefix(err.Error(), "SKILL.md: ") { // that was said
		i.addFatal(configFile, err.Error())
	}
	for _, said := range s.Unused {
		i.addFinding(configFile, "%s", strings.TrimPrefix(said, configFile+": "))
	}
	if _, head, _, err := makeHarmless(data); err == nil {
		if head["description"] == "" {
			i.addFinding("SKILL.md", "has no description in its front matter: agents choose by it what to read")
		}
		if n := head["name"]; n != "" && n != name {
			i.addFinding("SKILL.md", "calls itself %q, its directory %q: some CLIs skip such a skill", n, name)
		}
	}
}
