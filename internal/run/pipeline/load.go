package pipeline

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

//go:embed *.yaml
var embedded embed.FS

// embeddedName is how the product's own pipelines are called as a place.
const embeddedName = "embedded"

// maxFiles bounds how many files a directory may hold.
const maxFiles = 1000

// Library finds pipelines. It does not change.
type Library struct {
	dir    string
	byName map[string]Entry
	// wrong is what is wrong with the files of those that are left out, by name.
	wrong map[string][]Problem
	whole bool
}

// IsWhole reports whether all files could be read and had no problem: what is not in it is in none.
func (l *Library) IsWhole() bool { return l.whole }

// Entry is a pipeline and what identifies it: the digest of its file.
type Entry struct {
	Definition
	Digest string
}

// IsEmbedded reports whether it is part of the product.
func (e *Entry) IsEmbedded() bool { return strings.HasPrefix(e.File, embeddedName+":") }

// Load reads the .yaml and .yml files of a directory, "" for none, beside what is part of
// the product. A file with a problem is left out; where it would have taken the place of
// one of the product's, that one stays.
func Load(dir string) (*Library, []Problem) {
	l := &Library{dir: dir, byName: map[string]Entry{}, wrong: map[string][]Problem{}}
	problems := l.addAll()
	l.whole = len(problems) == 0
	return l, problems
}

func (l *Library) addAll() []Problem {
	problems := l.addFiles(embedded, ".", func(name string) string { return embeddedName + ":" + name })
	if l.dir == "" {
		return problems
	}
	switch info, err := os.Stat(l.dir); {
	case errors.Is(err, fs.ErrNotExist):
		return append(problems, Problem{File: l.dir, Text: "there is no such directory: make it, or correct pipelines_dir"})
	case err != nil:
		return append(problems, Problem{File: l.dir, Text: err.Error()})
	case !info.IsDir():
		return append(problems, Problem{File: l.dir, Text: "is no directory: name the one that the files are in"})
	}
	return append(problems, l.addFiles(os.DirFS(l.dir), ".", func(name string) string { return filepath.Join(l.dir, name) })...)
}

// LoadFile reads one file.
func LoadFile(file string) (*Entry, []Problem) {
	_, e, problems := loadFile(os.DirFS(filepath.Dir(file)), filepath.Base(file), file)
	return e, problems
}

// addFiles reads the files of a directory; shown is how one is called.
func (l *Library) addFiles(files fs.FS, dir string, shown func(string) string) (problems []Problem) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return []Problem{{File: shown(""), Text: err.Error()}}
	}
	found := map[string][]Entry{}
	n := 0
	for _, e := range entries {
		name := e.Name()
		if ext := path.Ext(name); e.IsDir() || name[0] == '.' || ext != ".yaml" && ext != ".yml" {
			continue
		}
		if n++; n > maxFiles {
			problems = append(problems, Problem{File: shown(""), Text: fmt.Sprintf("holds more than %d pipelines: the others are not read", maxFiles)})
			break
		}
		called, entry, wrong := loadFile(files, name, shown(name))
		problems = append(problems, wrong...)
		if entry != nil {
			found[called] = append(found[called], *entry)
		} else {
			l.wrong[called] = append(l.wrong[called], wrong...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		same := found[name]
		for i := range same[1:] {
			twice := Problem{same[i+1].File, same[i+1].Lines["name"], fmt.Sprintf("name: is %s, as that of %s is: neither is used; keep one", name, same[0].File)}
			problems, l.wrong[name] = append(problems, twice), append(l.wrong[name], twice)
		}
		if len(same) == 1 {
			l.byName[name] = same[0]
		}
	}
	return problems
}

// loadFile reads one file, and how its pipeline is called: as the file is, where nothing else can
// be read. Only a regular one is read: a pipe could block.
func loadFile(files fs.FS, name, shown string) (called string, e *Entry, problems []Problem) {
	called = strings.TrimSuffix(name, path.Ext(name))
	data, err := readFile(files, name)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return called, nil, []Problem{{File: shown, Text: "cannot be read: " + err.Error()}}
	}
	named, d, problems := readNamed(shown, data)
	if d == nil {
		return cmp.Or(named, called), nil, problems
	}
	return named, &Entry{*d, "sha256:" + text.DigestOf(data)}, nil
}

func readFile(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxBytes+1))
}

// List returns all pipelines in the order of their names.
func (l *Library) List() []Entry {
	list := make([]Entry, 0, len(l.byName))
	for _, name := range slices.Sorted(maps.Keys(l.byName)) {
		list = append(list, l.byName[name])
	}
	return list
}

// newSkillEntry is the pipeline of one step that executes a skill.
func newSkillEntry(name, of string) (*Entry, error) {
	for _, part := range strings.SplitN(of, "/", 2) {
		if err := skill.CheckName(part); err != nil {
			return nil, err
		}
	}
	data := []byte("name: one\ndescription: The skill " + of + " alone\nsteps: [{skill: " + of + "}]\n")
	d, problems := readDefinition(name, data)
	if d == nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the skill %s: %s", of, problems[0].Text)
	}
	d.Name = name
	return &Entry{*d, "sha256:" + text.DigestOf(data)}, nil
}

// maxSaid is how many problems of a file are said where its pipeline is asked for.
const maxSaid = 3

// Find returns the pipeline of that name. NotFound says where it was looked for, Conflict what is
// wrong with its file.
func (l *Library) Find(name string) (*Entry, error) {
	if of, ok := strings.CutPrefix(name, nightcrier.SkillPrefix); ok {
		return newSkillEntry(name, of)
	}
	if e, ok := l.byName[name]; ok {
		return &e, nil
	}
	if wrong := l.wrong[name]; len(wrong) > 0 {
		var said []string
		for _, p := range wrong[:min(len(wrong), maxSaid)] {
			said = append(said, p.String())
		}
		if more := len(wrong) - len(said); more > 0 {
			said = append(said, fmt.Sprintf("and %d more", more))
		}
		return nil, nightcrier.Errorf(nightcrier.Conflict, "pipeline %s cannot be used: %s", name, strings.Join(said, "; "))
	}
	where := "what is part of nightcrier"
	if l.dir != "" {
		where = l.dir + " and " + where
	}
	near := text.SuggestName(": did you mean %s?", name, slices.Collect(maps.Keys(l.byName)))
	return nil, nightcrier.Errorf(nightcrier.NotFound, "Pipeline not found: %s (looked in %s)%s", quoteValue(name), where, near)
}
