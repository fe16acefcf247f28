package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// What is read of the older platform: the file with its executions, how large that may be, and how
// many of the newest are taken over.
const (
	pastFile     = "episodic_memory.json"
	maxPastBytes = 64 << 20
	maxPast      = 10_000
	// maxPastCost is more, in dollars, than an execution can have cost.
	maxPastCost = 100_000
)

// pastExecution is an execution as the older platform kept it.
type pastExecution struct {
	ID          string          `json:"execution_id"`
	Skill       string          `json:"skill"`
	Timestamp   string          `json:"timestamp"`
	Input       json.RawMessage `json:"input_summary"`
	Output      json.RawMessage `json:"output_summary"`
	Outcome     string          `json:"outcome"`
	CostUSD     float64         `json:"cost_usd"`
	LatencyMS   float64         `json:"latency_ms"`
	Model       string          `json:"model_used"`
	TriggeredBy string          `json:"triggered_by"`
}

// importPast takes over the executions of the older platform that the retention covers. Each has
// an id that follows from its own, so it is taken over once. What cannot be read keeps no server
// from starting, and is said.
func (a *Investigator) importPast(ctx context.Context) error {
	if a.cfg.HistoryDir == "" {
		return nil
	}
	log := a.log.With("component", "history", "file", filepath.Join(a.cfg.HistoryDir, pastFile))
	entries, err := readPast(filepath.Join(a.cfg.HistoryDir, pastFile))
	if err != nil {
		log.Warn("the executions of the older platform cannot be taken over", "event", "history_unreadable", "error", err)
		return nil
	}
	var all []store.PastRun
	old, wrong := 0, 0
	for _, raw := range entries[max(0, len(entries)-maxPast):] {
		p, err := a.newPastRun(raw)
		switch {
		case err != nil:
			wrong++
			log.Debug("an execution of the older platform is left out", "event", "history_entry", "error", err)
		case a.cfg.Retention > 0 && a.opt.Now().Sub(p.Run.EndedAt) > a.cfg.Retention:
			old++
		default:
			all = append(all, p)
		}
	}
	imported, err := a.store.ImportRuns(ctx, all)
	log.Info("executions of the older platform", "event", "history_imported", "imported", imported, "known", len(all)-imported, "older_than_retention", old, "not_understood", wrong, "too_many", max(0, len(entries)-maxPast))
	return err
}

// readPast reads the entries of the file, each still as it stands there.
func readPast(name string) ([]json.RawMessage, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "there is no such file: name the directory that holds it in history_dir, or unset that")
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPastBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxPastBytes:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "it has more than %d bytes", maxPastBytes)
	}
	var file struct {
		Entries []json.RawMessage `json:"entries"`
	}
	return file.Entries, json.Unmarshal(data, &file)
}

// newPastRun is a run of one step, as which an execution is kept; what it says is masked.
func (a *Investigator) newPastRun(raw json.RawMessage) (p store.PastRun, err error) {
	var e pastExecution
	if err := json.Unmarshal([]byte(a.masker.String(string(raw))), &e); err != nil {
		return p, err
	}
	at, err := time.Parse(time.RFC3339, e.Timestamp)
	if err != nil { // of a time without a zone
		at, err = time.Parse("2006-01-02T15:04:05", e.Timestamp)
	}
	if err != nil || e.ID == "" || e.Skill == "" || e.LatencyMS < 0 || e.LatencyMS > float64(30*24*time.Hour/time.Millisecond) {
		return p, nightcrier.Errorf(nightcrier.Invalid, "an execution needs execution_id, skill, timestamp and latency_ms")
	}
	if e.CostUSD < 0 || e.CostUSD > maxPastCost || at.After(a.opt.Now().Add(24*time.Hour)) {
		return p, nightcrier.Errorf(nightcrier.Invalid, "an execution of the future, or with a cost_usd that is none")
	}
	clean := func(s string) string { return texts.CutLine(s, 256) }
	id := nightcrier.DerivedID("execution of the older platform", e.ID)
	state := nightcrier.StateSuccess
	if e.Outcome == "error" || strings.HasSuffix(e.Outcome, "failed") || e.Outcome == "rejected" {
		state = nightcrier.StateFailed
	}
	p.Run = nightcrier.Run{
		ID: id, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: clean(e.ID), Title: clean(e.ID)}, Pipeline: clean(e.Skill), Key: id, Executor: clean(e.Model), Severity: nightcrier.Warning,
		Outcome: state, CostUSD: e.CostUSD, QueuedAt: at, EndedAt: at.Add(time.Duration(e.LatencyMS * float64(time.Millisecond))), TriggeredBy: clean(e.TriggeredBy),
	}
	if len(e.Input) <= store.MaxRunInput {
		p.Input = e.Input
	}
	step := nightcrier.Step{RunID: id, ID: "execution", Attempt: 1, Uses: p.Run.Pipeline, State: state, StartedAt: at, EndedAt: p.Run.EndedAt, Usage: nightcrier.Usage{CostUSD: e.CostUSD}}
	if len(e.Output) <= store.MaxStepOutput {
		step.Output = e.Output
	}
	if state == nightcrier.StateFailed {
		p.Run.FailureReason = "the older platform kept it as " + texts.CutLine(e.Outcome, 64)
		step.FailureReason = p.Run.FailureReason
	}
	p.Steps = []nightcrier.Step{step}
	return p, nil
}
