package knowledge

import (
	"fmt"
	"slices"
	"strings"
)

// Library is where what is known is looked for. Nothing of it has to be there.
type Library struct {
	// Repositories have services below .agentura/services, and Skills the skills of the stages of work.
	Repositories []string
	Skills       string
	// Warn is told what cannot be used, nil for nobody.
	Warn func(error)
}

// Keys of what is given to a skill, beside those of the pages.
const (
	serviceKey   = "service"
	stageKey     = "stage"
	filesKey     = "changed_files"
	expertiseKey = "expertise"
	cutKey       = "truncated"
)

// Given is what a skill is given beside its input: what is known of the service that the input names, or
// else of the one of the workloads, and what the library says for its stage of work. What the input has is
// left as it is.
func (l *Library) Given(skill string, input map[string]any, workloads ...string) map[string]any {
	given := map[string]any{}
	services, problems := Services(l.Repositories)
	named, _ := input[serviceKey].(string)
	found := Find(services, named)
	if found == nil && named == "" {
		found = OfWorkload(services, workloads...)
	}
	if found != nil {
		for key, said := range found.Inputs() {
			given[key] = said
		}
	}
	stage, _ := input[stageKey].(string)
	if stage == "" {
		stage = StageOf(skill)
	}
	experts, wrong := Experts(l.Skills, stage, LanguageOfFiles(filesOf(input[filesKey])))
	if said, cut := Expertise(experts); said != "" {
		given[expertiseKey] = said
		if len(cut) > 0 {
			given[cutKey] = cut
		}
	}
	l.warn(append(problems, wrong...))
	for key := range input {
		delete(given, key)
	}
	return given
}

// OfWorkload is what is known of the service of a workload, nil where nothing is.
func (l *Library) OfWorkload(names ...string) *Service {
	services, problems := Services(l.Repositories)
	l.warn(problems)
	return OfWorkload(services, slices.DeleteFunc(names, func(n string) bool { return n == "" })...)
}

func (l *Library) warn(problems []error) {
	for _, err := range problems {
		if l.Warn != nil {
			l.Warn(err)
		}
	}
}

// filesOf are the names of files in an input: texts, or objects with a name.
func filesOf(v any) (all []string) {
	list, _ := v.([]any)
	for _, one := range list {
		switch f := one.(type) {
		case string:
			all = append(all, f)
		case map[string]any:
			for _, key := range []string{"filename", "path", "file"} {
				if name, ok := f[key]; ok {
					all = append(all, strings.TrimSpace(fmt.Sprint(name)))
					break
				}
			}
		}
	}
	return all
}
