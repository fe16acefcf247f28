package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/loop"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Our own agents run in the worker itself: there is no program of somebody else's to confine. What
// they reach, they reach through the same guards, which serve them on no port.

const (
	systemFile = "context/system-instructions.txt"
	promptFile = "PROMPT.md"
	// richFile is what an agent hands in to be shown to people.
	richFile = ".scratch/rich_output.json"
	// maxSession bounds a conversation that is gone on with, in bytes.
	maxSession = 64 << 20
)

// runLoop runs one of our own agents and returns how it ended.
func (a *attempt) runLoop(ctx context.Context) (result nightcrier.AgentResult) {
	defer a.catchPanic(&result)
	a.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	items := &keptItems{worker: a.worker}
	cfg, err := a.openLoop(ctx, items)
	if err == nil {
		err = cfg.Check()
	}
	if err != nil {
		a.endUpTo(endOfTools)
		a.sweepCommands()
		return a.startFailure(err)
	}
	end, err := a.awaitLoop(ctx, cancel, cfg)
	if err == nil {
		err = a.keepEnd(end)
	}
	a.lastLook()
	a.endUpTo(endOfTools)
	a.sweepCommands()
	a.endUpTo(endOfGuards)
	a.tidyDisk()
	if err != nil {
		return a.startFailure(err)
	}
	r := a.explainResult(agent.Decide(a.stopCause(), end.Verdict, sandbox.Exit{}, ""))
	r.ExitCode, r.Truncated = nil, items.cut
	return r
}

// catchPanic makes a panic the failure of this attempt alone: others may be at work in this process.
func (a *attempt) catchPanic(r *nightcrier.AgentResult) {
	p := recover()
	if p == nil {
		return
	}
	a.log.Error("the attempt fails by a panic", "error", p, "stack", string(debug.Stack()))
	a.endUpTo(endOfTools)
	a.sweepCommands()
	*r = a.startFailure(nightcrier.Errorf(nightcrier.Internal, "our own code failed, the worker's log says where: %v", p))
}

// sweepCommands ends what commands of tool servers left. Without commands nothing below this process
// is this attempt's: others may be at work in it.
func (a *attempt) sweepCommands() {
	if !a.spec.SharesProcess() {
		a.sweepBelow()
	}
}

// openLoop opens the guards, and is the loop behind them.
func (a *attempt) openLoop(ctx context.Context, items *keptItems) (cfg loop.Config, err error) {
	if err := a.prepareWorkspace(); err != nil {
		return cfg, err
	}
	if err := a.keepAnswers(); err != nil {
		return cfg, err
	}
	cfg = loop.Config{
		Provider: a.modelProvider(), Model: a.spec.Model, Fallbacks: a.spec.Fallbacks, SingleCall: a.executor.SingleCall,
		MaxTurns: a.spec.MaxTurns, MaxTokens: a.spec.MaxTokens, Thinking: a.spec.Thinking, Verify: a.spec.Verify, VerifyRetries: a.spec.VerifyRetries,
		Denied: a.toolDenials(), Tell: items.tell,
	}
	if err := a.readTold(&cfg); err != nil {
		return cfg, err
	}
	if err := a.openModelInside(); err != nil {
		return cfg, err
	}
	cfg.Ask = a.askGuard
	if a.executor.UsesTools {
		err = a.openToolsInside(ctx)
		cfg.Tools, cfg.Call = a.loopTools(), a.tools.Call
	}
	return cfg, err
}

// readTold reads what the agent is told, and the conversation that it goes on with.
func (a *attempt) readTold(cfg *loop.Config) error {
	ws, err := a.openWorkspace()
	if err != nil {
		return err
	}
	defer ws.Close()
	prompt := promptFile
	if a.spec.PromptFile != "" {
		prompt = a.spec.PromptFile
	}
	system, err := ws.ReadFile(systemFile)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the agent's instructions: %w", err)
	}
	told, err := ws.ReadFile(prompt)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the agent's prompt: %w", err)
	}
	cfg.System, cfg.Prompt = string(system), string(told)
	if a.spec.Session == "" {
		return nil
	}
	info, err := ws.Lstat(agent.SessionFile)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSession) {
		err = errors.New("it is no regular file of a fitting size")
	}
	if err == nil {
		cfg.Session, err = ws.ReadFile(agent.SessionFile)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the earlier conversation: %w", err)
	}
	return nil
}

// openModelInside makes the model's guard, on no port.
func (a *attempt) openModelInside() error {
	if !a.hasModel() {
		return authError{nightcrier.Errorf(nightcrier.Invalid, "executor %s needs a model key and there is none", a.executor.Name)}
	}
	if a.spec.MaxTokens == 0 {
		a.spec.MaxTokens = agent.DefaultLoopTokens
	}
	cfg, err := a.modelConfig()
	if err == nil {
		a.guard, err = model.New(cfg)
	}
	return err
}

