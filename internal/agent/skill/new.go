package skill

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// NewOptions say how a new skill is to be.
type NewOptions struct {
	// Dir is the directory that its domain is in.
	Dir string
	// Executor does it; Description says what it does.
	Executor, Description string
}

// WriteNew writes a skill to begin with, and returns its files, SKILL.md first. It is a Conflict
// when there is one.
func WriteNew(name string, o NewOptions) ([]string, error) {
	domain, base, ok := strings.Cut(name, "/")
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%.80q has no domain: write DOMAIN/NAME, such as shop/%.40s", name, cmp.Or(base, domain))
	}
	if err := errors.Join(CheckName(domain), CheckName(base)); err != nil {
		return nil, err
	}
	if !slices.Contains(executorNames(), o.Executor) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%.40q is no executor: write one of %s", o.Executor, strings.Join(executorNames(), ", "))
	}
	dir := filepath.Join(o.Dir, domain, base)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil, nightcrier.Errorf(nightcrier.Conflict, "%s is there already: choose another name, or change that one", dir)
	case err != nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	said, err := json.Marshal(text.FoldLine(cmp.Or(o.Description, "Says what it does, and when to use it.")))
	if err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("NAME", base, "DOMAIN", domain, "EXECUTOR", o.Executor, "DESCRIPTION", string(said))
	var made []string
	for _, f := range []struct{ name, text string }{{"SKILL.md", newMain}, {configFile, newConfig}, {"evals/first.yaml", newEval}} {
		at := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return made, nightcrier.Errorf(nightcrier.Internal, "%w", err)
		}
		if err := os.WriteFile(at, []byte(fill.Replace(f.text)), 0o644); err != nil {
			return made, nightcrier.Errorf(nightcrier.Internal, "%w", err)
		}
		made = append(made, at)
	}
	return made, nil
}

// The files of a new skill.
const (
	newMain = `---
name: NAME
description: DESCRIPTION
domain: DOMAIN
role: agent
---

# NAME

Say in a sentence or two what is to be done, for whom, and what a good result is.

## Input Format

A JSON object with ` + "`task`" + `, what is asked for.

## Execution

### Phase 1: Understand

Read the input, and find out what is missing.

**Gate**: Say what is asked for. Say what you found out. Say what you do next.

### Phase 2: Do it

Do what is asked for, in small steps.

**Gate**: Say what you did. Say what you left out, and why. Say how you check it.

### Phase 3: Deliver

Check the result against the input, and deliver it.

## Output Format

A JSON object with ` + "`summary`" + `, what was done.

## Guardrails

- What is not known is not invented: say what is missing.
`
	newConfig = `domain:
  name: DOMAIN
  description: What the skills of this domain are for
  owner: your-team
skills:
  - name: NAME
    role: agent
    version: 0.1.0
    cost_budget: "$0.50"   # bounds one execution
agent:
  executor: EXECUTOR
  max_iterations: 20
  timeout: 300             # seconds
deliver:
  schema:                  # of output/result.json; without deliver, its last words count
    type: object
    required: [summary]
    properties:
      summary: {type: string}
`
	newEval = `name: first
input_data:
  task: Say hello
assertions:
  - {type: output-contains, value: hello}
`
)
