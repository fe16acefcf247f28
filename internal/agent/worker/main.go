// Package worker runs one attempt of one agent step, beside the sandbox and in a process of its
// own, which no end of the server disturbs: it holds the run's secrets, confines and starts the
// agent, serves it the guards, enforces the limits, spools the journal to disk, and answers
// whoever follows it. How it is started and found is package backend.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/hook"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// InitMain is the body of the hidden command process.InitCommand.
func InitMain(args []string) int { return process.Init(args, os.Stderr) }

// HookCommand is the hidden command by which an agent's CLI asks whether it may run
// a shell command.
const HookCommand = hook.Command

// HookMain is the body of HookCommand.
func HookMain(args []string) int { return hook.AnswerQuestion(args, os.Stdin, os.Stdout) }

// ChooseCommand is the command that starts a worker: by default this very program.
func ChooseCommand(command []string) ([]string, error) {
	if len(command) > 0 {
		return command, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "find our own executable: %w", err)
	}
	return []string{exe, "worker"}, nil
}

// readyFD is where Launch waits for our word.
const readyFD = 3

// Main is the body of the hidden command `worker DIR`. It reads the secrets
// from stdin, does what the spec of dir says, and returns an exit code. Ending
// ctx cancels the agent.
func Main(ctx context.Context, dir string, stdin io.Reader, log io.Writer) int {
	// A worker outlives its terminal and its server. Signals are caught, not
	// ignored: what is ignored here would be ignored by the agent as well.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	logger := slog.New(slog.NewJSONHandler(log, nil))
	syscall.CloseOnExec(portable.Descriptor(readyFD))
	ready := os.NewFile(readyFD, "ready")
	w, err := claimDirectory(workdir.Dir(dir), stdin, logger)
	if err != nil {
		logger.Error("worker does not start", "error", err)
		_, _ = fmt.Fprintln(ready, readyWord(err)) // nobody may be there to hear it
		return 1
	}
	if w == nil {
		_, _ = fmt.Fprintln(ready, "ok")
		return 0 // another one is at work, or was
	}
	if w.spec.SharesProcess() {
		defer openHost(workdir.Dir(filepath.Dir(dir)), logger).close() // when its own attempt is free of its lock
	}
	defer w.lock.Close()
	_, _ = fmt.Fprintln(ready, "ok")
	ready.Close()
	if err := w.runWorker(ctx); err != nil {
		logger.Error("worker ends without a result", "error", err)
		return 1
	}
	return 0
}

// worker is one worker at work.
type worker struct {
	dir    workdir.Dir
	spec   *backend.Spec
	secret backend.Secrets
	mask   *mask.Masker // secret.NewMasker(), which learns
	log    *slog.Logger
	now    func() time.Time
	lock   *os.File
	spool  *workdir.Spool
	server *server

	mu      sync.Mutex
	state   nightcrier.State
	entered time.Time     // state
	stopped chan struct{} // closed by the first stop
	cause   *stopCause    // guarded by mu; nil until then
}

// maxSecrets bounds what is read from stdin.
const maxSecrets = 1 << 20

// claimDirectory makes the directory ours: secrets read whole, lock held, claim made. It
// returns nil when another worker has it. Nothing is claimed without secrets: a
// server that died while it handed them over can launch again.
func claimDirectory(d workdir.Dir, stdin io.Reader, log *slog.Logger) (*worker, error) {
	w := &worker{dir: d, spec: &backend.Spec{}, log: log, now: time.Now, stopped: make(chan struct{})}
	raw, err := io.ReadAll(io.LimitReader(stdin, maxSecrets))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "read secrets: %w", err)
	}
	if err := json.Unmarshal(raw, &w.secret); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the secrets on stdin are not whole")
	}
	if err := d.ReadFile(workdir.SpecFile, w.spec); err != nil {
		return nil, err
	}
	w.spec.SetDefaults()
	if err := w.spec.CheckSpec(); err != nil {
		return nil, err
	}
	w.mask = w.secret.NewMasker().Learning(w.spec.Cluster, w.spec.Namespace)
	if err := w.mask.Unseal(w.secret.Learned); err != nil {
		return nil, err
	}
	if w.lock, err = takeLock(d); err != nil || w.lock == nil {
		return nil, err
	}
	if err := w.openForFollowers(); err != nil {
		w.lock.Close()
		return nil, err
	}
	first, err := d.ClaimStart()
	if err != nil || !first {
		w.lock.Close()
		w.server.listener.Close()
		return nil, err
	}
	return w, nil
}

