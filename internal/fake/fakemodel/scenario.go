// Package fakemodel is a scripted model API on loopback: it stands in for a
// vendor's, so that the real agent CLIs, and our own loops, run whole
// investigations without a network, a key or a surprise.
//
// A scenario is a file: what the model says and which tools it calls, turn by
// turn. The turn to serve is read off the request itself, as the number of
// assistant turns in its history, so retries and parallel runs do not disturb a
// script. One file per vendor's protocol.
package fakemodel

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// Embedded holds the scenarios that come with the package, at its top level.
//
//go:embed scenarios/*.yaml
var embedded embed.FS

// Scenario is what the model says, turn by turn.
type Scenario struct {
	// Doc says what the scenario shows.
	Doc string `yaml:"doc"`
	// Let names values to take out of each request: a regular expression by
	// name, whose last match (its first group, if it has one) in the request's
	// text replaces ${name} in what the step says and passes to tools.
	Let map[string]string `yaml:"let"`
	// Steps are the turns.
	Steps []Step `yaml:"steps"`
	// WithoutTools says what answers a request that offers no tools: "canned"
	// (the default: titles and other side questions of the CLIs), or "script",
	// for callers that never offer tools.
	WithoutTools string `yaml:"without_tools"`

	// Answer answers in place of Steps, for a script that has to see what it is asked.
	Answer func(Request) Step `yaml:"-"`

	let map[string]*regexp.Regexp
}

// Step is one turn of the model, and what goes wrong in it.
type Step struct {
	Text  string     `yaml:"text"`
	Tools []ToolCall `yaml:"tools"`
	// Stop replaces the stop reason, such as max_tokens or refusal.
	Stop string `yaml:"stop"`
	// Usage replaces the token counts estimated from the text's length.
	Usage *Usage `yaml:"usage"`
	// Repeat serves the step for all later turns too; last step only.
	Repeat bool `yaml:"repeat"`
	// Hold keeps the caller waiting until the signal of this name is released:
	// before anything is sent, or after HoldAfter events of the stream.
	Hold      string `yaml:"hold"`
	HoldAfter int    `yaml:"hold_after"`
	// Endless says the text of a streamed answer again and again, until the caller
	// hangs up.
	Endless bool `yaml:"endless"`
	// Error answers with a failure instead.
	Error *Failure `yaml:"error"`
	// Cut breaks the connection after so many events of the stream, or in the
	// middle of a plain answer.
	Cut int `yaml:"cut"`
	// Times bounds Error and Cut to the first so many attempts at a turn, after
	// which it succeeds; 0 is for ever.
	Times int `yaml:"times"`
}

// ToolCall is one call of a tool.
type ToolCall struct {
	Name  string         `yaml:"name"`
	Input map[string]any `yaml:"input"`
}

// Usage counts tokens.
type Usage struct {
	Input  int `yaml:"input"`
	Output int `yaml:"output"`
}

// Failure is an answer that is an error.
type Failure struct {
	Status  int               `yaml:"status"`
	Type    string            `yaml:"type"` // the vendor's; by status if empty
	Message string            `yaml:"message"`
	Headers map[string]string `yaml:"headers"`
	// Foreign answers as a gateway of somebody's own does, in no vendor's words.
	Foreign bool `yaml:"foreign"`
}

// Parse reads a scenario from YAML or JSON. Unknown keys are errors.
func Parse(data []byte) (Scenario, error) {
	var sc Scenario
	if err := strictyaml.Unmarshal(data, &sc); err != nil {
		return Scenario{}, err
	}
	return sc, sc.checkAndCompile()
}

// checkAndCompile checks the scenario and prepares its expressions.
func (sc *Scenario) checkAndCompile() error {
	if len(sc.Steps) == 0 && sc.Answer == nil {
		return errors.New("steps: none")
	}
	if w := sc.WithoutTools; w != "" && w != "canned" && w != "script" {
		return fmt.Errorf("without_tools: %q is neither canned nor script", w)
	}
	sc.let = make(map[string]*regexp.Regexp, len(sc.Let))
	for name, expr := range sc.Let {
		re, err := regexp.Compile(expr)
		if err != nil {
			return fmt.Errorf("let.%s: %w", name, err)
		}
		sc.let[name] = re
	}
	for i, st := range sc.Steps {
		if err := st.checkStep(i == len(sc.Steps)-1); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
	}
	return nil
}

func (st Step) checkStep(last bool) error {
	switch {
	case st.Repeat && !last:
		return errors.New("repeat: only the last step can")
	case st.Error != nil && (st.Error.Status < 400 || http.StatusText(st.Error.Status) == "" && st.Error.Status != statusOverloaded):
		return fmt.Errorf("error.status: %d is no HTTP error", st.Error.Status)
	case st.Times != 0 && st.Error == nil && st.Cut == 0:
		return errors.New("times: bounds error or cut, and there is neither")
	case st.HoldAfter != 0 && st.Hold == "":
		return errors.New("hold_after: there is no signal to hold for")
	case st.Endless && st.Text == "":
		return errors.New("endless: there is no text to repeat")
	case st.Text == "" && len(st.Tools) == 0 && st.Stop == "" && (st.Error == nil || st.Times > 0):
		return errors.New("says nothing: give text, tools, stop or an error")
	}
	for i, call := range st.Tools {
		if call.Name == "" {
			return fmt.Errorf("tools[%d].name: missing", i)
		}
	}
	return nil
}

// stepFor is the one for the turn, counted from 0.
func (sc *Scenario) stepFor(turn int) (Step, bool) {
	if turn < len(sc.Steps) {
		return sc.Steps[turn], true
	}
	last := sc.Steps[len(sc.Steps)-1]
	return last, last.Repeat
}

// fillStep replaces the ${name} of the step by what the request's text holds. A name
// that is used and matches nothing is an error: the script and the run disagree.
func (sc *Scenario) fillStep(st Step, text string) (Step, error) {
	f := filler{let: sc.let, text: text}
	st.Text = f.string(st.Text)
	calls := make([]ToolCall, len(st.Tools))
	for i, call := range st.Tools {
		calls[i] = ToolCall{Name: call.Name, Input: map[string]any{}}
		for k, v := range call.Input {
			calls[i].Input[k] = f.value(v)
		}
	}
	st.Tools = calls
	return st, f.err
}

// filler replaces names, keeping the first error.
type filler struct {
	let  map[string]*regexp.Regexp
	text string
	err  error
}

func (f *filler) value(v any) any {
	switch v := v.(type) {
	case string:
		return f.string(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = f.value(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = f.value(v[k])
		}
		return out
	}
	return v
}

func (f *filler) string(s string) string {
	for name, re := range f.let {
		mark := "${" + name + "}"
		if !strings.Contains(s, mark) {
			continue
		}
		found, ok := lastMatch(re, f.text)
		if !ok && f.err == nil {
			f.err = fmt.Errorf("let.%s: %q matches nothing in the request", name, re)
		}
		s = strings.ReplaceAll(s, mark, found)
	}
	return s
}

func lastMatch(re *regexp.Regexp, text string) (string, bool) {
	all := re.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return "", false
	}
	last := all[len(all)-1]
	return last[min(1, len(last)-1)], true
}

// loadScenarios reads every *.yaml at the top of fsys, named by its file name.
func loadScenarios(fsys fs.FS) (map[string]*Scenario, error) {
	files, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, err
	}
	out := make(map[string]*Scenario, len(files))
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		sc, err := Parse(data)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", file, err)
		}
		out[strings.TrimSuffix(path.Base(file), ".yaml")] = &sc
	}
	return out, nil
}
