package skill

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
)

// Find returns the skill of that name from the directory, where it has one, else
// the embedded one. It looks for NAME, for DOMAIN/NAME, and for
// REPOSITORY/skills/NAME, as a clone of a repository of skills lies there. A skill
// that is there and broken is an Invalid error: nobody should believe that it is
// in use. An empty dir is none, and so is one that does not exist yet.
func Find(name, dir string) (*Skill, error) {
	if dir == "" {
		return Embedded(name)
	}
	var found []string
	for _, pattern := range []string{".", "*", "*/skills"} {
		match, err := fs.Glob(os.DirFS(dir), filepath.Join(pattern, name, "SKILL.md"))
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "skill name %q: %w", name, err)
		}
		found = append(found, match...)
	}
	switch {
	case len(found) == 0:
		return embeddedUnless(name, dir)
	case len(found) > 1:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skills.cache_dir %s holds skill %q twice, in %s and %s: keep one", dir, name, found[0], found[1])
	}
	return Load(name, os.DirFS(filepath.Join(dir, filepath.Dir(found[0]))))
}

// TriageScript returns the path of the script that a skill brings along to look
// around before an agent does, "" when the directory has none that can be run.
func TriageScript(name, dir string) string {
	if dir == "" {
		return ""
	}
	for _, pattern := range []string{".", "*", "*/skills"} {
		found, err := fs.Glob(os.DirFS(dir), filepath.Join(pattern, name, "scripts", "incident_triage.sh"))
		if err != nil || len(found) == 0 {
			continue
		}
		path := filepath.Join(dir, found[0])
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// embeddedUnless returns the embedded skill, unless dir cannot be looked into.
func embeddedUnless(name, dir string) (*Skill, error) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skills.cache_dir %s is not a directory", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skills.cache_dir: %w", err)
	}
	return Embedded(name)
}