// takeLock takes the lock; nil when another worker has claimed the directory.
// A reader that looks whether a worker lives holds the lock for a moment.
func takeLock(d workdir.Dir) (*os.File, error) {
	deadline := time.Now().Add(2 * time.Second)
	for {
		if claimed, err := d.IsClaimed(); claimed || err != nil {
			return nil, err
		}
		lock, ok, err := d.LockWorker()
		if ok || err != nil || time.Now().After(deadline) {
			return lock, err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// openForFollowers makes what a follower needs, before the claim: a claimed directory can
// be followed.
func (w *worker) openForFollowers() error {
	me, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	if err := w.dir.WriteFile(workdir.PIDFile, workdir.PIDs{Worker: me, Shared: w.spec.SharesProcess()}); err != nil {
		return err
	}
	if w.spool, err = workdir.OpenSpool(w.dir, w.spec, w.now); err != nil {
		return err
	}
	w.server = &server{
		dir: w.dir, spool: w.spool, log: w.log, finished: make(chan struct{}),
		state:  w.currentState,
		cancel: func(cause string) { w.requestStop(cancelCause(cause)) },
	}
	return w.server.listenSocket()
}

// runWorker does the work and writes the result. An error means that there is none:
// the next server will find the worker dead.
func (w *worker) runWorker(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { w.requestStop(cancelCause("the worker was ended")) })()
	w.moveState(journal.State{To: nightcrier.StateCreated})
	started := w.now().UTC()
	result := w.runAttempt(context.WithoutCancel(ctx))
	w.tellMissed()
	// What the agent said before a value was learned is known for one now.
	result.FinalMessage, result.FailureReason = w.mask.String(result.FinalMessage), w.mask.String(result.FailureReason)
	result.StartedAt, result.EndedAt = started, w.now().UTC()
	if result.Usage.DurationMS == 0 {
		result.Usage.DurationMS = result.EndedAt.Sub(started).Milliseconds()
	}
	w.moveState(journal.State{
		To: result.State, Reason: result.FailureReason, FailureClass: result.FailureClass, ExitCode: result.ExitCode,
	})
	err := errors.Join(w.spool.Close(), w.writeResult(result))
	close(w.server.finished)
	w.server.close()
	return err
}

// How long a result waits for room on the disk, and how often it is tried.
const (
	resultPatience = 10 * time.Minute
	resultPause    = 250 * time.Millisecond
)

// writeResult waits for room on a full disk: a worker that ends without a result
// is taken for lost, and what its agent did with it.
func (w *worker) writeResult(r nightcrier.AgentResult) error {
	for deadline := w.now().Add(resultPatience); ; time.Sleep(resultPause) {
		err := errors.Join(w.keepLearned(), w.dir.WriteFile(workdir.ResultFile, r))
		if !workspace.Full(err) || w.now().After(deadline) {
			return err
		}
	}
}

// keepLearned hands over what was learned, for what the server tells of the run.
func (w *worker) keepLearned() error {
	sealed, err := w.mask.Seal()
	if err != nil {
		return err
	}
	return w.dir.WriteFile(workdir.LearnedFile, sealed)
}

// tellMissed says when there were more secrets than a run remembers.
func (w *worker) tellMissed() {
	if n := w.mask.Missed(); n > 0 {
		w.appendNote("warn", fmt.Sprintf("%d secrets were masked where their names stand, and were too many to be looked for elsewhere", n))
	}
}

func (w *worker) currentState() nightcrier.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// moveState journals a transition. One that is not legal is left out.
func (w *worker) moveState(s journal.State) {
	w.mu.Lock()
	s.From = w.state
	if w.state != "" && !w.state.CanBecome(s.To) {
		w.mu.Unlock()
		return
	}
	now := w.now()
	if w.state != "" {
		s.AfterMS = now.Sub(w.entered).Milliseconds()
	}
	w.state, w.entered = s.To, now
	w.mu.Unlock()
	w.log.Info("agent state", "incident_id", w.spec.IncidentID, "cluster", w.spec.Cluster,
		"from", s.From, "to", s.To, "after_ms", s.AfterMS, "reason", s.Reason, "failure_class", s.FailureClass)
	w.recordItems(journal.OfState(s))
}

// recordItems appends to the journal, up to the first item that cannot be written.
func (w *worker) recordItems(items ...journal.Item) {
	for _, item := range items {
		if w.appendItem(item) != nil {
			return
		}
		if said, ok := item.Data.(journal.Message); ok {
			for _, p := range journal.ReadGates(said) {
				w.recordItems(journal.OfPhase(p))
			}
		}
	}
}

// appendItem appends one item to the journal, masked: the agent may have been shown a value
// before it was learned for a secret. A disk that is full ends the agent, once.
func (w *worker) appendItem(item journal.Item) error {
	data, err := item.JSON()
	if err == nil {
		data, err = w.mask.Strings(data)
	}
	if err != nil {
		return err
	}
	if err = w.spool.AppendItem(journal.Item{Type: item.Type, Data: json.RawMessage(data)}); err != nil {
		w.log.Error("journal", "error", err)
		w.requestStop(diskFull("the journal cannot be written: " + err.Error()))
	}
	return err
}

// appendNote journals something that people should know of how the agent was run.
func (w *worker) appendNote(level, text string) {
	w.recordItems(journal.OfLog(journal.Log{Stream: "worker", Level: level, Text: text}))
}
