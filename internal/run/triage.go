package run

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of the operator's own triage script.
const (
	triageTime  = 30 * time.Second
	triageGrace = 2 * time.Second
	// maxTriage is how much of what it prints is kept, in bytes.
	maxTriage = 128 << 10
)

// The script is the worker before the first attempt of the agent.
const (
	triageAttempt  = 0
	triageStep     = "triage"
	triageExecutor = "triage-script"
)

// runTriageScript runs the operator's triage script, where one is configured, as
// an agent is run: in the sandbox, without a credential, behind the guard. It
// returns what is added to our own triage report, and what is lacking. An error is
// that the run cannot go on; that the script fails is none.
func (r *Runner) runTriageScript(ctx context.Context, o Order, inc nightcrier.Incident, ws *workspace.Workspace) (section, lacking string, err error) {
	if o.Agent.TriageScript == "" || !o.Agent.Preload || o.Agent.Executor == Builtin {
		return "", "", nil
	}
	printed, res, err := r.awaitTriageScript(ctx, o, inc, ws)
	if err != nil {
		return "", "", err
	}
	ended := "the triage script ended well"
	if res.State != nightcrier.StateSuccess {
		lacking = "the triage script failed: " + res.FailureReason
		ended = lacking
		r.loggerFor(inc).Warn("the triage script failed", "event", "triage_script", "path", o.Agent.TriageScript, "failure_class", res.FailureClass, "failure_reason", res.FailureReason)
	}
	return triageSection(o.Agent.TriageScript, printed, lacking), lacking, r.appendNote(ctx, o.RunID, "triage", newLogItem("%s; it printed %d bytes", ended, len(printed)))
}

// awaitTriageScript starts the script, unless an earlier try of this step did, and
// follows it to its end.
func (r *Runner) awaitTriageScript(ctx context.Context, o Order, inc nightcrier.Incident, ws *workspace.Workspace) (string, nightcrier.AgentResult, error) {
	cred, why := r.cfg.Clusters.Access(ctx, inc.Cluster, inc.Namespace())
	if cred == nil {
		return "", failedResult(nightcrier.FailStart, fmt.Errorf("it cannot look into the cluster%s", reasonSuffix(why))), nil
	}
	learned, err := r.maskerFor(o.RunID).Seal()
	if err != nil {
		return "", nightcrier.AgentResult{}, err
	}
	h, err := r.cfg.Workers.Launch(ctx, triageSpec(o, inc, ws), cred, learned)
	if err != nil {
		return "", failedResult(nightcrier.FailStart, err), ctx.Err()
	}
	forward, stop := context.WithCancel(ctx)
	defer stop()
	go r.forwardCancel(forward, o, h)

	var out strings.Builder
	ended, err := r.cfg.Workers.Follow(ctx, h, 0, func(e nightcrier.JournalEntry) error {
		if e.Type == nightcrier.EntryState {
			return nil // it is not the agent's
		}
		e.Run, e.Step, e.Attempt = o.RunID, triageStep, triageAttempt
		entries := []nightcrier.JournalEntry{e}
		if err := r.appendEntries(ctx, o.RunID, entries); err != nil {
			return err
		}
		collectOutput(&out, entries[0]) // masked
		return nil
	})
	r.learnFrom(r.maskerFor(o.RunID), ended.Learned)
	if err == nil {
		err = ws.ClearScratch() // what it leaves there is no agent's
	}
	return out.String(), ended.Result, err
}

// collectOutput adds what an entry says that the script has printed.
func collectOutput(out *strings.Builder, e nightcrier.JournalEntry) {
	if e.Type != nightcrier.EntryLog {
		return
	}
	if l, err := journal.Decode[journal.Log](e); err == nil && l.Stream == "stdout" {
		if said := text.KeepBytes(l.Text, maxTriage-out.Len()); said != "" {
			out.WriteString(said + "\n")
		}
	}
}

func triageSpec(o Order, inc nightcrier.Incident, ws *workspace.Workspace) backend.Spec {
	s := workerSpec(o, inc, ws, try{attempt: triageAttempt, step: triageStep})
	s.Executor, s.ScriptPath, s.Command = triageExecutor, o.Agent.TriageScript, ""
	s.Timeout, s.Grace, s.MaxOutputBytes, s.NoModel = triageTime, triageGrace, 4*maxTriage, true
	s.CLI, s.SkillsDir, s.Shell, s.ToolServers = "", "", true, nil
	if dir := filepath.Dir(s.ScriptPath); filepath.Base(dir) == "scripts" {
		s.ReadPaths = append(slices.Clone(s.ReadPaths), filepath.Dir(dir)) // the skill that it is part of
	}
	return s
}

// triageSection shows what the script printed, as it stands and as what it is.
func triageSection(path, printed, lacking string) string {
	if strings.TrimSpace(printed) == "" {
		return ""
	}
	said := "printed this; nobody has checked it"
	if lacking != "" {
		said = "printed this before it failed; nobody has checked it"
	}
	fence := "```"
	for strings.Contains(printed, fence) {
		fence += "`"
	}
	return fmt.Sprintf("\n### Output of the triage script\n\n_`%s` %s._\n\n%stext\n%s\n%s\n", filepath.Base(path), said, fence, strings.TrimRight(printed, "\n"), fence)
}
