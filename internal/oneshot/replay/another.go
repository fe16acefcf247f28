package replay

import (
	"cmp"
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
func otherSkill(o Options) (*skill.Skill, error) {
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

// stageAnew has another agent find the facts as they were collected, but nothing of what
// was learned from the report of then.
func (r *replayer) stageAnew(cfg *config.Config, o *app.Options) {
	r.sayAloud()
	cfg.Agent, o.BudgetDir = r.agent, filepath.Join(r.o.Config.WorkspaceRoot, run.BudgetDir)
	script := r.triageScript()
	o.Order = func(now run.Order) run.Order {
		now.Agent.TriageScript, now.Agent.ToolServers = script, r.servers
		return now
	}
	delete(r.tapes, replay.Test) // its tests ask what nobody asked then
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
	parts := r.rec.Parts()
	parts.CapturedAt = r.timeThen()
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

// onRoot leaves of the differences of two reports those of the verdict and what is at the root
// of it: in all else two agents differ.
func onRoot(all []replay.Difference) []replay.Difference {
	return slices.DeleteFunc(all, func(d replay.Difference) bool {
		return d.Where != "verdict" && d.Where != "root cause" && d.Where != "object"
	})
}

// compareAspects shows what matters of two investigations.
func (r *replayer) compareAspects(then, now *nightcrier.Report) []Aspect {
	var was nightcrier.Incident
	_ = readJSON(r.rec, replay.IncidentFile, &was) // how it ended is not known without
	asked := r.begun.Order
	if r.o.Another {
		asked.Agent.Executor, asked.Agent.Model = r.agent.Executor, r.agent.Model
	}
	return append([]Aspect{
		{"agent", agentName(r.begun.Order.Agent.Executor, r.begun.Order.Agent.Model), agentName(asked.Agent.Executor, asked.Agent.Model)},
		{"skills", skillNames(was.Skills), skillNames(r.end.Skills)},
		{"ended", describeEnd(&was), describeEnd(&r.end)},
	}, r.reportAspects(then, now)...)
}

// reportAspects shows what matters of two reports. What an investigation took is no matter of one
// that is made again: nothing is spent on that.
func (r *replayer) reportAspects(then, now *nightcrier.Report) (list []Aspect) {
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
	if !r.o.Another {
		return list
	}
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
