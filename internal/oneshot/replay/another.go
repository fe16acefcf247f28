package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/run"
)

// AnotherAgent is what another agent came to on what is recorded of a cluster.
type AnotherAgent struct {
	Executor string `json:"executor"`
	Model    string `json:"model,omitempty"`
	// Agrees says that it came to the same: a valid report of its own with the same
	// verdict, and the same object and cause at the root of it.
	Agrees bool `json:"agrees"`
	// Aspects are what matters of the two, then and now.
	Aspects []Aspect `json:"aspects"`
	// Derived is how many of its requests nobody had made like this: they were answered
	// from the objects that others had brought.
	Derived int `json:"derived"`
}

// Aspect is one thing that two investigations may differ in.
type Aspect struct {
	Name string `json:"name"`
	Then string `json:"then"`
	Now  string `json:"now"`
}

// prepareAnother prepares that another agent investigates. Its run is one of its own: what it
// spends is not what the recorded one spent.
func (r *replayer) prepareAnother() (err error) {
	if r.agent, err = r.o.Config.AgentFor(cmp.Or(r.o.Executor, r.begun.Order.Agent.Executor)); err != nil {
		return err
	}
	if r.skill, err = otherSkill(r.o); err != nil {
		return err
	}
	b := &r.begun
	b.Run.ID, b.Run.Executor = nightcrier.NewID(), r.agent.Executor
	b.Incident.RunID, b.Incident.Executor = b.Run.ID, r.agent.Executor
	if r.agent.Executor != config.Builtin {
		r.notServed(r.o.Config.ToolServersOf(b.Incident.Cluster))
	}
	return nil
}

// otherSkill finds the skill that is named, nil for none.
func otherSkill(o ReplayOptions) (*skill.Skill, error) {
	if o.Skill == "" {
		return nil, nil
	}
	if !strings.ContainsRune(o.Skill, filepath.Separator) {
		library, err := skill.Open(o.Config.Skills.Options())
		if err != nil {
			return nil, err
		}
		return library.Find(o.Skill)
	}
	dir, err := filepath.Abs(o.Skill)
	if err == nil {
		err = skill.CheckName(filepath.Base(dir))
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skill %s: %w", o.Skill, err)
	}
	s, err := skill.Load(filepath.Base(dir), os.DirFS(dir))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skill %s: %w", dir, err)
	}
	s.From = dir
	return s, nil
}

// stageAnew is what another agent finds: the facts as they were collected, but none of
// what was learned from the report of then.
func (r *replayer) stageAnew(cfg *config.Config, stage *app.Stage) {
	r.sayAloud()
	cfg.Agent, stage.Skill = r.agent, r.skill
	stage.Order = nil
	stage.Tapes = map[string]*replay.Player{
		replay.Prepare: r.tapes[replay.Prepare], replay.Check: replay.Blank(),
		replay.Test: r.tapes[replay.Prepare].Only(run.TapeNow), // its tests are of the same moment
	}
}

// budgetDir has the record of what is spent: another agent's real model is paid by the server.
func (r *replayer) budgetDir() string {
	if r.o.Another {
		return filepath.Join(r.o.Config.WorkspaceRoot, run.BudgetDir)
	}
	return ""
}

// sayAloud tells what is asked over the network.
func (r *replayer) sayAloud() {
	if r.o.Aloud == nil || r.agent.Executor == config.Builtin || !r.agent.APIKey.IsSet() && !r.agent.Keyless {
		return
	}
	at := cmp.Or(r.agent.BaseURL, "the API of "+string(r.agent.Provider))
	r.o.Aloud(fmt.Sprintf("The real model is used, at %s: the prompts are sent there, and their cost counts against the budgets. Nothing else uses the network.", at))
}

// answerFromObjects answers what nobody asked like this from the objects that were read.
func (r *replayer) answerFromObjects() func(*http.Request) (*http.Response, bool) {
	parts := r.rec.Parts(r.ownRequests(), r.tapes[replay.Prepare], r.tapes[replay.Test])
	var at time.Time
	if err := r.tapes[replay.Prepare].Peek(run.TapeNow, &at); err == nil {
		parts.CapturedAt = at
	}
	api := snapshot.Of(parts).Transport()
	return func(req *http.Request) (*http.Response, bool) {
		resp, err := api.RoundTrip(req)
		if err != nil {
			return nil, false
		}
		if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusMethodNotAllowed {
			return nil, resp.Body.Close() != nil // it does not know either
		}
		return resp, true
	}
}

