// Package skilltest runs the evaluations of a skill: the skill as a server would execute it, with tools
// that only say what the evaluation has them say.
package skilltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/text"
)

// Options say what is tested.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// Skill is what is executed, which Config finds by its name with its domain.
	Skill *skill.Skill
	Name  string
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
}

// Result is what came of an evaluation.
type Result struct {
	Eval     string `json:"eval"`
	Passed   bool   `json:"passed"`
	Attempts int    `json:"attempts"`
	// Failures say what was not so at the last attempt.
	Failures []string        `json:"failures"`
	Called   []string        `json:"called"`
	Output   json.RawMessage `json:"output,omitempty"`
	CostUSD  float64         `json:"costUsd"`
	Took     time.Duration   `json:"tookNs"`
}

// RunEval tries an evaluation until it passes, or has been tried often enough. Its error is why
// it could not be tried.
func RunEval(ctx context.Context, o Options, e skill.Eval) (r Result, err error) {
	began := time.Now()
	dir, cleanup, err := workspace.ChooseRoot("", "nightcrier-skill-")
	if err != nil {
		return r, err
	}
	defer cleanup()
	mocks, err := startMocks(o.Skill.Settings.Tools, e.Mocks)
	if err != nil {
		return r, err
	}
	defer mocks.stop()
	a, err := start(ctx, o, dir, mocks.servers)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, a.Stop(context.WithoutCancel(ctx))) }()
	r.Eval = e.Name
	for r.Attempts < e.Attempts && !r.Passed {
		r.Attempts++
		if err := tryOnce(ctx, a, o.Name, &e, mocks, &r); err != nil {
			return r, err
		}
	}
	r.Took = time.Since(began)
	return r, nil
}

// start starts what executes skills in a directory, with these tool servers alone.
func start(ctx context.Context, o Options, dir string, servers []config.ToolServer) (*app.Investigator, error) {
	cfg := *o.Config
	cfg.WorkspaceRoot, cfg.DatabaseURL, cfg.Slack, cfg.Webhooks, cfg.Clusters = dir, config.Secret{}, config.Slack{}, nil, nil
	cfg.ToolServers = servers
	opt := app.Options{Config: &cfg, Logger: o.Logger, Version: o.Version, WorkerCommand: o.WorkerCommand, Secrets: o.Config.Secrets()}
	var err error
	if opt.BudgetDir, err = triage.ServersBudget(o.Config); err != nil {
		return nil, err
	}
	a, err := app.NewInvestigator(opt)
	if err != nil {
		return nil, err
	}
	return a, a.Start(ctx)
}

// RunSkill executes a skill once, without tool servers, and returns what it delivered.
func RunSkill(ctx context.Context, o Options, input map[string]any) (json.RawMessage, error) {
	return runAlone(ctx, o, "the skill "+o.Name, api.Call{Skill: o.Name, By: "nightcrier"}, input)
}

// RunPipeline executes a pipeline once, without tool servers, and returns what its last step delivered.
func RunPipeline(ctx context.Context, o Options, input map[string]any) (json.RawMessage, error) {
	return runAlone(ctx, o, "the pipeline "+o.Name, api.Call{Pipeline: o.Name, By: "nightcrier"}, input)
}

// runAlone executes what is called in a directory of its own, and returns what came of it.
func runAlone(ctx context.Context, o Options, what string, call api.Call, input map[string]any) (out json.RawMessage, err error) {
	dir, cleanup, err := workspace.ChooseRoot("", "nightcrier-skill-")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	a, err := start(ctx, o, dir, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Stop(context.WithoutCancel(ctx))) }()
	run, err := runOnce(ctx, a, call, input)
	if err != nil {
		return nil, err
	}
	if run.Outcome != nightcrier.StateSuccess {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "%s delivered nothing: %s", what, cmp.Or(run.FailureReason, string(run.Outcome)))
	}
	return lastOutput(ctx, a, run.ID)
}

// runOnce has what is called executed, and waits for its end.
func runOnce(ctx context.Context, a *app.Investigator, call api.Call, input map[string]any) (nightcrier.Run, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return nightcrier.Run{}, nightcrier.Errorf(nightcrier.Invalid, "the input cannot be JSON: %w", err)
	}
	call.Input, call.Priority = raw, nightcrier.Warning
	run, err := a.StartRun(ctx, call)
	if err != nil {
		return run, err
	}
	return awaitRun(ctx, a, run.ID)
}

