// Package engine runs workflows durably: a workflow that a crash interrupts goes
// on at its next start, and the checkpoints it finished are not repeated.
//
// It fences in DBOS Transact. What the product asks of it is small, because
// admission, leases and every record that people read are ours (packages admit
// and store); the engine's own tables hold checkpoints and nothing else. The
// measured limits of the library, and what is done about each, are in
// docs/decisions/0002-engine.md.
package engine

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // the SQLite dialect of the library

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

const (
	appName = "nightcrier"
	// executorID is the same in every process: one process owns a store, so
	// whoever holds it also owns every interrupted workflow.
	executorID = "nightcrier"
	// appVersion stays constant over releases, so that an upgraded server resumes
	// what its predecessor began. A workflow whose steps change gets a new name.
	appVersion   = "1"
	workflowName = "workflow/1"
)

// Workflow is a deterministic function: between its steps it decides only by its
// input and by what its steps returned. Its error is recorded, never retried:
// whatever can be tried again belongs into a step.
type Workflow func(ctx Context, id string, input []byte) error

// Context is what a workflow runs in. Steps take it; it is cancelled when the
// engine stops, and the workflow must then return at once.
type Context struct {
	context.Context
	dbos   dbos.Context
	logger *slog.Logger
	engine *Engine
	id     string
	result *string
}

// Return sets what the workflow returns to the one that it is a branch of.
func (c Context) Return(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("engine: encode the result of %s: %w", c.id, err)
	}
	*c.result = string(raw)
	return nil
}

// Branch is a workflow that another one starts, and waits for.
type Branch struct {
	// Name tells it from the others of its workflow, and Workflow names what it does.
	Name, Workflow string
	Input          any
}

// branchPoll is the time between two looks at a branch that another process began.
const branchPoll = 50 * time.Millisecond

// RunBranches runs workflows side by side, and returns what each of them returned, in their
// order, when all have ended. Each has checkpoints of its own, and goes on after a crash by
// itself. An error is one of theirs, which is recorded, or that the engine stops.
func RunBranches[T any](ctx Context, branches []Branch) ([]T, error) {
	var handles []dbos.WorkflowHandle[string]
	var failed error
	for _, b := range branches {
		h, err := startBranch(ctx, b)
		if failed = err; err != nil {
			break // those before it go on, and are waited for
		}
		handles = append(handles, h)
	}
	results := make([]T, len(branches))
	for i, h := range handles {
		raw, err := awaitBranch(ctx, h)
		if err == nil {
			err = json.Unmarshal([]byte(raw), &results[i])
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("branch %s: %w", branches[i].Name, err))
		}
	}
	return results, failed
}

func startBranch(ctx Context, b Branch) (dbos.WorkflowHandle[string], error) {
	raw, err := json.Marshal(b.Input)
	if err != nil {
		return nil, fmt.Errorf("engine: encode the input of %s: %w", b.Name, err)
	}
	h, err := dbos.RunWorkflow(ctx.dbos, ctx.engine.dispatchCall, call{Name: b.Workflow, Input: raw}, dbos.WithWorkflowID(ctx.id+"/"+b.Name))
	return h, unreachableError("start "+b.Name, err)
}

