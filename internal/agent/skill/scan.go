package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Sizes from which on a text is more than an agent should read, in bytes.
const (
	longMain = 12 << 10
	longFile = 16 << 10
)

// cliFile is where a skill declares servers that one CLI would start for it.
const cliFile = "agents/openai.yaml"

// Inspect says what is wrong with the skill in a directory, the worst first. Of one that is far
// too large it says so and looks no further, and of very many findings it says how many more
// there are.
func Inspect(dir string) ([]Finding, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := scanSkill(filepath.Base(dir), os.DirFS(dir))
	if err := CheckName(filepath.Base(dir)); err != nil {
		s.Findings = append([]Finding{{".", 0, "the directory's name: " + err.Error(), Fail}}, s.Findings...)
	}
	return boundFindings(s.Findings), nil
}

// FindDirs returns a directory that is a skill, or else those below it that are; where there is
// none, the directory itself.
func FindDirs(dir string) ([]string, error) {
	if name := filepath.Base(dir); name == "SKILL.md" || name == configFile {
		dir = filepath.Dir(dir)
	}
	if err := checkDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "%s does not exist: name the directory of a skill, or one of skills", dir)
	} else if err != nil {
		return nil, fmt.Errorf("%w: name the directory of a skill, or one of skills", err)
	}
	p := place{dir: dir, files: os.DirFS(dir)}
	if _, err := os.Lstat(filepath.Join(dir, "SKILL.md")); err == nil {
		return []string{dir}, nil
	}
	var all []string
	for _, below := range p.dirsHaving("*", "SKILL.md") {
		all = append(all, filepath.Join(dir, below))
	}
	if len(all) == 0 {
		return []string{dir}, nil
	}
	return all, nil
}

// scan reads the directory of a skill.
type scan struct {
	findings
	dir   fs.FS
	skill *Skill
	main  *document
	total int64
	// files counts what is taken, entries also directories and what is left out.
	files, entries int
}

// scanSkill reads a skill as far as it can be read, and finds all that is wrong with it.
func scanSkill(name string, dir fs.FS) *Skill {
	s := &Skill{Name: name}
	c := scan{dir: dir, skill: s}
	if err := fs.WalkDir(dir, ".", c.visit); errors.Is(err, fs.ErrNotExist) {
		c.add(Fail, "SKILL.md", 0, "there is no such directory: a skill is a directory with this file")
	} else if err != nil {
		c.add(Fail, ".", 0, "%v", err)
	}
	switch err := checkRegular(dir, "SKILL.md"); {
	case errors.Is(err, fs.ErrNotExist):
		c.add(Fail, "SKILL.md", 0, "is missing: a skill is a directory with this file")
	case err != nil && !c.has("SKILL.md"):
		c.add(Fail, "SKILL.md", 0, "cannot be read: %v", err)
	case c.main != nil:
		s.readSettings(dir, c.main, &c.findings)
		c.lintMain()
	}
	switch {
	case c.total > maxBytes || c.files > maxFiles:
		c.add(Fail, ".", 0, "it is larger than %d files or %d MiB; the rest was not looked at", maxFiles, maxBytes>>20)
	case c.hasEnough():
		c.add(Warn, ".", 0, "it has more than %d files and directories; the rest was not looked at", maxEntries)
	}
	c.lintEvals()
	c.sort()
	s.Findings = c.all
	return s
}

// hasEnough says that no more is looked at.
func (c *scan) hasEnough() bool {
	return c.total > maxBytes || c.files > maxFiles || c.entries > maxEntries
}

// visit takes the files in the order of their names.
func (c *scan) visit(p string, d fs.DirEntry, err error) error {
	if c.hasEnough() {
		return fs.SkipAll
	}
	c.entries++
	switch {
	case err != nil:
		return err
	case p != "." && strings.HasPrefix(d.Name(), "."):
		if d.Name() != ".git" {
			c.add(Warn, p, 0, "is hidden, and left out")
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	case d.IsDir():
		return nil
	case strings.EqualFold(p, cliFile):
		c.add(Warn, p, 0, "configures a CLI, and is left out")
		return nil
	case !d.Type().IsRegular():
		c.add(Fail, p, 0, "is not a regular file: links and devices cannot be part of a skill")
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	c.files++
	if c.total += info.Size(); c.hasEnough() {
		return fs.SkipAll
	}
	data, err := fs.ReadFile(c.dir, p)
	if err != nil {
		return err
	}
	if at := info.ModTime(); at.After(c.skill.Changed) {
		c.skill.Changed = at
	}
	c.takeFile(file{p, data, privatePerm(info.Mode())})
	return nil
}

// takeFile adds one file; what a CLI takes for a skill is made harmless before.
func (c *scan) takeFile(f file) {
	switch {
	case !isSkillFile(f.path):
		if len(f.data) > longFile && strings.HasSuffix(f.path, ".md") {
			c.add(Hint, f.path, 0, "has %d KiB: an agent reads it whole, split it into files that are read when needed", len(f.data)>>10)
		}
	default:
		doc, found := readDocument(f.path, f.data)
		c.all = append(c.all, found...)
		f.data = doc.render()
		if f.path == "SKILL.md" {
			doc.readMetadata(&c.findings)
			c.main = &doc
			break
		}
		c.add(Warn, f.path, 0, "is a second skill within this one, which some CLIs list and others do not")
	}
	c.skill.files = append(c.skill.files, f)
}

// lintEvals looks at the evaluations, without which the skill can be executed all the same.
func (c *scan) lintEvals() {
	for _, f := range c.skill.files {
		if !isEval(f.path) {
			continue
		}
		if _, line, err := readEval(f); err != nil {
			c.add(Warn, f.path, line, "is no evaluation: %v", err)
		}
	}
}

// lintMain looks at what makes the directory a skill.
func (c *scan) lintMain() {
	s, d := c.skill, c.main
	front := section{said: d.said, file: d.file, offset: d.saidLine, fault: Warn, f: &c.findings}
	s.Description = cmp.Or(d.kept["description"], front.textOrNone("description"))
	c.lintPhases()
	if s.Description == "" {
		c.add(Hint, d.file, 0, "has no description in its front matter: agents choose by it what to read")
	}
	if n := d.kept["name"]; n != "" && n != s.Name {
		front.add(Warn, "name", "is %q, and its directory %q, which counts: some CLIs skip such a skill", n, s.Name)
	}
	if strings.TrimSpace(d.body) == "" {
		c.add(Hint, d.file, 0, "says nothing: write below its front matter what is to be done")
	}
	if len(d.body) > longMain {
		c.add(Hint, d.file, 0, "has %d KiB: an agent reads it first and whole; move what is needed seldom into references/", len(d.body)>>10)
	}
	if strings.Contains(d.body, "\x00") {
		c.add(Hint, d.file, 0, "holds NUL bytes")
	}
}