// openToolsInside makes the guards of the cluster and of the tools, on no port.
func (a *attempt) openToolsInside(ctx context.Context) (err error) {
	if a.records, err = a.openRecords(); err != nil {
		return err
	}
	if a.secret.Cluster != nil {
		if a.cluster, err = a.guardCluster(a.secret.Cluster, a.records); err != nil {
			a.cluster = nil
			a.appendNote("warn", "the agent cannot look into the cluster: "+err.Error())
		}
	}
	a.tools, err = tools.New(a.toolsConfig(ctx))
	return err
}

// loopTools are the tools that the agent is offered; none where there is nothing but what reads its
// own workspace: it would have nothing to work with.
func (a *attempt) loopTools() (all []loop.Tool) {
	if a.tools == nil {
		return nil
	}
	offered, notes := agent.OfferedTools(a.tools.Names(), a.allowedPolicy())
	for _, n := range notes {
		a.appendNote("warn", n)
	}
	works := false
	for _, t := range a.tools.Tools() {
		if slices.Contains(offered, t.Name) {
			all = append(all, loop.Tool{Name: t.Name, About: t.About, Schema: t.Schema})
			works = works || !slices.Contains(tools.OfWorkspace, t.Name)
		}
	}
	if !works {
		return nil
	}
	return all
}

// askGuard makes one call of the model through its guard, where there is room for what it leaves.
func (a *attempt) askGuard(ctx context.Context, path string, body []byte) (loop.Answer, error) {
	if err := checkReserve(a.spec.Workspace); err != nil {
		a.requestStop(diskFull(err.Error()))
		return loop.Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return loop.Answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+a.guard.Token())
	r.Header.Set("Anthropic-Version", "2023-06-01")
	w := &answerWriter{Answer: loop.Answer{Header: http.Header{}}}
	a.guard.ServeHTTP(w, r)
	if w.Status == 0 {
		return loop.Answer{}, errors.New("the call broke off")
	}
	return w.Answer, nil
}

// maxAnswer bounds one answer of a model, in bytes.
const maxAnswer = 32 << 20

// answerWriter keeps an answer.
type answerWriter struct{ loop.Answer }

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header { return w.Answer.Header }

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	if w.Status == 0 && status >= http.StatusOK {
		w.Status = status
	}
}

// Write implements http.ResponseWriter.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(w.Body)+len(p) > maxAnswer {
		return 0, errors.New("the answer is longer than any that is asked for")
	}
	w.Body = append(w.Body, p...)
	return len(p), nil
}

// awaitLoop runs the loop, and sees to it that its end comes: by its own will, by deadline, or
// because somebody asked.
func (a *attempt) awaitLoop(ctx context.Context, cancel func(), cfg loop.Config) (end loop.End, err error) {
	deadline := time.AfterFunc(a.spec.Timeout, func() { a.requestStop(timedOut(a.spec.Timeout)) })
	defer deadline.Stop()
	a.moveState(journal.State{To: nightcrier.StateRunning})
	done := make(chan struct{})
	var p any
	go func() {
		defer close(done)
		defer func() {
			if p = recover(); p != nil {
				a.log.Error("panic", "error", p, "stack", string(debug.Stack()))
			}
		}()
		end, err = loop.Run(ctx, cfg)
	}()
	select {
	case <-done:
	case <-a.stopped:
		cancel()
		<-done
	}
	if p != nil {
		panic(p) // whoever runs the attempt shall meet it
	}
	return end, err
}

// keepEnd keeps the conversation, and what is to be shown to people.
func (a *attempt) keepEnd(end loop.End) error {
	ws, err := a.openWorkspace()
	if err != nil {
		return err
	}
	defer ws.Close()
	if err = ws.MkdirAll(filepath.Dir(agent.SessionFile), 0o700); err == nil {
		err = replaceFile(ws, agent.SessionFile, end.Session)
	}
	if err == nil && end.Rich != nil {
		err = replaceFile(ws, richFile, end.Rich)
	}
	if err != nil {
		a.lacksRoom("the conversation", err)
		return nightcrier.Errorf(nightcrier.Exhausted, "keep the conversation: %w", err)
	}
	return nil
}

// replaceFile makes a file anew: what stood there may be a link.
func replaceFile(ws *os.Root, name string, data []byte) error {
	if err := ws.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ws.WriteFile(name, data, 0o600)
}

// keptItems journals what one of our own agents does, within the bound of an agent's output.
type keptItems struct {
	worker *worker
	kept   int64
	cut    bool
}

func (k *keptItems) tell(items ...journal.Item) {
	for _, i := range items {
		raw, err := json.Marshal(i.Data)
		if k.kept += int64(len(raw)) + entryCost; err == nil && k.kept <= k.worker.spec.MaxOutputBytes {
			k.worker.recordItems(i)
			continue
		}
		if !k.cut {
			k.cut = true
			k.worker.appendNote("warn", "the agent has said more than is kept; what follows is not")
		}
	}
}
