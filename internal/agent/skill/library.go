package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Options say where skills are looked for: in the sources, in their order, then in
// CacheDir, then among those that are part of the product.
type Options struct {
	Sources []Source
	// CacheDir is a directory that need not exist; "" is none.
	CacheDir string
	// Fetched keeps the commits of the sources that are repositories.
	Fetched Store
}

// Library finds skills. The first place that holds a name has it.
type Library struct{ places []place }

// place is one directory that holds skills. A dir of "" is the product itself.
type place struct {
	from, dir string
	files     fs.FS
}

// embeddedName is how the product's own skills are called as a place.
const embeddedName = "embedded"

// Open looks at all places. A source that is missing, not fetched, or changed since
// is an error that names it and what to do; CacheDir may be missing.
func Open(o Options) (*Library, error) {
	l := &Library{}
	for _, s := range o.Sources {
		dir, err := s.Path, error(nil)
		if s.Git != "" {
			dir, err = o.Fetched.Open(s)
		}
		if err == nil {
			err = checkDir(dir)
		}
		if err != nil {
			return nil, nightcrier.Errorf(cmpCode(err), "skills.sources: %w", err)
		}
		l.addPlace(s.String(), dir)
	}
	if o.CacheDir != "" {
		switch err := checkDir(o.CacheDir); {
		case err == nil:
			l.addPlace(o.CacheDir, o.CacheDir)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, nightcrier.Errorf(nightcrier.Invalid, "skills.cache_dir: %w", err)
		}
	}
	own, err := fs.Sub(embedded, "skills")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "skills: %w", err)
	}
	l.places = append(l.places, place{from: embeddedName, files: own})
	return l, nil
}

// cmpCode keeps the code of an error that has one.
func cmpCode(err error) nightcrier.Code {
	if code := nightcrier.CodeOf(err); code != nightcrier.Internal {
		return code
	}
	return nightcrier.Invalid
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return nightcrier.Errorf(nightcrier.Invalid, "%s is not a directory", dir)
	}
	return nil
}

func (l *Library) addPlace(from, dir string) {
	l.places = append(l.places, place{from: from, dir: dir, files: os.DirFS(dir)})
}

// layouts are where a place holds the skill of a name: directly, in a domain, and
// as a directory of repositories of skills does.
var layouts = []string{".", "*", "*/skills"}

// dirsHaving lists the directories of the place that hold the file below the skill's,
// for a name or "*".
func (p place) dirsHaving(name, file string) []string {
	var found []string
	for _, l := range layouts {
		match, _ := fs.Glob(p.files, path.Join(l, name, file)) // a bad pattern finds nothing
		for _, m := range match {
			if dir := strings.TrimSuffix(m, "/"+file); !hiddenPath(dir) {
				found = append(found, dir)
			}
		}
	}
	// The place may itself be the skill.
	if base := filepath.Base(p.dir); p.dir != "" && (name == "*" || name == base) {
		if _, err := fs.Stat(p.files, file); err == nil {
			found = append(found, ".")
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func hiddenPath(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(s string) bool { return len(s) > 1 && s[0] == '.' })
}

// nameOf is the name of the skill in a directory of the place.
func (p place) nameOf(dir string) string {
	if dir == "." {
		return filepath.Base(p.dir)
	}
	return path.Base(dir)
}

// loadSkill reads the skill in a directory of the place.
func (p place) loadSkill(dir string) (*Skill, error) {
	if err := p.checkWay(dir); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", p.shownName(dir), err)
	}
	files, err := fs.Sub(p.files, dir)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "skill %s: %w", dir, err)
	}
	s, err := Load(p.nameOf(dir), files)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", p.shownName(dir), err)
	}
	s.From = p.from
	if s.Layers, err = readLayers(p.files, dir); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: above it: %w", p.shownName(dir), err)
	}
	s.computeDigest()
	return s, nil
}

