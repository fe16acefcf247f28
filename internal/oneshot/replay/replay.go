package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	oneshot "nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage"
)

// Options say which investigation is made again, and how.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// Workspace is the directory of the incident.
	Workspace string
	// Out keeps the new workspace; empty means a temporary directory.
	Out string
	// Force replays what can be read of a record that is not whole, or was changed.
	Force bool
	// Another has an agent as the Config says, with its real model, investigate the
	// recorded cluster. It spends, and counts against the budgets, like any run. Executor
	// is that agent; empty is the recorded one.
	Another  bool
	Executor string
	// Skill is one more skill for that agent, or takes the place of a recorded one of the
	// same name: the name of a skill that is configured, or a directory, which has a
	// separator in it.
	Skill string
	// Aloud, when set, is told what is asked over the network, before it is.
	Aloud func(string)
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
}

// Result is what came of a replay.
type Result struct {
	Incident string `json:"incident"`
	Cluster  string `json:"cluster"`
	Executor string `json:"executor"`
	// Recorded and Version say which program made the record, and which made it again.
	Recorded string `json:"recordedBy"`
	Version  string `json:"version"`
	// Same says that both come to the same and that the record was not changed. Where the
	// same agent was asked, both also asked the same; of another, its report has to be valid.
	Same bool `json:"same"`
	// Aspects are what matters of the two, then and now.
	Aspects []Aspect `json:"aspects"`
	// Differences tell what is not as it was: of what the reports find, and of the answers
	// that the guards gave.
	Differences []replay.Difference `json:"differences"`
	// NotRecorded are questions that were not asked then, NotAsked those that were not
	// asked now.
	NotRecorded []string `json:"notRecorded"`
	NotAsked    []string `json:"notAsked"`
	// NotServed is what the investigation had, or would have had, and a replay lacks: a
	// replay asks nobody else's servers, and their answers were not recorded.
	NotServed []string `json:"notServed"`
	// Another is set when another agent was asked: the rest is about what it asked.
	Another *AnotherAgent `json:"another,omitempty"`
	// Doubts say what is wrong with the record.
	Doubts []string `json:"doubts"`
	// Workspace is where the new files are, "" when they were not kept.
	Workspace string        `json:"workspace,omitempty"`
	Took      time.Duration `json:"-"`
}

// Replay makes an investigation again from what it recorded. It is a NotFound error
// when there is no workspace, and Invalid when the record is not whole: then it says
// what is missing.
func Replay(ctx context.Context, o Options) (out Result, err error) {
	began := time.Now()
	rec, err := replay.Open(o.Workspace)
	if err != nil {
		return out, err
	}
	defer rec.Close()
	r, err := o.readRecord(rec)
	if err != nil {
		return out, err
	}
	dir, cleanup, err := workspace.ChooseRoot(o.Out, "nightcrier-replay-")
	if err != nil {
		return out, err
	}
	if err := r.runReplay(ctx, dir); err != nil {
		cleanup()
		return out, err
	}
	out, err = r.compareRecords(dir)
	if o.Out == "" && !o.Another { // what was paid for is kept
		cleanup()
		out.Workspace = ""
	}
	out.Took = time.Since(began)
	return out, err
}

// replayer makes one investigation again.
type replayer struct {
	o     Options
	rec   *replay.Record
	begun triage.Begun
	// tapes are of our own steps, facts what these had found when the agent was asked.
	tapes map[string]*replay.Player
	facts nightcrier.Report
	// unserved is what becomes Result.NotServed.
	unserved []string
	// answers says that what others answered to its agent is on tape; servers are those
	// whose tools it had.
	answers bool
	servers []toolserver.Server
	// cluster and model answer an agent. Access is the way to that cluster, nil where it had
	// none, and why.
	cluster *replay.Cluster
	model   *replay.Model
	access  *backend.Credential
	why     string
	// agent is the other one that is asked, where one is, and skill what it gets besides.
	agent config.Agent
	skill *skill.Skill
	// end is how its incident ended.
	end nightcrier.Incident
	// doubted says that the record was changed, and is replayed all the same.
	doubted bool
}

