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
func (s *session) runTriageScript(ctx context.Context) (section, lacking string, err error) {
	if s.order.Agent.TriageScript == "" || !s.order.Agent.Preload || s.order.Agent.Executor == Builtin {
		return "", "", nil
	}
	printed, res, err := s.awaitTriageScript(ctx)
	if err != nil {
		return "", "", err
	}
	ended := "the triage script ended well"
	if res.State != nightcrier.StateSuccess {
		lacking = "the triage script failed: " + res.FailureReason
		ended = lacking
		s.log.Warn("the triage script failed", "event", "triage_script", "path", s.order.Agent.TriageScript, "failure_class", res.FailureClass, "failure_reason", res.FailureReason)
	}
	return triageSection(s.order.Agent.TriageScript, printed, lacking), lacking, s.appendNote(ctx, "triage", newLogItem("%s; it printed %d bytes", ended, len(printed)))
}

// awaitTriageScript starts the script, unless an earlier try of this step did, and
// follows it to its end.
func (s *session) awaitTriageScript(ctx context.Context) (string, nightcrier.AgentResult, error) {
	cred, why := s.cfg.Clusters.Access(ctx, s.incident.Cluster, s.incident.Namespace())
	if cred == nil {
		return "", failedResult(nightcrier.FailStart, fmt.Errorf("it cannot look into the cluster%s", reasonSuffix(why))), nil
	}
	learned, err := s.mask.Seal()
	if err != nil {
		return "", nightcrier.AgentResult{}, err
	}
	h, err := s.cfg.Workers.Launch(ctx, s.triageSpec(), cred, learned)
	if err != nil {
		return "", failedResult(nightcrier.FailStart, err), ctx.Err()
	}
	forward, stop := context.WithCancel(ctx)
	defer stop()
	go s.forwardCancel(forward, h)

	var out strings.Builder
	ended, err := s.cfg.Workers.Follow(ctx, h, 0, func(e nightcrier.JournalEntry) error {
		if e.Type == nightcrier.EntryState {
			return nil // it is not the agent's
		}
		e.Run, e.Step, e.Attempt = s.order.RunID, triageStep, triageAttempt
		entries := []nightcrier.JournalEntry{e}
		if err := s.appendEntries(ctx, entries); err != nil {
			return err
		}
		collectOutput(&out, entries[0]) // masked
		return nil
	})
	s.learnFrom(s.mask, ended)
	if err == nil {
		err = s.ws.ClearScratch() // what it leaves there is no agent's
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

func (s *session) triageSpec() backend.Spec {
	w := s.workerSpec(try{attempt: triageAttempt, step: triageStep})
	w.Executor, w.ScriptPath, w.Command = triageExecutor, w.TriageScript, ""
	w.Timeout, w.Grace, w.MaxOutputBytes, w.NoModel = triageTime, triageGrace, 4*maxTriage, true
	w.CLI, w.SkillsDir, w.Shell, w.ToolServers = "", "", true, nil
	if dir := filepath.Dir(w.ScriptPath); filepath.Base(dir) == "scripts" {
		w.ReadPaths = append(slices.Clone(w.ReadPaths), filepath.Dir(dir)) // the skill that it is part of
	}
	return w
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