// awaitBranch returns what a branch returned. Of one that another process began the library asks
// until it has ended, also while the engine stops: that is not waited for.
func awaitBranch(ctx Context, h dbos.WorkflowHandle[string]) (string, error) {
	var raw string
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		raw, err = h.GetResult(dbos.WithHandlePollingInterval(branchPoll))
	}()
	select {
	case <-ended:
		return raw, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Options configures an engine. Exactly one of SQLitePath and PostgresURL is set.
type Options struct {
	SQLitePath  string
	PostgresURL string
	Logger      *slog.Logger
}

// Engine executes workflows. Make it with Open, Register everything, Launch,
// then Start workflows; Stop it once.
type Engine struct {
	ctx       dbos.Context
	db        *sql.DB
	logger    *slog.Logger
	workflows map[string]Workflow

	stopping atomic.Bool

	mu     sync.Mutex
	active map[string]bool // ids that run in this process
}

// call is the recorded input of every workflow.
type call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// librarySwitches are environment variables that override the library's
// configuration; a stray one would change who owns interrupted workflows.
var librarySwitches = []string{
	"DBOS__VMID", "DBOS__APPVERSION", "DBOS__APPID", "DBOS__CLOUD", "DBOS_DOMAIN",
	"DBOS__CONDUCTOR_APP_NAME", "DBOS__CONDUCTOR_KEY", "DBOS__CONDUCTOR_URL",
}

// Open connects the engine to its database and brings the checkpoint tables up
// to date. The caller must own the store: two engines on one database would
// resume each other's workflows.
func Open(ctx context.Context, o Options) (*Engine, error) {
	for _, name := range librarySwitches {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("engine: clear %s: %w", name, err)
		}
	}
	e := &Engine{logger: o.Logger, workflows: map[string]Workflow{}, active: map[string]bool{}}
	cfg := dbos.Config{
		AppName:                  appName,
		ExecutorID:               executorID,
		ApplicationVersion:       appVersion,
		Logger:                   slog.New(quiet{o.Logger.Handler(), &e.stopping}),
		SystemDBStartupTimeout:   30 * time.Second,
		SchedulerPollingInterval: time.Hour, // schedules are not used
	}
	room := &room{log: o.Logger}
	if o.PostgresURL != "" {
		cfg.DatabaseURL = o.PostgresURL
	} else {
		db, err := openSQLite(o.SQLitePath, room)
		if err != nil {
			return nil, err
		}
		e.db, cfg.SQLiteSystemDB = db, db
	}
	// The library would take the caller's cancellation for its own shutdown and
	// race it; Stop is the only way to stop.
	dctx, err := dbos.NewContext(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, errors.Join(nightcrier.Errorf(nightcrier.Unreachable, "engine: open the checkpoint tables: %w", err), e.closeDB())
	}
	e.ctx = dctx
	room.allowWaiting(dctx.Done())
	dbos.RegisterWorkflow(dctx, e.dispatchCall, dbos.WithWorkflowName(workflowName), dbos.WithMaxRecoveryAttempts(math.MaxInt32))
	return e, nil
}

// openSQLite opens the checkpoint database: one connection, because SQLite has
// one writer and the library's transactions must not wait for each other's
// snapshots; immediate transactions; every commit synced.
func openSQLite(path string, room *room) (*sql.DB, error) {
	// Made by us, so that its owner alone can read it.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "engine: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "engine: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "engine: %w", err)
	}
	file := url.URL{Scheme: "file", OmitHost: true, Path: abs} // a path may hold what means something in a URL
	dsn := file.String() + "?mode=rw&_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
	named, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "engine: open %s: %w", path, err)
	}
	db := sql.OpenDB(connector{sqlite: named.Driver(), dsn: dsn, room: room})
	if err := named.Close(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// Register names a workflow. It must be called before Launch; the name is
// recorded with each execution and must stay as long as one may be resumed.
func (e *Engine) Register(name string, w Workflow) { e.workflows[name] = w }

// Launch starts the engine and resumes every workflow that was interrupted.
func (e *Engine) Launch() error {
	return unreachableError("launch", dbos.Launch(e.ctx))
}

// Start executes the named workflow under an id. A second Start of one id does
// nothing, whether the first is running, interrupted or done: what was
// interrupted is resumed by Launch.
func (e *Engine) Start(name, id string, input any) error {
	if e.workflows[name] == nil {
		return nightcrier.Errorf(nightcrier.Internal, "engine: no workflow is named %q", name)
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return fmt.Errorf("engine: encode the input of %s: %w", id, err)
	}
	_, err = dbos.RunWorkflow(e.ctx, e.dispatchCall, call{Name: name, Input: raw}, dbos.WithWorkflowID(id))
	return unreachableError("start "+id, err)
}

// dispatchCall is the one function that the library knows.
func (e *Engine) dispatchCall(ctx dbos.Context, c call) (string, error) {
	id, err := dbos.GetWorkflowID(ctx)
	if err != nil {
		return "", err
	}
	w := e.workflows[c.Name]
	if w == nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "engine: %s was begun by a workflow named %q, which this version does not have", id, c.Name)
	}
	e.setActive(id, true)
	defer e.setActive(id, false)
	var result string
	err = w(Context{Context: ctx, dbos: ctx, logger: e.logger, engine: e, id: id, result: &result}, id, c.Input)
	if err != nil && ctx.Err() == nil {
		e.logger.Error("workflow ended with an error", "event", "workflow_error", "workflow", id, "error", err)
	}
	return result, err
}

func (e *Engine) setActive(id string, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if on {
		e.active[id] = true
	} else {
		delete(e.active, id)
	}
}

// Active reports whether the workflow runs in this process now.
func (e *Engine) Active(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active[id]
}