// readRecord reads the record.
func (o Options) readRecord(rec *replay.Record) (r *replayer, err error) {
	r = &replayer{o: o, rec: rec, tapes: map[string]*replay.Player{}, doubted: len(rec.Doubts) > 0}
	raw, err := rec.File(triage.BegunFile)
	if err == nil && raw == nil {
		err = fmt.Errorf("%s is missing: it was recorded by an earlier version, or the run ended before its facts were collected", triage.BegunFile)
	}
	if err == nil {
		r.begun, err = triage.ReadBegun(raw)
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "incident %s cannot be replayed: %w", filepath.Base(o.Workspace), err)
	}
	if err := r.checkRecord(); err != nil {
		return nil, err
	}
	var lacking error
	for _, step := range []string{replay.Prepare, replay.Test} {
		tape, err := rec.Tape(step)
		if err != nil && step == replay.Prepare {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "incident %s cannot be replayed: %w", r.begun.Incident.ID, err)
		}
		if err != nil {
			lacking, tape = errors.Join(lacking, err), replay.Blank()
		}
		r.tapes[step] = tape
	}
	if r.answers, err = rec.HasAnswers(); err != nil {
		lacking = errors.Join(lacking, err)
	}
	if err := readJSON(rec, triage.DiagnosisFile, &r.facts); err != nil {
		lacking = errors.Join(lacking, err)
	}
	switch {
	case o.Force:
	case lacking != nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the record of incident %s is not whole: %w; --force replays what there is", r.begun.Incident.ID, lacking)
	case len(rec.Doubts) > 0:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the record of incident %s was changed: %s; --force replays it all the same", r.begun.Incident.ID, rec.Doubts[0])
	}
	if r.answers {
		r.servers = recordedServers(r.begun.Order.Agent.ToolServers)
	}
	if o.Another {
		return r, r.prepareAnother()
	}
	return r, r.boundOrder()
}

// Bounds of what a record names of servers, far above what is configured.
const (
	maxServers  = 50
	maxPatterns = 500
)

// recordedServers are the servers of a record, without any way to them.
func recordedServers(all []toolserver.Server) (servers []toolserver.Server) {
	for _, s := range all[:min(len(all), maxServers)] {
		s = s.Recorded()
		s.Tools, s.Only, s.Approval = atMostPatterns(s.Tools), atMostPatterns(s.Only), atMostPatterns(s.Approval)
		wrong := toolserver.CheckName(s.Name)
		for _, pattern := range s.Tools {
			wrong = errors.Join(wrong, toolserver.CheckPattern(pattern))
		}
		if wrong == nil && s.Timeout > 0 && !slices.ContainsFunc(servers, func(o toolserver.Server) bool { return o.Name == s.Name }) {
			servers = append(servers, s)
		}
	}
	return servers
}

func atMostPatterns(all []string) []string { return all[:min(len(all), maxPatterns)] }

// boundOrder takes out of the order of the record what is not to be done on its word: to
// run a program, to read a file or to show a directory of this machine, to ask others,
// to spend, and to be confined less than is configured. Whoever handed the record on
// may have written it.
func (r *replayer) boundOrder() error {
	a := &r.begun.Order.Agent
	here, err := r.o.Config.AgentFor(r.begun.Order.Agent.Executor)
	if err != nil && r.begun.Order.Agent.Executor == config.Script {
		return nightcrier.Errorf(nightcrier.Invalid, "the record's agent is a script, which is not run by the path that a record names: %w", err)
	}
	if err != nil { // its own name finds it
		here = config.Agent{Spec: agent.Spec{SystemPromptFile: r.o.Config.Agent.SystemPromptFile}}
	}
	a.Command, a.ScriptPath, a.CLI, a.SystemPromptFile = here.Command, here.ScriptPath, here.CLI, here.SystemPromptFile
	a.SkillsDir = r.o.Config.Skills.ShownDir()
	if a.TriageScript != "" && a.Preload && r.begun.Order.Agent.Executor != config.Builtin {
		if a.TriageScript = r.triageScript(); a.TriageScript == "" {
			r.unserved = append(r.unserved, "the output of the triage script: none is configured here")
		}
	} else {
		a.TriageScript = ""
	}
	a.Shell = a.Shell && r.o.Config.Agent.Shell
	a.Timeout = atMost(a.Timeout, r.o.Config.Agent.Timeout)
	a.Grace = atMost(a.Grace, r.o.Config.Agent.Grace)
	a.MaxWorkspaceBytes = atMost(a.MaxWorkspaceBytes, r.o.Config.Agent.MaxWorkspaceBytes)
	if r.begun.Order.Agent.Executor != config.Builtin {
		r.notServed(a.ToolServers)
	}
	a.ToolServers, a.Budget = r.servers, budget.Limits{Run: a.Budget.Run}
	a.UIDBase, a.ReadPaths = r.o.Config.Agent.UIDBase, r.o.Config.Agent.ReadPaths
	a.MaxOutputBytes, a.MaxMemoryBytes, a.MaxProcesses = here.MaxOutputBytes, here.MaxMemoryBytes, here.MaxProcesses
	strictness := agent.Strictness()
	if slices.Index(strictness, a.Require) < slices.Index(strictness, r.o.Config.Agent.Require) {
		a.Require = r.o.Config.Agent.Require
	}
	return nil
}