// lastOutput is what the last step of a run delivered.
func lastOutput(ctx context.Context, a *app.Investigator, run string) (out json.RawMessage, err error) {
	steps, err := a.Store().Steps(ctx, run)
	for _, s := range steps {
		out = s.Output
	}
	return out, err
}

// tryOnce has the skill executed once, and checks what came of it.
func tryOnce(ctx context.Context, a *app.Investigator, name string, e *skill.Eval, mocks *mocks, r *Result) error {
	input := map[string]any{}
	if e.Prompt != "" {
		input["prompt"] = e.Prompt
	}
	maps.Copy(input, e.Input)
	mocks.forget()
	run, err := runOnce(ctx, a, api.Call{Skill: name, By: "nightcrier skills test"}, input)
	if err != nil {
		return err
	}
	r.CostUSD += run.CostUSD
	if r.Output, err = lastOutput(ctx, a, run.ID); err != nil {
		return err
	}
	own, err := toolsOf(ctx, a, run.ID)
	if err != nil {
		return err
	}
	r.Called = append(mocks.called(), own...)
	slices.Sort(r.Called)
	r.Called = slices.Compact(r.Called)
	r.Failures = e.Check(string(r.Output), r.Called)
	if run.Outcome != nightcrier.StateSuccess {
		r.Failures = append([]string{cmp.Or(run.FailureReason, string(run.Outcome))}, r.Failures...)
	}
	for _, criterion := range e.Judges() {
		if len(r.Failures) > 0 {
			break // what has failed already costs nothing more
		}
		why, err := judgeOutput(ctx, a, criterion, r)
		if err != nil {
			return err
		}
		if why != "" {
			r.Failures = append(r.Failures, fmt.Sprintf("%q is not so: %s", criterion, text.CutLine(why, maxWhy)))
		}
	}
	r.Passed = len(r.Failures) == 0
	return nil
}

// judgeSkill says whether an output fulfils a criterion.
const judgeSkill = "platform/eval-judge"

// maxWhy is how much of its reason is shown, in characters.
const maxWhy = 300

// judgeOutput has a model say whether what was delivered fulfils a criterion; why it does not, "" when it does.
func judgeOutput(ctx context.Context, a *app.Investigator, criterion string, r *Result) (why string, err error) {
	run, err := runOnce(ctx, a, api.Call{Skill: judgeSkill, By: "nightcrier skills test"}, map[string]any{"criterion": criterion, "output": string(r.Output)})
	if err != nil {
		return "", err
	}
	r.CostUSD += run.CostUSD
	if run.Outcome != nightcrier.StateSuccess {
		return "nobody could judge it: " + cmp.Or(run.FailureReason, string(run.Outcome)), nil
	}
	out, err := lastOutput(ctx, a, run.ID)
	if err != nil {
		return "", err
	}
	var said struct {
		Passes bool
		Why    string
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "what %s says: %w", judgeSkill, err)
	}
	if said.Passes {
		return "", nil
	}
	return cmp.Or(said.Why, "it does not say why"), nil
}

// awaitRun waits for the end of a run. Who goes away leaves nothing running.
func awaitRun(ctx context.Context, a *app.Investigator, id string) (nightcrier.Run, error) {
	clean, done := context.WithoutCancel(ctx), ctx.Done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		run, err := a.Store().Run(clean, id)
		if err != nil || !run.Status.Open() {
			return run, errors.Join(err, ctx.Err())
		}
		select {
		case <-done:
			done = nil
			if _, err := a.CancelRun(clean, id, "interrupted"); err != nil && nightcrier.CodeOf(err) != nightcrier.Conflict {
				return run, err
			}
		case <-tick.C:
		}
	}
}

// toolsOf are the tools that an agent called in a run, without what a CLI puts in front of their
// names.
func toolsOf(ctx context.Context, a *app.Investigator, run string) (names []string, err error) {
	err = journal.EachEntry(ctx, a.Store(), run, 1, func(e nightcrier.JournalEntry) error {
		if e.Type != nightcrier.EntryToolCall {
			return nil
		}
		call, err := journal.Decode[journal.ToolCall](e)
		if err != nil {
			return err
		}
		parts := strings.Split(call.Tool, "__")
		names = append(names, parts[len(parts)-1])
		return nil
	})
	return names, err
}