// compareAnother puts the report of another agent beside the old one.
func (r *replayer) compareAnother(out ReplayResult) (ReplayResult, error) {
	then, err := reportIn(r.rec)
	if err != nil {
		return out, err
	}
	record, err := replay.Open(out.Workspace)
	if err != nil {
		return out, err
	}
	defer record.Close()
	now, err := reportIn(record)
	if err != nil {
		return out, err
	}
	var was nightcrier.Incident
	if raw, err := r.rec.File(replay.IncidentFile); err == nil {
		_ = json.Unmarshal(raw, &was) // how it ended is not known without
	}
	other := &AnotherAgent{Executor: r.agent.Executor, Model: r.agent.Model, Derived: r.cluster.Derived(), Aspects: []Aspect{
		{"agent", agentName(r.begun.Order.Agent.Executor, r.begun.Order.Agent.Model), agentName(r.agent.Executor, r.agent.Model)},
		{"skills", skillNames(was.Skills), skillNames(r.end.Skills)},
		{"ended", describeEnd(&was), describeEnd(&r.end)},
	}}
	other.Aspects = append(other.Aspects, compareAspects(&then, &now)...)
	other.Agrees = r.end.Status == nightcrier.Resolved && agreeOnRoot(&then, &now)
	missed, _ := r.rec.Answered(record)
	out.Another, out.NotRecorded = other, slices.Concat(r.tapes[replay.Prepare].Missed(), r.cluster.Missed(), missed)
	return out, nil
}

// skillNames are the skills of an agent, with what tells two of a name apart.
func skillNames(refs []nightcrier.SkillRef) string {
	var all []string
	for _, s := range refs {
		all = append(all, fmt.Sprintf("%s %.8s", s.Name, strings.TrimPrefix(s.Digest, "sha256:")))
	}
	return strings.Join(all, ", ")
}

func describeEnd(inc *nightcrier.Incident) string {
	if inc.FailureReason == "" {
		return string(inc.Status)
	}
	return string(inc.Status) + ": " + inc.FailureReason
}

func agentName(executor, model string) string {
	if model == "" || executor == config.Builtin {
		return executor
	}
	return executor + ", " + model
}

func reportIn(rec *replay.Record) (rep nightcrier.Report, err error) {
	raw, err := rec.File(replay.ReportFile)
	if err == nil && raw == nil {
		err = fmt.Errorf("%s is missing: there is nothing to compare", replay.ReportFile)
	}
	if err == nil {
		err = json.Unmarshal(raw, &rep)
	}
	if err != nil {
		return rep, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", rec.Dir(), err)
	}
	return rep, nil
}

// agreeOnRoot says whether two reports name the same root, or both none.
func agreeOnRoot(a, b *nightcrier.Report) bool {
	if !a.Valid || !b.Valid || a.Verdict != b.Verdict || (a.RootCause == nil) != (b.RootCause == nil) {
		return false
	}
	return a.RootCause == nil || a.RootCause.Cause == b.RootCause.Cause && a.RootCause.Object == b.RootCause.Object
}

// compareAspects compares what matters of two reports.
func compareAspects(then, now *nightcrier.Report) (list []Aspect) {
	add := func(name string, of func(*nightcrier.Report) string) {
		list = append(list, Aspect{name, of(then), of(now)})
	}
	add("report of", func(r *nightcrier.Report) string { return r.Source })
	add("problems", func(r *nightcrier.Report) string { return strings.Join(r.Problems, "; ") })
	add("verdict", func(r *nightcrier.Report) string { return string(r.Verdict) })
	root := func(show func(*nightcrier.RootCause) string) func(*nightcrier.Report) string {
		return func(r *nightcrier.Report) string {
			if r.RootCause == nil {
				return ""
			}
			return show(r.RootCause)
		}
	}
	add("root cause", root(func(c *nightcrier.RootCause) string { return c.Cause }))
	add("object", root(func(c *nightcrier.RootCause) string { return c.Object.String() }))
	add("confidence", root(func(c *nightcrier.RootCause) string { return string(c.Confidence) }))
	for i := range max(len(then.Hypotheses), len(now.Hypotheses)) {
		add(fmt.Sprintf("hypothesis %d", i+1), func(r *nightcrier.Report) string { return describeHypothesis(r.Hypotheses, i) })
	}
	add("facts", func(r *nightcrier.Report) string {
		return fmt.Sprintf("%d, %.0f %% of them checked", len(r.Facts), 100*r.CheckedShare)
	})
	add("actions", func(r *nightcrier.Report) string { return fmt.Sprint(len(r.Actions)) })
	add("cost", func(r *nightcrier.Report) string { return fmt.Sprintf("$%.4f", r.Usage.CostUSD) })
	add("tokens", func(r *nightcrier.Report) string {
		return fmt.Sprintf("%d in, %d out", r.Usage.InputTokens, r.Usage.OutputTokens)
	})
	add("time", func(r *nightcrier.Report) string {
		return (time.Duration(r.Usage.DurationMS) * time.Millisecond).Round(100 * time.Millisecond).String()
	})
	return list
}

func describeHypothesis(list []nightcrier.Hypothesis, i int) string {
	if i >= len(list) {
		return ""
	}
	h := list[i]
	said := cmp.Or(h.Cause, h.Statement)
	if h.Confidence != "" {
		said += ", " + string(h.Confidence)
	}
	if h.Falsification.Outcome != "" {
		said += ", " + h.Falsification.Outcome
	}
	return said
}