// atMost is n, where that is positive and below most.
func atMost[T cmp.Ordered](n, most T) T {
	var none T
	if n > none && n < most {
		return n
	}
	return most
}

// notServed notes what of others an agent is not given: the servers of tools, and the
// sources of metrics and logs.
func (r *replayer) notServed(servers []toolserver.Server) {
	for _, s := range servers {
		if !slices.ContainsFunc(r.servers, func(o toolserver.Server) bool { return o.Name == s.Name }) {
			r.unserved = append(r.unserved, "the tools of the MCP server "+s.Name)
		}
	}
	if r.answers {
		return
	}
	var had struct{ Metrics, Lines bool } // the diagnosis has what it was told then
	if err := r.tapes[replay.Prepare].Peek(replay.Sources, &had); err == nil && (had.Metrics || had.Lines) {
		r.unserved = append(r.unserved, "metrics and logs beside the cluster's, for the agent")
	}
}

// checkRecord refuses a record whose ids would become paths, or do not belong together.
func (r *replayer) checkRecord() error {
	b := &r.begun
	wrong := func(what string, err error) error {
		return nightcrier.Errorf(nightcrier.Invalid, "%s is damaged, or is no record of a run: %s: %w", filepath.Join(r.rec.Dir(), triage.BegunFile), what, err)
	}
	for what, id := range map[string]string{"incident": b.Incident.ID, "run": b.Run.ID} {
		if !nightcrier.ValidID(id) {
			return wrong(what, fmt.Errorf("%.100q is no id", id))
		}
	}
	if b.Order.RunID != b.Run.ID || b.Order.IncidentID() != b.Incident.ID {
		return wrong("order", errors.New("it is of another run"))
	}
	if err := b.Incident.Resource.Check(); err != nil && !b.Incident.Resource.IsZero() {
		return wrong("resource", err)
	}
	if who := b.Order.Agent.Executor; who != config.Builtin {
		if _, err := agent.For(who); err != nil {
			return wrong("executor", err)
		}
	}
	return nil
}

// runReplay makes the investigation again in dir.
func (r *replayer) runReplay(ctx context.Context, dir string) (err error) {
	if err := r.seedWorkspace(ctx, dir); err != nil {
		return err
	}
	cfg, o := r.replayConfig(dir), app.Options{
		Logger: r.o.Logger, Version: r.o.Version, WorkerCommand: r.o.WorkerCommand, RetryPause: oneshot.RetryPause,
		Triage: r.readRecorded, Order: r.recordedOrder,
	}
	o.Config = cfg
	if r.answers {
		if o.Record, err = filepath.Abs(r.rec.Dir()); err != nil {
			return nightcrier.Errorf(nightcrier.Internal, "%w", err)
		}
	}
	if r.o.Another {
		r.stageAnew(cfg, &o)
	}
	if r.o.Another || r.begun.Order.Agent.Executor != config.Builtin {
		done, err := r.setStage(dir, cfg)
		if err != nil {
			return err
		}
		defer done()
	}
	a, err := app.NewInvestigator(o)
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop(context.WithoutCancel(ctx))) }()
	if r.end, err = a.AwaitEnd(ctx, r.begun.Incident.ID, func(nightcrier.Incident) {}); err != nil {
		return err
	}
	return ctx.Err()
}