// checkWay refuses a directory that a link leads to, which may lead out of the place, and a name
// that cannot be one.
func (p place) checkWay(dir string) error {
	if err := CheckName(p.nameOf(dir)); err != nil {
		return err
	}
	for at := dir; at != "."; at = path.Dir(at) {
		info, err := fs.Lstat(p.files, at)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link: put the skill itself there, or name where it leads to in skills.sources", at)
		}
	}
	return nil
}

// shownName names a directory of the place for people.
func (p place) shownName(dir string) string {
	if p.dir == "" {
		return embeddedName
	}
	if p.from != p.dir {
		return p.from + " in " + dir
	}
	return filepath.Join(p.dir, dir)
}

// dirsOf lists the directories of the place that hold the skill of a name, which may have
// a domain: the place's own domain of that name, or else none.
func (p place) dirsOf(name string) []string {
	found := p.dirsHaving(name, "SKILL.md")
	_, base, ok := strings.Cut(name, "/")
	if !ok || len(found) > 0 {
		return found
	}
	return slices.DeleteFunc(p.dirsHaving(base, "SKILL.md"), func(dir string) bool {
		above := path.Dir(dir)
		return above != "." && path.Base(above) != "skills"
	})
}

// Find returns the skill of that name, with its domain or without. It is Invalid when the place that has it
// holds it twice, or broken: nobody should believe that it is in use. NotFound
// says where it was looked for.
func (l *Library) Find(name string) (*Skill, error) {
	for _, part := range strings.SplitN(name, "/", 2) {
		if err := CheckName(part); err != nil {
			return nil, err
		}
	}
	var looked []string
	for _, p := range l.places {
		switch found := p.dirsOf(name); len(found) {
		case 0:
			looked = append(looked, p.from)
		case 1:
			return p.loadSkill(found[0])
		default:
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%s holds skill %q twice, in %s and %s: keep one", p.from, name, found[0], found[1])
		}
	}
	return nil, nightcrier.Errorf(nightcrier.NotFound, "there is no skill %q in %s: correct the name, or name a directory in skills.sources and put %s/SKILL.md there", name, strings.Join(looked, ", "), name)
}

// Qualify returns the name of a skill with its domain, where it is found by that too.
func (l *Library) Qualify(name string) string {
	s, err := l.Find(name)
	if err != nil {
		return name
	}
	if same, err := l.Find(s.FullName()); err != nil || same.Ref() != s.Ref() {
		return name
	}
	return s.FullName()
}

// TriageScript returns the path of the script that a skill brings along to look
// around before an agent does, "" when no place has one that can be run.
func (l *Library) TriageScript(name string) string {
	for _, p := range l.places {
		if p.dir == "" || CheckName(name) != nil {
			continue
		}
		const script = "scripts/incident_triage.sh"
		for _, dir := range p.dirsHaving(name, script) {
			file := filepath.Join(p.dir, dir, script)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return file
			}
		}
	}
	return ""
}

// Listed is one skill of one place.
type Listed struct {
	Name, From string
	Skill      *Skill
	// Used is false when an earlier place has one of its domain and name.
	Used bool
	// Err is why it cannot be used.
	Err error
}

// List returns the skills of all places, in the order of the places.
func (l *Library) List() []Listed {
	var all []Listed
	for i, p := range l.places {
		for _, dir := range p.dirsHaving("*", "SKILL.md") {
			s, err := p.loadSkill(dir)
			called := p.nameOf(dir)
			if above := path.Base(path.Dir(dir)); dir != "." && above != "." && above != "skills" {
				called = path.Join(above, called)
			}
			earlier := slices.ContainsFunc(l.places[:i], func(p place) bool { return len(p.dirsOf(called)) > 0 })
			all = append(all, Listed{Name: p.nameOf(dir), From: p.from, Skill: s, Used: !earlier, Err: err})
		}
	}
	return all
}

// CheckName refuses what cannot be the name of a skill, which becomes a directory.
func CheckName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
	if !ok {
		return nightcrier.Errorf(nightcrier.Invalid, "%.80q is not the name of a skill: use up to 64 lower-case letters, digits, '-', '_' and '.'", name)
	}
	return nil
}
