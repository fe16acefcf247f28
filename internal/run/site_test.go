package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// script is what the agent of a step does, by its attempt.
type script func(attempt int, spec backend.Spec) nightcrier.AgentResult

// site is a server that executes pipelines, with agents and actions that are scripted. All that
// outlives it is in its directory and, where it has an address, in PostgreSQL.
type site struct {
	dir, url string
	// point is told where something happens, and may end the process there.
	point func(what string)
	// agents are the steps' scripts; without one an agent says its step.
	agents map[string]script
	// says is what each agent's worker journals beside a message.
	says []nightcrier.JournalEntry
	// seats is how many agents work at once, 0 for any number.
	seats int
	// pause is that before a second attempt, 0 for hardly any.
	pause time.Duration
	// launched is called when a worker is there.
	launched func(spec backend.Spec) error
	// decides is what people decide, by nobody for not at all.
	decides func(nightcrier.Approval) nightcrier.Decision
	// admits says that runs get their leases back, which admission does.
	admits bool
	// collect is what the action of that name does beside being counted.
	collect func(w *Work) (Done, error)

	// skills and resolver take the place of skills that are always there; gone removes them.
	skills   Skills
	resolver pipeline.Resolver
	gone     func() error
	clusters *reach

	store  *store.Store
	root   *workspace.Root
	engine *engine.Engine
	runner *Runner
	mu     sync.Mutex
	wake   chan struct{}
	told   atomic.Int32

	stop      func()
	admitting sync.WaitGroup
	used      atomic.Pointer[nightcrier.Usage] // by the run that ended last
}

func (s *site) open(ctx context.Context) error {
	if s.point == nil {
		s.point = func(string) {}
	}
	s.wake = make(chan struct{}, 100)
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if s.root, err = workspace.OpenRoot(filepath.Join(s.dir, "root")); err != nil {
		return err
	}
	if s.store, err = store.Open(ctx, store.Options{URL: s.url, Path: filepath.Join(s.dir, store.FileName), Logger: quiet}); err != nil {
		return err
	}
	o := engine.Options{PostgresURL: s.url, Logger: quiet}
	if s.url == "" {
		o.SQLitePath = filepath.Join(s.dir, "engine.db")
	}
	if s.engine, err = engine.Open(ctx, o); err != nil {
		return err
	}
	if s.skills == nil {
		s.skills = s
	}
	s.runner = New(Config{
		Store: s.store, Root: s.root, Workers: s, Clusters: s.clusters, Skills: s.skills, Supervisor: s, Mask: mask.New(bytes.Repeat([]byte("k"), 32)), Logger: quiet, RetryPause: cmp.Or(s.pause, time.Millisecond), Agents: s.seats,
		Actions: map[string]Action{
			pipeline.ActionCollect: scripted{s, UnlessStopped, pipeline.ActionCollect}, pipeline.ActionCheck: scripted{s, Always, pipeline.ActionCheck}, pipeline.ActionNotify: scripted{s, AfterEnd, pipeline.ActionNotify},
		},
	})
	s.runner.Register(s.engine)
	if s.admits {
		admitting, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stop = stop
		s.admitting.Go(func() { s.admitReturning(admitting) })
	}
	return s.engine.Launch()
}

// admitReturning gives runs back the leases that they had while they waited for people.
func (s *site) admitReturning(ctx context.Context) {
	for ctx.Err() == nil {
		if run, err := s.store.AdmitNext(ctx, store.Limits{Total: 9, PerKey: 9}); err == nil && run != nil {
			continue
		}
		select {
		case <-s.store.QueueChanged():
		case <-ctx.Done():
		}
	}
}

func (s *site) close() error {
	if s.stop != nil {
		s.stop()
		s.admitting.Wait()
	}
	return errors.Join(s.engine.Stop(10*time.Second), s.store.Close(), s.root.Close())
}

// frozen is the pipeline that a file has.
func (s *site) frozen(file string) (pipeline.Frozen, error) {
	dir := filepath.Join(s.dir, "pipelines")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(file), 0o600)); err != nil {
		return pipeline.Frozen{}, err
	}
	all, problems := pipeline.Load(dir)
	if len(problems) > 0 {
		return pipeline.Frozen{}, fmt.Errorf("%v", problems)
	}
	return all.Freeze("p", s)
}

// ResolveSkill implements pipeline.Resolver.
func (s *site) ResolveSkill(name string) (pipeline.SkillPin, error) {
	if s.resolver != nil {
		return s.resolver.ResolveSkill(name)
	}
	return pipeline.SkillPin{Name: name, Digest: "sha256:0"}, nil
}