// replayConfig is that of the replay: a store of its own, nobody to tell or to ask, the one
// cluster.
func (r *replayer) replayConfig(dir string) *config.Config {
	cfg := *r.o.Config
	cfg.ToolServers, cfg.Runbooks.Dir, cfg.Runbooks.AllowedHosts = nil, "", nil
	cfg.WorkspaceRoot, cfg.DatabaseURL, cfg.Slack, cfg.Webhooks = dir, config.Secret{}, config.Slack{}, nil
	cfg.Clusters = []config.Cluster{{Name: r.begun.Incident.Cluster}}
	return &cfg
}

// seedWorkspace makes the store and the workspace what they were when the run began.
func (r *replayer) seedWorkspace(ctx context.Context, dir string) (err error) {
	root, err := workspace.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := r.maskKey(dir); err != nil {
		return err
	}
	ws, err := root.Create(r.begun.Incident.ID)
	if err != nil {
		return err
	}
	defer ws.Close()
	if err := r.rec.SeedEvidence(filepath.Join(ws.Dir(), "output", "evidence"), r.begun.Evidence); err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, store.FileName), Logger: r.o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return st.Adopt(ctx, r.begun.Incident, r.begun.Event, r.begun.Run)
}

// maskKey takes over the key by which secrets were masked, where it can be read, so
// that the same secret has the same tag.
func (r *replayer) maskKey(dir string) error {
	key := workspace.ReadMaskKey(filepath.Dir(r.rec.Dir()))
	if key == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, workspace.MaskKeyFile), key, 0o600); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "%w", err)
	}
	return nil
}

// workspaceDir is where the new files are.
func (r *replayer) workspaceDir(dir string) string {
	return filepath.Join(dir, "incident-"+r.begun.Incident.ID)
}

// compareRecords holds what was found and asked against what was then.
func (r *replayer) compareRecords(dir string) (Result, error) {
	out := Result{
		Incident: r.begun.Incident.ID, Cluster: r.begun.Incident.Cluster, Executor: r.begun.Order.Agent.Executor,
		Recorded: r.tapes[replay.Prepare].Version(), Version: r.o.Version, Doubts: append([]string{}, r.rec.Doubts...),
		NotServed: append([]string{}, r.unserved...), Workspace: r.workspaceDir(dir),
	}
	record, err := replay.Open(out.Workspace)
	if err != nil {
		return out, err
	}
	defer record.Close()
	var then, now nightcrier.Report
	if err := errors.Join(readJSON(r.rec, replay.ReportFile, &then), readJSON(record, replay.ReportFile, &now)); err != nil {
		return out, nightcrier.Errorf(nightcrier.Invalid, "there is nothing to compare: %w", err)
	}
	out.Aspects = r.compareAspects(&then, &now)
	added, dropped, otherwise := replay.Questions(r.rec, record)
	if r.o.Another {
		out.Another = &AnotherAgent{Executor: r.agent.Executor, Model: r.agent.Model, Derived: r.cluster.Derived()}
		out.Differences, out.NotRecorded, out.NotAsked = onRoot(replay.Findings(&then, &now)), append(record.Unanswered(), r.cluster.Missed()...), []string{}
		out.Same = r.end.Status == nightcrier.Resolved && now.Valid && then.Valid && len(out.Differences) == 0
		return out, nil
	}
	out.Differences = append(replay.Findings(&then, &now), otherwise...)
	out.Same = len(out.Differences)+len(added)+len(dropped) == 0 && !r.doubted
	if r.model != nil {
		missed, left := r.model.Missed()
		added, dropped = append(added, missed...), append(dropped, left...) // a CLI's calls on the side may be more or fewer
		if d := r.model.Differs(); d != nil {
			out.Differences, out.Same = append(out.Differences, *d), false
		}
	}
	out.NotRecorded, out.NotAsked = added, dropped
	return out, nil
}
