// Package skill holds the skills that are part of the product and installs a
// copy of one into a workspace, so that an update never reaches a running agent.
package skill

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

//go:embed skills
var embedded embed.FS

// Troubleshooter is the name of the skill that incident triage uses.
const Troubleshooter = "k8s-troubleshooter"

// InstallDir is the directory, relative to a workspace, that skills are
// installed into. Agents are told of it: no CLI is left to find skills by itself,
// since each would give them rights of its own.
const InstallDir = ".claude/skills"

// Skill is a set of files with a SKILL.md among them.
type Skill struct {
	Name    string
	Version string
	// Description is when to use it, in its own words.
	Description string
	// Findings are what its author should know, the worst first.
	Findings []Finding
	// Settings say how it is executed, Layers what stands above it, and Card what people see.
	Settings Settings
	Layers   []Layer
	Card     Card
	// From is the place that it was found in, empty for one that was loaded alone.
	From string
	// Changed is when one of its files was last written, zero for what is part of the product.
	Changed time.Time
	files   []file
	digest  string
}

// file is one file of a skill as it was when the skill was loaded.
type file struct {
	path string
	data []byte
	perm fs.FileMode
}

// Limits of a skill.
const (
	maxFiles = 1000
	maxBytes = 16 << 20
	// maxConfig bounds agentura.config.yaml.
	maxConfig = 16 << 10
	// maxEntries bounds what is looked at of a directory that is no skill.
	maxEntries = 10 * maxFiles
)

// Embedded returns the skill of that name which is part of the product.
func Embedded(name string) (*Skill, error) {
	found, err := fs.Glob(embedded, "skills/*/"+name)
	if err != nil || len(found) != 1 {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "there is no skill %q", name)
	}
	files, err := fs.Sub(embedded, found[0])
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "skill %q: %w", name, err)
	}
	return Load(name, files)
}

// Load reads a skill from a directory and keeps it in memory: what is installed
// later is what the digest says, whatever happens to the directory. It is an
// Invalid error when SKILL.md is missing, its configuration broken, or a file
// cannot be part of a skill; without a configuration its version is unknown.
func Load(name string, dir fs.FS) (*Skill, error) {
	s := scanSkill(name, dir)
	if err := firstOf(s.Findings, Fail, nightcrier.Invalid); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skill %q: %w", name, err)
	}
	s.computeDigest()
	return s, nil
}

// readRegular reads a file that is one.
func readRegular(files fs.FS, name string) ([]byte, error) {
	if err := checkRegular(files, name); err != nil {
		return nil, err
	}
	return fs.ReadFile(files, name)
}

// checkRegular says why a file is not read, without opening it: a link may lead anywhere, and a pipe
// has no end.
func checkRegular(files fs.FS, name string) error {
	entries, err := fs.ReadDir(files, path.Dir(name))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == path.Base(name) })
	if i < 0 {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	info, err := entries[i].Info()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxBytes:
		return fmt.Errorf("%s is larger than %d MiB", name, maxBytes>>20)
	}
	return nil
}

// File is one file of a skill, as it is installed.
type File struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
	Text  string `json:"text"`
}

// Files returns the files, in the order of their names.
func (s *Skill) Files() []File {
	var all []File
	for _, f := range s.files {
		all = append(all, File{f.path, len(f.data), strings.ToValidUTF8(string(f.data), "\ufffd")})
	}
	return all
}

// privatePerm keeps a file private, and a script a script.
func privatePerm(m fs.FileMode) fs.FileMode {
	if m&0o100 != 0 {
		return 0o700
	}
	return 0o600
}

// computeDigest computes the digest over names and contents, and what is told beside them.
func (s *Skill) computeDigest() {
	h := sha256.New()
	for _, f := range s.files {
		fmt.Fprintf(h, "%d %s %d\n", len(f.path), f.path, len(f.data))
		h.Write(f.data)
	}
	h.Write(s.settingsDigest())
	s.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Ref says which skill this is, exactly.
func (s *Skill) Ref() nightcrier.SkillRef {
	return nightcrier.SkillRef{Name: s.Name, Version: s.Version, Digest: s.digest}
}

// Path is where SKILL.md stands in a workspace once the skill is installed.
func (s *Skill) Path() string { return path.Join(InstallDir, s.Name, "SKILL.md") }

// Writer writes a file of a workspace; *workspace.Workspace is one.
type Writer interface {
	WriteFile(rel string, data []byte, perm fs.FileMode) error
}

// Install copies the skill into the workspace and returns what was installed.
func (s *Skill) Install(w Writer) (nightcrier.SkillRef, error) {
	for _, f := range s.files {
		if err := w.WriteFile(path.Join(InstallDir, s.Name, f.path), f.data, f.perm); err != nil {
			return nightcrier.SkillRef{}, fmt.Errorf("install skill %s: %w", s.Name, err)
		}
	}
	return s.Ref(), nil
}

// Put adds a skill to others, or puts it in the place of one of its name.
func Put(all []*Skill, s *Skill) []*Skill {
	if i := slices.IndexFunc(all, func(o *Skill) bool { return o.Name == s.Name }); i >= 0 {
		all[i] = s
		return all
	}
	return append(all, s)
}