// admit queues a run of a pipeline and admits it.
func (s *site) admit(ctx context.Context, file string, input string) (Order, error) {
	p, err := s.frozen(file)
	if err != nil {
		return Order{}, err
	}
	var given json.RawMessage
	if input != "" {
		given = json.RawMessage(input)
	}
	queued, err := s.store.EnqueueRun(ctx, store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: "p", Executor: "claude-code", Input: given})
	if err != nil {
		return Order{}, err
	}
	if _, err := s.store.AdmitNext(ctx, store.Limits{Total: 9, PerKey: 9}); err != nil {
		return Order{}, err
	}
	return Order{RunID: queued.Run.ID, Subject: queued.Run.Subject, Pipeline: p, Input: given, Agent: agent.Spec{Executor: "claude-code", Shell: true, Timeout: time.Minute}}, nil
}

// await waits until a run has ended, and with it its workflow.
func (s *site) await(ctx context.Context, id string) (nightcrier.Run, error) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		run, err := s.store.Run(ctx, id)
		if err != nil || run.Status == nightcrier.Finished && !s.engine.Active(id) {
			return run, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return run, ctx.Err()
		}
	}
}

// awaitSteps waits until all steps of a run that has ended have ended too, as what tells of it.
func (s *site) awaitSteps(ctx context.Context, id string) error {
	changed, stop := s.store.WatchJournal(id)
	defer stop()
	for {
		rows, err := s.store.Steps(ctx, id)
		if err != nil || !slices.ContainsFunc(rows, func(r nightcrier.Step) bool { return !r.Ended() }) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// note counts what was done, where a crash cannot take it back.
func (s *site) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(s.dir, "done"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(what + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
	s.point(what)
}

// noted is what was done, in its order.
func (s *site) noted() []string {
	raw, err := os.ReadFile(filepath.Join(s.dir, "done"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		panic(err)
	}
	return strings.Fields(string(raw))
}

// scripted is an action.
type scripted struct {
	*site
	due  Due
	name string
}

func (a scripted) Due() Due { return a.due }

func (a scripted) Do(w *Work) (Done, error) {
	_, err := Checkpoint(w, "do", func(ctx context.Context, s *Session) (bool, error) {
		a.note(a.name)
		return true, s.AppendNote(ctx, a.name, NewLogItem("%s is done", a.name))
	})
	if err == nil && a.name == pipeline.ActionCollect && a.collect != nil {
		return a.collect(w)
	}
	return Done{Result: w.Result}, err
}

// PrepareSkill implements Skills.
func (s *site) PrepareSkill(_ context.Context, in *Session, t Task) error {
	if t.Step.Skill == "x/missing" {
		return nightcrier.Errorf(nightcrier.NotFound, "step %s: the skill %s is not there", t.Step.ID, t.Step.Skill)
	}
	return in.Workspace.WriteFile(SentFile, []byte("# "+t.Step.ID), 0o600)
}

func (s *site) workerDir(name string) string { return filepath.Join(s.dir, "workers", name) }

func (s *site) Launch(_ context.Context, spec backend.Spec, _ *backend.Credential, _ []byte) (backend.Handle, error) {
	h := backend.Handle{Backend: "script", ID: spec.WorkerName()}
	dir := s.workerDir(h.ID)
	if _, err := os.Stat(filepath.Join(dir, "spec")); err == nil {
		return h, nil
	}
	s.note(spec.Step + "#" + fmt.Sprint(spec.Attempt%workersOfRound))
	raw, err := json.Marshal(spec)
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "spec.new"), raw, 0o600), os.Rename(filepath.Join(dir, "spec.new"), filepath.Join(dir, "spec")))
	}
	if err == nil && s.launched != nil {
		err = s.launched(spec)
	}
	return h, err
}

func (s *site) spec(id string) (spec backend.Spec, err error) {
	raw, err := os.ReadFile(filepath.Join(s.workerDir(id), "spec"))
	if errors.Is(err, fs.ErrNotExist) {
		return spec, nightcrier.Errorf(nightcrier.NotFound, "no worker %s", id)
	}
	if err == nil {
		err = json.Unmarshal(raw, &spec)
	}
	return spec, err
}