// Prune deletes the checkpoints of workflows that ended before a time, with those of their
// branches, and returns how many there were. A branch stays as long as its workflow, which may
// ask what it came to.
func (e *Engine) Prune(before time.Time) (int, error) {
	const page = 200
	for pruned := 0; ; {
		ended, err := dbos.ListWorkflows(e.ctx, dbos.WithFilterHasParent(false), dbos.WithFilterStatus(dbos.WorkflowStatusSuccess, dbos.WorkflowStatusError),
			dbos.WithFilterCompletedBefore(before), dbos.WithFilterLimit(page), dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false))
		if err != nil || len(ended) == 0 {
			return pruned, unreachableError("list ended workflows", err)
		}
		ids := make([]string, len(ended))
		for i, w := range ended {
			ids[i] = w.ID
		}
		if err := dbos.DeleteWorkflows(e.ctx, ids, dbos.WithDeleteChildren()); err != nil {
			return pruned, unreachableError("delete checkpoints", err)
		}
		pruned += len(ids)
	}
}

func unreachableError(doing string, err error) error {
	if err == nil {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "engine: %s: %w", doing, err)
}

// Stop interrupts the running workflows, waits for them to return, and closes
// the database. They are resumed by the next Launch.
func (e *Engine) Stop(timeout time.Duration) error {
	e.stopping.Store(true)
	return errors.Join(dbos.Shutdown(e.ctx, timeout), e.closeDB())
}

func (e *Engine) closeDB() error {
	if e.db == nil {
		return nil
	}
	return e.db.Close()
}

// Step runs fn once and remembers what it returned: after a crash a finished
// step gives its recorded result without running again. A crash inside fn runs
// it again, so its effects must be idempotent.
//
// An error of fn is never a result. It means that the step could not be done
// now (the store is away, the disk is full): it is retried, with growing pauses,
// until it succeeds or the engine stops. What can fail for good is said in T.
//
// The one error that Step returns while the engine runs is that of an fn that
// panicked several times in a row. It is recorded: the step will not run again,
// so input that makes us panic cannot take the server down at each start.
func Step[T any](ctx Context, name string, fn func(context.Context) (T, error)) (T, error) {
	return dbos.RunAsStep(ctx.dbos, func(c context.Context) (T, error) {
		return untilDone(c, ctx.logger.With("step", name), fn)
	}, dbos.WithStepName(name))
}

// Insist tries fn as Step does and does not remember that it is done: for what
// must be done even when no checkpoint can be written, and may be done twice.
func Insist(ctx Context, name string, fn func(context.Context) error) error {
	_, err := untilDone(ctx, ctx.logger.With("step", name), func(c context.Context) (struct{}, error) { return struct{}{}, fn(c) })
	return err
}

// Sleep waits durably: a restart in between does not start the wait anew. It ends early,
// without an error, when wake is closed; a nil wake never is. To the engine that is the
// same step, so that it does not matter after a restart whether it was woken.
func Sleep(ctx Context, d time.Duration, wake <-chan struct{}) error {
	until, stop := dbos.WithCancel(ctx.dbos)
	defer stop()
	go func() {
		select {
		case <-wake:
			stop()
		case <-until.Done():
		}
	}()
	if _, err := dbos.Sleep(until, d); until.Err() == nil || ctx.Err() != nil {
		return err
	}
	return nil
}

// stepAgain spaces out the attempts at a step.
var stepAgain = retry.Backoff{Min: 100 * time.Millisecond, Max: 30 * time.Second}

// maxPanics is how often a step may panic before it is given up.
const maxPanics = 3

func untilDone[T any](ctx context.Context, logger *slog.Logger, fn func(context.Context) (T, error)) (T, error) {
	panics := 0
	for failures := 1; ; failures++ {
		v, err := callWithRecover(ctx, fn)
		if err == nil || ctx.Err() != nil {
			return v, err
		}
		if errors.As(err, new(*panicked)) {
			if panics++; panics == maxPanics {
				return v, err
			}
		}
		pause := stepAgain.Wait(failures)
		logger.Warn("step failed and is tried again", "event", "step_retry", "error", err, "pause", pause)
		if !retry.Sleep(ctx, pause) {
			return v, context.Cause(ctx)
		}
	}
}

// panicked is a panic as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("internal error: %v", p.value) }

// LogValue shows the stack in logs; people are shown the text alone.
func (p *panicked) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("%v\n%s", p.value, p.stack))
}

// callWithRecover calls fn and turns a panic into an error.
func callWithRecover[T any](ctx context.Context, fn func(context.Context) (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p, debug.Stack()}
		}
	}()
	return fn(ctx)
}

// quiet lets only the library's warnings and errors through, without the
// warnings that our fixed version and executor cause, and without complaints
// about being stopped.
type quiet struct {
	slog.Handler
	stopping *atomic.Bool
}

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "Current application version") || q.stopping.Load() {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(a []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(a), q.stopping}
}
func (q quiet) WithGroup(n string) slog.Handler { return quiet{q.Handler.WithGroup(n), q.stopping} }
