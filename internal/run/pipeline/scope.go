package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/expr"
)

// Bounds of what goes into a run and into a step, and of a key.
const (
	MaxInput = 1 << 20
	maxKey   = 512
)

// Scope is what expressions see.
type Scope struct {
	Input   map[string]any
	Subject nightcrier.Subject
	// Steps are those that are done, by id.
	Steps map[string]Result
}

// Result is what a step left; one that was skipped left nothing, and no success.
type Result struct {
	Output    any
	Success   bool
	Artifacts []string
}

// The languages of expressions: a key is needed before there is a step.
var (
	subjectShape = expr.Shape{Fields: map[string]expr.Shape{"kind": {Kind: expr.Text}, "id": {Kind: expr.Text}, "title": {Kind: expr.Text}}}
	keyLanguage  = expr.NewLanguage(map[string]expr.Shape{"input": {Kind: expr.Any}, "subject": subjectShape})
	stepLanguage = expr.NewLanguage(map[string]expr.Shape{"input": {Kind: expr.Any}, "subject": subjectShape, "steps": {Each: &expr.Shape{
		Fields: map[string]expr.Shape{"output": {Kind: expr.Any}, "success": {Kind: expr.Bool}, "artifacts": {Kind: expr.List}}}}})
)

func (s Scope) vars() expr.Vars {
	steps := map[string]any{}
	for id, r := range s.Steps {
		artifacts := make([]any, len(r.Artifacts))
		for i, name := range r.Artifacts {
			artifacts[i] = name
		}
		steps[id] = map[string]any{"output": r.Output, "success": r.Success, "artifacts": artifacts}
	}
	input := s.Input
	if input == nil {
		input = map[string]any{}
	}
	return expr.Vars{"input": input, "steps": steps,
		"subject": map[string]any{"kind": string(s.Subject.Kind), "id": s.Subject.ID, "title": s.Subject.Title}}
}

// keyName is the name of the expression for what may not run twice at once. The others are
// called by their step: "review.if", "review.with.diff", or by their place in the notifications.
const (
	keyName          = "concurrency.key"
	notificationName = "notifications["
	promptName       = ".approval.prompt"
)

// compileAs compiles an expression as what its name says.
func compileAs(name, source string) (*expr.Expression, error) {
	switch {
	case name == keyName:
		return keyLanguage.Compile(source, expr.Text)
	case strings.HasPrefix(name, notificationName) && strings.HasSuffix(name, ".text"), strings.HasSuffix(name, promptName):
		return stepLanguage.Compile(source, expr.Text)
	case strings.HasSuffix(name, ".if") && strings.Count(name, ".") == 1:
		return stepLanguage.Compile(source, expr.Bool)
	}
	return stepLanguage.Compile(source, expr.Any)
}

// placeError says of an expression's error where the expression stands.
func (d *Definition) placeError(name string, err error) error {
	shown := name
	if name != keyName && !strings.HasPrefix(name, notificationName) {
		shown = "steps." + name
	}
	return nightcrier.Errorf(nightcrier.CodeOf(err), "%s:%d: %s: %w", d.File, d.Lines[name], shown, err)
}

// evalError says why an expression yields nothing: where it wants an input that was not given,
// how to give it.
func (d *Definition) evalError(name string, e *expr.Expression, s Scope, err error) error {
	for _, in := range e.EntriesOf("input") {
		if s.Input[in] == nil && checkInput(in) == nil && strings.HasSuffix(err.Error(), "no such key: "+in) {
			err = nightcrier.Errorf(nightcrier.Invalid, "the input has no %s: give it, as with --input %s=…", in, in)
		}
	}
	return d.placeError(name, err)
}

// EvalKey yields what may not run twice at once, "" when the pipeline does not say.
func (d *Definition) EvalKey(ctx context.Context, s Scope) (string, error) {
	if d.Concurrency.Key == "" {
		return "", nil
	}
	e, err := compileAs(keyName, d.Concurrency.Key)
	if err != nil {
		return "", d.placeError(keyName, err)
	}
	key, err := e.Text(ctx, s.vars())
	switch {
	case err != nil:
		return "", d.evalError(keyName, e, s, err)
	case key == "" || len(key) > maxKey:
		return "", d.placeError(keyName, nightcrier.Errorf(nightcrier.Invalid, "it yields %d bytes; a key has between 1 and %d", len(key), maxKey))
	case strings.ContainsFunc(key, text.IsHidden):
		return "", d.placeError(keyName, nightcrier.Errorf(nightcrier.Invalid, "it yields a text with characters that do not show, such as line breaks"))
	}
	return key, nil
}

// EvalIf reports whether a step is to be done.
func (d *Definition) EvalIf(ctx context.Context, step *Step, s Scope) (bool, error) {
	if step.If == "" {
		return true, nil
	}
	name := step.ID + ".if"
	e, err := compileAs(name, step.If)
	if err != nil {
		return false, d.placeError(name, err)
	}
	yes, err := e.Bool(ctx, s.vars())
	if err != nil {
		return false, d.evalError(name, e, s, err)
	}
	return yes, nil
}

// EvalPrompt yields what people are asked in a step.
func (d *Definition) EvalPrompt(ctx context.Context, step *Step, s Scope) (string, error) {
	name := step.ID + promptName
	e, err := compileAs(name, step.Approval.Prompt)
	if err != nil {
		return "", d.placeError(name, err)
	}
	said, err := e.Text(ctx, s.vars())
	if err != nil {
		return "", d.evalError(name, e, s, err)
	}
	return said, nil
}

// EvalWith yields the inputs that a step names for itself, at most [MaxInput] of JSON.
func (d *Definition) EvalWith(ctx context.Context, step *Step, s Scope) (map[string]any, error) {
	vars, inputs, size := s.vars(), map[string]any{}, 0
	for _, key := range slices.Sorted(maps.Keys(step.With)) {
		name := step.ID + ".with." + key
		e, err := compileAs(name, step.With[key])
		if err != nil {
			return nil, d.placeError(name, err)
		}
		value, err := e.Value(ctx, vars)
		if err != nil {
			return nil, d.evalError(name, e, s, err)
		}
		data, err := json.Marshal(value)
		if err != nil {
			return nil, d.placeError(name, err)
		}
		if size += len(data); size > MaxInput {
			return nil, d.placeError(name, nightcrier.Errorf(nightcrier.Exhausted, "the inputs of the step take more than %d bytes: hand on less, or a file", MaxInput))
		}
		inputs[key] = value
	}
	return inputs, nil
}

// ReadInput reads the input of a run, with the names that input_mapping has for it: one JSON
// object of at most [MaxInput]; nothing is none.
func (d *Definition) ReadInput(data []byte) (map[string]any, error) {
	if len(data) > MaxInput {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "the input takes %d bytes: at most %d are taken; hand on less, or a reference", len(data), MaxInput)
	}
	input := map[string]any{}
	if len(data) == 0 {
		return input, nil
	}
	var of *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &input); {
	case errors.As(err, &of):
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the input is no JSON object: it is of type %s", of.Value)
	case err != nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the input is no JSON object: %w", err)
	case input == nil: // null
		input = map[string]any{}
	}
	d.mapInput(input)
	return input, nil
}

// mapInput gives each input the other name that input_mapping has for it, unless
// something is there already.
func (d *Definition) mapInput(input map[string]any) {
	for from, to := range d.InputMapping {
		value, given := input[from]
		if _, taken := input[to]; given && !taken {
			input[to] = value
		}
	}
}