func (s *site) Follow(_ context.Context, h backend.Handle, _ int64, fn func(nightcrier.JournalEntry) error) (backend.Ended, error) {
	spec, err := s.spec(h.ID)
	if err != nil {
		return backend.Ended{}, err
	}
	if fn == nil { // what it has learned is asked for
		return backend.Ended{}, nil
	}
	data, err := journal.OfMessage(journal.Message{Role: "assistant", Text: "I am " + spec.Step}).JSON()
	if err == nil {
		err = fn(nightcrier.JournalEntry{Type: nightcrier.EntryMessage, Data: data, Time: time.Now(), Key: fmt.Sprintf("worker#%d/1", spec.Attempt)})
	}
	for _, e := range s.says {
		if err == nil {
			err = fn(e)
		}
	}
	if err != nil {
		return backend.Ended{}, err
	}
	name := strings.TrimSuffix(spec.Step, "/repair")
	if name == repairStep { // of the first agent
		name = "a"
	}
	do := s.agents[name]
	if do == nil {
		do = func(int, backend.Spec) nightcrier.AgentResult { return well(spec.Step + " says so") }
	}
	return backend.Ended{Result: do(spec.Attempt%workersOfRound, spec)}, nil
}

// well is the result of an agent that ended well, with these last words.
func well(said string) nightcrier.AgentResult {
	now := time.Now()
	return nightcrier.AgentResult{State: nightcrier.StateSuccess, FinalMessage: said, SessionID: "s", StartedAt: now, EndedAt: now, Usage: nightcrier.Usage{CostUSD: 0.25, APIRequests: 1}}
}

func (s *site) Cancel(context.Context, backend.Handle, string) error { return nil }

func (s *site) List(context.Context) (all []backend.Owned, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "workers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		spec, err := s.spec(e.Name())
		if err == nil {
			all = append(all, backend.Owned{Handle: backend.Handle{Backend: "script", ID: e.Name()}, RunID: spec.RunID, Attempt: spec.Attempt})
		}
	}
	return all, err
}

func (s *site) Afford(Order, string, string) error { return nil }

func (s *site) Spent(o Order) (float64, error) {
	sum, err := spentOf(s.runner.cfg.BudgetDir, o.RunID)
	return sum.Spent.Money.Dollars(), err
}

// spentOf is what a run has spent on models, by the record.
func spentOf(dir, run string) (sum budget.Sum, err error) {
	if _, err := os.Stat(dir); err != nil {
		return sum, nil // nobody has spent anything
	}
	l, err := budget.Open(dir, time.Now)
	if err != nil {
		return sum, err
	}
	defer l.Close()
	return l.Account(budget.Who{Run: run}, budget.Limits{}).Used()
}

// leaving is an agent that leaves a file.
func leaving(name string) script {
	return func(_ int, spec backend.Spec) nightcrier.AgentResult {
		if err := os.WriteFile(filepath.Join(spec.Workspace, ".scratch", name), []byte("left"), 0o600); err != nil {
			panic(err)
		}
		return well("done")
	}
}

// spending is an agent that asks its model until that is refused, and ends well then. A call may
// cost ten cents, and costs seven.
func spending(then script) script {
	return func(attempt int, spec backend.Spec) nightcrier.AgentResult {
		l, err := budget.Open(spec.BudgetDir, time.Now)
		if err != nil {
			panic(err)
		}
		defer l.Close()
		for account := l.Account(spec.Spender(), spec.Budget); ; {
			g, err := account.Reserve(context.Background(), budget.Want{Output: 100, Least: 100, Price: price.Price{Output: price.Dollar / 1000}}, nil)
			if nightcrier.CodeOf(err) == nightcrier.Exhausted {
				return then(attempt, spec)
			}
			if err == nil {
				err = g.Settle(price.Tokens{Output: 70})
			}
			if err != nil {
				panic(err)
			}
		}
	}
}

// Ask implements Supervisor: where somebody is there, he decides.
func (s *site) Ask(ctx context.Context, a nightcrier.Approval) {
	if s.decides == nil {
		return
	}
	s.point("asked")
	d := s.decides(a)
	if d.By == "" {
		return
	}
	d.Digest = a.Digest
	_, err := s.store.DecideApproval(ctx, a.ID, d)
	s.point("decided")
	if err != nil && ctx.Err() == nil {
		panic(err)
	}
}

func (s *site) Tell(context.Context, Order) error {
	s.told.Add(1)
	s.point("told")
	return nil
}

func (s *site) Learn(context.Context, string, nightcrier.AgentResult) error { return nil }
func (s *site) Journaled(e nightcrier.JournalEntry)                         { s.point("entry " + e.Key) }

func (s *site) Ended(_ nightcrier.Run, _ nightcrier.Incident, res nightcrier.AgentResult, _ audit.Summary) {
	s.used.Store(&res.Usage)
}
