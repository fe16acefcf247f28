package triage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/run"
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
	if !s.hasTriageScript() {
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
		s.Log.Warn("the triage script failed", "event", "triage_script", "path", s.Order.Agent.TriageScript, "failure_class", res.FailureClass, "failure_reason", res.FailureReason)
	}
	return triageSection(s.Order.Agent.TriageScript, printed, lacking), lacking, s.AppendNote(ctx, "triage", run.NewLogItem("%s; it printed %d bytes", ended, len(printed)))
}

func (s *session) hasTriageScript() bool {
	return s.Order.Agent.TriageScript != "" && s.Order.Agent.Preload && s.Order.Agent.Executor != run.Builtin
}

// awaitEarlierScript waits until the script has ended that an earlier try of this step started,
// before its server died: what it reads goes where this try puts what it reads.
func (s *session) awaitEarlierScript(ctx context.Context) error {
	if !s.hasTriageScript() {
		return nil
	}
	all, err := s.workers.List(ctx)
	for _, w := range all {
		if w.RunID != s.Order.RunID || w.Attempt != triageAttempt {
			continue
		}
		_, one := s.workers.Follow(ctx, w.Handle, 0, nil)
		if nightcrier.CodeOf(one) != nightcrier.NotFound { // it was never started
			err = errors.Join(err, one)
		}
	}
	return err
}

// awaitTriageScript starts the script, unless an earlier try of this step did, and
// follows it to its end.
func (s *session) awaitTriageScript(ctx context.Context) (string, nightcrier.AgentResult, error) {
	cred, why := s.Clusters.Access(ctx, s.Incident.Cluster, s.Incident.Namespace())
	if cred == nil {
		return "", run.FailedResult(nightcrier.FailStart, fmt.Errorf("it cannot look into the cluster%s", run.ReasonSuffix(why))), nil
	}
	var out strings.Builder
	res, err := s.RunBeside(ctx, triageStep, triageAttempt, cred, becomeScript, func(e nightcrier.JournalEntry) { collectOutput(&out, e) })
	return out.String(), res, err
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

// becomeScript makes the spec of an agent that of the script.
func becomeScript(w *backend.Spec) {
	w.Executor, w.ScriptPath, w.Command = triageExecutor, w.TriageScript, ""
	w.Timeout, w.Grace, w.MaxOutputBytes, w.NoModel = triageTime, triageGrace, 4*maxTriage, true
	w.CLI, w.SkillsDir, w.Shell, w.ToolServers = "", "", true, nil
	if dir := filepath.Dir(w.ScriptPath); filepath.Base(dir) == "scripts" {
		w.ReadPaths = append(slices.Clone(w.ReadPaths), filepath.Dir(dir)) // the skill that it is part of
	}
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
