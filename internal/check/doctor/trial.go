package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// trialTime bounds a trial: the slowest CLI takes some seconds on a busy machine.
const trialTime = time.Minute

// trialStop bounds how long one that was given up may take to end.
const trialStop = 15 * time.Second

// trial is what became of a CLI that was started for its own sake.
type trial struct {
	// FirstCall is from the start to its first question of the model.
	FirstCall time.Duration
	// Memory is what its processes held then, in bytes; 0 where that cannot be seen.
	Memory int64
	// Models are those that it asked for, by the names that it makes of agent.model.
	Models []string
}

// tryAgent starts a CLI as an investigation would, in its sandbox and behind the
// model guard, with a model on this machine that says one sentence. Its error is why
// an investigation would fail too.
func tryAgent(ctx context.Context, workerCommand []string, a config.Agent) (t trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	model, err := trialModel()
	if err != nil {
		return t, err
	}
	defer model.Close()
	dir, cleanup, err := workspace.ChooseRoot("", "nightcrier-trial-")
	if err != nil {
		return t, err
	}
	defer cleanup()
	spec := backend.Spec{
		Version: backend.SpecVersion, Spec: a.Spec, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Cluster: "trial", Step: "trial", Attempt: 1,
		Workspace: filepath.Join(dir, "workspace"),
	}
	spec.Model, spec.BaseURL, spec.Keyless = cmp.Or(a.Model, "scripted"), model.URL(trialScenario), false
	spec.Timeout, spec.Grace, spec.Prices, spec.Models = trialTime, time.Second, nil, nil
	if err := trialWorkspace(spec.Workspace); err != nil {
		return t, err
	}
	began, workers := time.Now(), process.Backend{Dir: filepath.Join(dir, "workers"), Command: workerCommand}
	run, err := workers.Launch(ctx, spec, backend.Secrets{ModelAPIKey: fakemodel.Key})
	if err != nil {
		return t, err
	}
	ended := make(chan error, 1)
	go func() { ended <- trialEnd(ctx, workers, run) }()
	select {
	case err := <-ended:
		return t, cmp.Or(err, error(nightcrier.Errorf(nightcrier.Invalid, "it ended without a question to its model")))
	case <-model.Held(trialSignal):
		t = trial{FirstCall: time.Since(began), Memory: memoryOf("INCIDENT_ID=" + spec.IncidentID)}
	}
	model.Release(trialSignal)
	if err := <-ended; err != nil {
		return t, err
	}
	asked := model.Requests(trialScenario)
	for _, r := range asked {
		if !slices.Contains(t.Models, r.Model) {
			t.Models = append(t.Models, r.Model)
		}
	}
	return t, trialTools(a, asked)
}

// trialTools says that an agent which works with our tools alone was not given them.
func trialTools(a config.Agent, asked []fakemodel.Request) error {
	who, err := agent.For(a.Executor)
	if err != nil || a.Shell && !who.UsesTools {
		return err
	}
	listed := func(r fakemodel.Request) bool {
		return slices.ContainsFunc(r.Tools, func(name string) bool { return strings.HasSuffix(name, "list_files") })
	}
	if !slices.ContainsFunc(asked, listed) {
		return nightcrier.Errorf(nightcrier.Invalid, "it does not offer our tools to its model")
	}
	return nil
}

const (
	trialScenario = "trial"
	trialSignal   = "asked"
)

// trialModel holds its one answer back until the signal, so that the CLI can be
// looked at while it surely runs.
func trialModel() (*fakemodel.Server, error) {
	return fakemodel.Serve(trialScenario, fakemodel.Scenario{WithoutTools: "script", Steps: []fakemodel.Step{{Text: "I can be reached.", Hold: trialSignal, Repeat: true}}})
}

func trialWorkspace(dir string) error {
	for name, text := range map[string]string{"PROMPT.md": "Say that you can be reached.\n", "context/system-instructions.txt": "Answer in one sentence.\n"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "make a temporary workspace: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "make a temporary workspace: %w", err)
		}
	}
	return nil
}

// trialEnd waits until the agent is gone; when ctx ends first, it is made to go.
func trialEnd(ctx context.Context, workers backend.Backend, run backend.Handle) error {
	ended, err := workers.Follow(ctx, run, 0, nil)
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialStop)
		defer cancel()
		if err := workers.Cancel(last, run, "the trial was given up"); err != nil {
			return err
		}
		_, err = workers.Follow(last, run, 0, nil)
		return cmp.Or(err, error(nightcrier.Errorf(nightcrier.Unreachable, "it was stopped before it had answered")))
	}
	res := ended.Result
	if err == nil && res.State != nightcrier.StateSuccess {
		err = nightcrier.Errorf(nightcrier.Invalid, "%s (%s)", cmp.Or(res.FailureReason, "it gave no reason"), cmp.Or(string(res.FailureClass), string(res.State)))
	}
	return err
}

// memoryOf sums what the processes hold whose environment has this variable.
func memoryOf(variable string) (bytes int64) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is sound
	for _, name := range environs {
		env, err := os.ReadFile(name)
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+variable+"\x00") {
			bytes += residentBytes(filepath.Dir(name))
		}
	}
	return bytes
}

// residentBytes is the resident size of one process, 0 when it is gone.
func residentBytes(proc string) int64 {
	statm, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// String is the trial for people.
func (t trial) String() string {
	s := fmt.Sprintf("%.1f s to its first question", t.FirstCall.Seconds())
	if t.Memory > 0 {
		s += fmt.Sprintf(", %d MiB", t.Memory>>20)
	}
	return s
}
