package skill

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// Eval is one thing that a skill is asked, and what has to come of it: a file in its evals.
type Eval struct {
	File string `yaml:"-"`
	Name string `yaml:"name"`
	// Prompt is what it is asked in words, and Input what it is handed over beside that.
	Prompt string         `yaml:"prompt"`
	Input  map[string]any `yaml:"input_data"`
	// Mocks are what tools answer, by their names. No tool is really called.
	Mocks      map[string]Mock `yaml:"mock_tools"`
	Expected   []string        `yaml:"expected_tools"`
	Forbidden  []string        `yaml:"forbidden_tools"`
	Assertions []Assertion     `yaml:"assertions"`
	// Attempts is how often it is tried before it counts as failed.
	Attempts int `yaml:"max_retries"`
}

// Mock is what a tool answers.
type Mock struct {
	Response any  `yaml:"response"`
	Error    bool `yaml:"error"`
}

// Assertion is one thing that has to be so.
type Assertion struct {
	Type     string `yaml:"type"`
	Value    string `yaml:"value"`
	Criteria string `yaml:"criteria"`
}

// The types of assertions.
const (
	OutputContains    = "output-contains"
	OutputNotContains = "output-not-contains"
	ToolCalled        = "tool-called"
	ToolNotCalled     = "tool-not-called"
	Judged            = "judge"
)

// maxAttempts bounds how often an evaluation is tried.
const maxAttempts = 5

// Evals are those of the skill, in the order of their files. An Invalid error names the file of one
// that cannot be read.
func (s *Skill) Evals() (all []Eval, err error) {
	for _, f := range s.files {
		if !isEval(f.path) {
			continue
		}
		e, line, err := readEval(f)
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%s", Finding{File: f.path, Line: line, Text: err.Error()})
		}
		all = append(all, e)
	}
	return all, nil
}

func isEval(file string) bool {
	ext := path.Ext(file)
	return path.Dir(file) == "evals" && (ext == ".yaml" || ext == ".yml")
}

// readEval reads a file; line is where it is wrong, 0 where the error says so or means all of it.
func readEval(f file) (e Eval, line int, err error) {
	doc, fault := strictyaml.ReadNode(f.data)
	if fault != nil {
		return e, fault.Line, errors.New(fault.Text)
	}
	if err := strictyaml.Unmarshal(f.data, &e); err != nil {
		return e, 0, err
	}
	if at, err := e.findWrong(); err != nil {
		if _, list := (section{said: doc}).find("assertions"); list != nil && at >= 0 && at < len(list.Content) { // not what an alias stands for
			line = list.Content[at].Line
		}
		return e, line, err
	}
	e.File, e.Name = f.path, cmp.Or(e.Name, strings.TrimSuffix(path.Base(f.path), path.Ext(f.path)))
	e.Attempts = min(max(e.Attempts, 1), maxAttempts)
	return e, 0, nil
}

// findWrong says what is wrong with an evaluation, and with which of its assertions; -1 is none of
// them.
func (e *Eval) findWrong() (at int, err error) {
	types := []string{OutputContains, OutputNotContains, ToolCalled, ToolNotCalled, Judged}
	if len(e.Assertions)+len(e.Expected)+len(e.Forbidden) == 0 {
		return -1, errors.New("asserts nothing: write assertions, expected_tools or forbidden_tools")
	}
	for i, a := range e.Assertions {
		switch {
		case !slices.Contains(types, a.Type):
			return i, fmt.Errorf("assertions.type %.40q is none of %s", a.Type, strings.Join(types, ", "))
		case a.Value == "" && a.Type != Judged:
			return i, fmt.Errorf("an assertion %s has no value", a.Type)
		case a.Value == "" && a.Criteria == "":
			return i, fmt.Errorf("an assertion %s has no criteria: write what has to be so", a.Type)
		}
	}
	return -1, nil
}

// Judges are what of it a model has to say whether it is so.
func (e *Eval) Judges() (criteria []string) {
	for _, a := range e.Assertions {
		if a.Type == Judged {
			criteria = append(criteria, cmp.Or(a.Criteria, a.Value))
		}
	}
	return criteria
}

// Check says what of an evaluation is not so, given what was delivered, as text, and which tools
// were called. What is to be judged is another's to say.
func (e *Eval) Check(output string, called []string) (failed []string) {
	has := func(text string) bool { return strings.Contains(strings.ToLower(output), strings.ToLower(text)) }
	assertions := slices.Clone(e.Assertions)
	for _, tool := range e.Expected {
		assertions = append(assertions, Assertion{Type: ToolCalled, Value: tool})
	}
	for _, tool := range e.Forbidden {
		assertions = append(assertions, Assertion{Type: ToolNotCalled, Value: tool})
	}
	for _, a := range assertions {
		switch {
		case a.Type == OutputContains && !has(a.Value):
			failed = append(failed, fmt.Sprintf("the output does not contain %q", a.Value))
		case a.Type == OutputNotContains && has(a.Value):
			failed = append(failed, fmt.Sprintf("the output contains %q", a.Value))
		case a.Type == ToolCalled && !slices.Contains(called, a.Value):
			failed = append(failed, fmt.Sprintf("%s was not called", a.Value))
		case a.Type == ToolNotCalled && slices.Contains(called, a.Value):
			failed = append(failed, fmt.Sprintf("%s was called", a.Value))
		}
	}
	return failed
}
