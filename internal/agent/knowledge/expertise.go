package knowledge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

const (
	// stagesFile says in a library which skills belong to a stage of work.
	stagesFile = "sdlc.yaml"
	// maxExpert bounds what is taken of one skill, in characters.
	maxExpert = 30_000
	// maxExperts bounds how many are taken at once.
	maxExperts = 8
	// expertsBetween stands between two of them.
	expertsBetween = "\n\n---\n\n"
)

// stages are what sdlc.yaml holds.
type stages struct {
	Stages map[string]struct {
		Base      []string            `yaml:"base"`
		Languages map[string][]string `yaml:"languages"`
	} `yaml:"stages"`
}

// Expert is what a skill of the library says.
type Expert struct {
	Name      string
	Text      string
	Truncated bool
}

// Experts are what the library in dir has for a stage and a language, "" for none. A library that is not
// there, and a skill that it has not got, are no expertise; what cannot be read is a problem.
func Experts(dir, stage, language string) (all []Expert, problems []error) {
	if dir == "" || stage == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, without(err)
	}
	defer root.Close()
	said, err := readText(root, stagesFile, maxRead)
	if err != nil {
		return nil, without(err)
	}
	var known stages
	if err := strictyaml.Unmarshal([]byte(said), &known); err != nil {
		return nil, []error{fmt.Errorf("%s: %w", path.Join(dir, stagesFile), err)}
	}
	of := known.Stages[stage]
	for _, name := range slices.Concat(of.Base, of.Languages[language]) {
		if len(all) == maxExperts {
			return all, append(problems, fmt.Errorf("%s: stage %s names more than %d skills; the others are left out", stagesFile, stage, maxExperts))
		}
		e, err := readExpert(root, name)
		if err != nil {
			problems = append(problems, without(err)...)
			continue
		}
		all = append(all, e)
	}
	return all, problems
}

// without leaves out what is only not there.
func without(err error) []error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []error{err}
}

func readExpert(root *os.Root, name string) (Expert, error) {
	e := Expert{Name: name}
	if err := CheckName(name); err != nil {
		return e, err
	}
	var said string
	var err error
	for _, dir := range []string{name, path.Join("organizational-skills", name)} {
		if said, err = readText(root, path.Join(dir, "SKILL.md"), maxRead); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	e.Text, e.Truncated = cutHeading(said, maxExpert)
	return e, err
}

// cutHeading keeps as many characters as there is room for, up to the last heading of the second level.
func cutHeading(said string, max int) (kept string, cut bool) {
	runes := []rune(said)
	if len(runes) <= max {
		return said, false
	}
	kept = string(runes[:max])
	if end := strings.LastIndex(kept, "\n## "); end > 0 {
		kept = kept[:end]
	}
	return strings.TrimSpace(kept), true
}

// Expertise is what experts say as one text, "" for none, and the names of those that were cut.
func Expertise(all []Expert) (said string, cut []string) {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.Text)
		if e.Truncated {
			cut = append(cut, e.Name)
		}
	}
	return strings.Join(texts, expertsBetween), cut
}

// stageWords are what names of skills have to do with a stage.
var stageWords = map[string]string{"review": "review", "reviewer": "review", "doc": "docs", "docs": "docs", "documenter": "docs", "e2e": "test", "test": "test", "tests": "test", "testing": "test",
	"tester": "test", "release": "release", "instrument": "instrument", "dashboard": "dashboard", "alert": "alert", "code": "code", "builder": "code"}

// StageOf is the stage that the name of a skill has to do with, by its last word that says one; "" for none.
func StageOf(skill string) (stage string) {
	for word := range strings.FieldsFuncSeq(path.Base(skill), func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		stage = cmp.Or(stageWords[word], stage)
	}
	return stage
}

// LanguageOfFiles is the language that most of some files have, among equals the first by name; "" for none.
func LanguageOfFiles(files []string) (most string) {
	counts := map[string]int{}
	for _, f := range files {
		lang := languageOf(path.Base(text.FoldLine(f)))
		if lang == "" {
			continue
		}
		counts[lang]++
	}
	for lang, n := range counts {
		if n > counts[most] || n == counts[most] && lang < most {
			most = lang
		}
	}
	return most
}
