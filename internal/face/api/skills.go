package api

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// NoDomain stands for the domain of a skill that has none.
const NoDomain = "default"

// Skills tell of skills and their domains.
type Skills interface {
	ListSkills() []SkillInfo
	// FindSkill is NotFound where there is none.
	FindSkill(domain, name string) (SkillDetail, error)
	ListDomains() []DomainInfo
	FindDomain(name string) (DomainDetail, error)
	// CheckCall says why a call could not be started now, nil when it could.
	CheckCall(ctx context.Context, c Call) error
}

// SkillInfo is a skill in short, in the words of the older platform.
type SkillInfo struct {
	Domain               string    `json:"domain"`
	Name                 string    `json:"name"`
	Role                 string    `json:"role"`
	Executor             string    `json:"executor,omitempty"`
	Model                string    `json:"model"`
	Trigger              string    `json:"trigger"`
	Description          string    `json:"description"`
	CostBudget           string    `json:"cost_budget"`
	Timeout              string    `json:"timeout"`
	MCPTools             []string  `json:"mcp_tools" doc:"What it wants, as server/tool"`
	DomainDescription    string    `json:"domain_description"`
	DomainOwner          string    `json:"domain_owner"`
	GuardrailsCount      int       `json:"guardrails_count"`
	CorrectionsCount     int       `json:"corrections_count" doc:"0: nothing is corrected yet"`
	DeployStatus         string    `json:"deploy_status"`
	Health               string    `json:"health" doc:"healthy from 0.8 of accept_rate on, degraded from 0.5 on, failing below and where it cannot be read, unknown before the first of its runs has ended"`
	ExecutionsTotal      int       `json:"executions_total" doc:"How many runs there are of the skill alone"`
	AcceptRate           float64   `json:"accept_rate" doc:"The share of those that have ended that succeeded"`
	LastDeployed         time.Time `json:"last_deployed,omitzero" doc:"When one of its files was last written; absent for what is part of nightcrier"`
	Version              string    `json:"version"`
	Digest               string    `json:"digest,omitempty"`
	DisplayTitle         string    `json:"display_title"`
	DisplaySubtitle      string    `json:"display_subtitle"`
	DisplayAvatar        string    `json:"display_avatar"`
	DisplayColor         string    `json:"display_color"`
	DisplayTags          []string  `json:"display_tags"`
	ConversationStarters []string  `json:"conversation_starters"`
	Lacks                string    `json:"lacks,omitempty" doc:"Why it cannot be executed"`
}

// SkillDetail is all that is known of one.
type SkillDetail struct {
	SkillInfo
	TaskDescription string              `json:"task_description"`
	InputSchema     string              `json:"input_schema"`
	InputRequired   bool                `json:"input_required" doc:"It has a section Input: without an input it is not executed"`
	PromptLength    int                 `json:"prompt_length" doc:"How many bytes an agent is told of it, with what stands above it"`
	OutputSchema    string              `json:"output_schema"`
	SkillBody       string              `json:"skill_body"`
	SkillGuardrails []string            `json:"skill_guardrails"`
	Triggers        []map[string]string `json:"triggers"`
	FeedbackEnabled bool                `json:"feedback_enabled"`
	Phases          []SkillPhase        `json:"phases"`
	Findings        []string            `json:"findings" doc:"What of it is not used as it stands there, by file and line"`
}

// SkillPhase is a part of an agent's work, with the gate that ends it.
type SkillPhase struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Gate   string `json:"gate,omitempty"`
}

// DomainInfo is a domain in short.
type DomainInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Owner       string `json:"owner"`
	SkillsCount int    `json:"skills_count"`
}

// DomainDetail is a domain with its skills.
type DomainDetail struct {
	DomainInfo
	Identity   string      `json:"identity" doc:"Its DOMAIN.md"`
	Skills     []SkillInfo `json:"skills"`
	Topology   []Edge      `json:"topology"`
	Guardrails []string    `json:"guardrails"`
}

// Edge is where a skill would hand something to.
type Edge struct {
	FromSkill      string `json:"from_skill"`
	ToSkill        string `json:"to_skill"`
	RouteCondition string `json:"route_condition"`
}

// SkillResult is what a run of one skill came to.
type SkillResult struct {
	SkillName   string          `json:"skill_name"`
	Success     bool            `json:"success"`
	Output      json.RawMessage `json:"output,omitempty"`
	ModelUsed   string          `json:"model_used" doc:"The model that the skill asks for"`
	CostUSD     float64         `json:"cost_usd"`
	LatencyMS   float64         `json:"latency_ms"`
	ExecutionID string          `json:"execution_id" doc:"The id of the run; empty after a dry run"`
	Error       string          `json:"error,omitempty"`
}

// SkillPath names a skill.
type SkillPath struct {
	Domain string `path:"domain" maxLength:"64" doc:"The domain; default for none"`
	Skill  string `path:"skill" maxLength:"64" doc:"The skill's name"`
}

// SkillCall is a call of one skill.
type SkillCall struct {
	SkillPath
	CallOnce
	Body CallBody
}

// call is what it asks for.
func (c *SkillCall) call() Call {
	if c.Domain == NoDomain {
		return Call{Skill: c.Skill, Key: c.Key}
	}
	return Call{Skill: c.Domain + "/" + c.Skill, Key: c.Key}
}

// streamedSkill is one whose run is seen.
type streamedSkill struct {
	SkillCall
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that was received. Nothing is started then: the stream of that run goes on"`
}

func (a *API) skillRoutes(h huma.API) {
	huma.Register(h, newOperation("list-skills", http.MethodGet, "/skills", "Skills, by domain and name"), a.listSkills)
	huma.Register(h, newOperation("get-skill", http.MethodGet, "/skills/{domain}/{skill}", "One skill"), a.getSkill)
	huma.Register(h, callOperation(acceptedOperation("start-skill", "/skills/{domain}/{skill}/runs", "Start a run of one skill, without waiting for it")), a.startSkill)
	execute := callOperation(newOperation("execute-skill", http.MethodPost, "/skills/{domain}/{skill}/execute", "Run one skill to its end"))
	execute.Responses["200"] = &huma.Response{Description: "What it came to, well or not",
		Content: map[string]*huma.MediaType{"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[SkillResult](), true, "SkillResult")}}}
	huma.Register(h, execute, a.executeSkill)
	stream := callOperation(streamOperation("execute-skill-stream", "/skills/{domain}/{skill}/execute-stream", "Run one skill, and see it run"))
	stream.Method, stream.Responses["200"].Description = http.MethodPost, "A stream of events of the run"
	huma.Register(h, stream, a.executeSkillStream)
	huma.Register(h, newOperation("list-domains", http.MethodGet, "/domains", "Domains of skills, by name"), a.listDomains)
	huma.Register(h, newOperation("get-domain", http.MethodGet, "/domains/{domain}", "One domain, with its skills"), a.getDomain)
}

func errNoSkills() error {
	return newProblem(nightcrier.NotFound, "no server runs here, and only a server knows skills; `nightcrier skills list` shows them")
}

func (a *API) listSkills(ctx context.Context, _ *struct{}) (*listOf[SkillInfo], error) {
	if a.opt.Skills == nil {
		return &listOf[SkillInfo]{[]SkillInfo{}}, nil
	}
	all := notNil(a.opt.Skills.ListSkills())
	return &listOf[SkillInfo]{all}, a.countRuns(ctx, all)
}

// From which accept rate on a skill is healthy, or at least degraded.
const (
	healthyRate  = 0.8
	degradedRate = 0.5
)

// countRuns adds to skills how their runs went; its error is an answer.
func (a *API) countRuns(ctx context.Context, all []SkillInfo) error {
	sums, err := a.opt.Runs.RunSums(ctx)
	if err != nil {
		return a.problemFor(ctx, err)
	}
	for i := range all {
		s := &all[i]
		ended, succeeded := 0, 0
		for _, sum := range sums {
			if of := shownSkill(sum.Pipeline); of == s.Domain+"/"+s.Name {
				s.ExecutionsTotal += sum.Runs
				ended, succeeded = ended+sum.Ended, succeeded+sum.Succeeded
			}
		}
		if ended == 0 {
			continue
		}
		switch s.AcceptRate = float64(succeeded) / float64(ended); {
		case s.AcceptRate >= healthyRate:
			s.Health = "healthy"
		case s.AcceptRate >= degradedRate:
			s.Health = "degraded"
		default:
			s.Health = "failing"
		}
	}
	return nil
}

// shownSkill is the skill that a run of that pipeline executes, as domain/name; or else the pipeline.
func shownSkill(pipeline string) string {
	of, ok := strings.CutPrefix(pipeline, nightcrier.SkillPrefix)
	if ok && !strings.Contains(of, "/") {
		of = NoDomain + "/" + of
	}
	return of
}

func (a *API) getSkill(ctx context.Context, in *SkillPath) (*body[SkillDetail], error) {
	if a.opt.Skills == nil {
		return nil, errNoSkills()
	}
	d, err := a.opt.Skills.FindSkill(in.Domain, in.Skill)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	one := []SkillInfo{d.SkillInfo}
	err = a.countRuns(ctx, one)
	d.SkillInfo = one[0]
	return &body[SkillDetail]{d}, err
}

func (a *API) listDomains(context.Context, *struct{}) (*listOf[DomainInfo], error) {
	if a.opt.Skills == nil {
		return &listOf[DomainInfo]{[]DomainInfo{}}, nil
	}
	return &listOf[DomainInfo]{notNil(a.opt.Skills.ListDomains())}, nil
}

func (a *API) getDomain(ctx context.Context, in *struct {
	Domain string `path:"domain" maxLength:"64" doc:"The domain; default for none"`
}) (*body[DomainDetail], error) {
	if a.opt.Skills == nil {
		return nil, errNoSkills()
	}
	d, err := a.opt.Skills.FindDomain(in.Domain)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[DomainDetail]{d}, a.countRuns(ctx, d.Skills)
}

func (a *API) startSkill(ctx context.Context, in *SkillCall) (*body[nightcrier.Run], error) {
	if in.Body.DryRun {
		return nil, newUnprocessable("dry_run is answered by execute: here it would have to be a run")
	}
	run, err := a.callSkill(ctx, in)
	if err != nil {
		return nil, err
	}
	return &body[nightcrier.Run]{run}, nil
}

// callSkill starts a run of a skill; its error is an answer. One that says what its input is gets one.
func (a *API) callSkill(ctx context.Context, in *SkillCall) (run nightcrier.Run, err error) {
	if err := a.checkInput(ctx, in); err != nil {
		return run, err
	}
	return a.startCall(ctx, in.call(), in.Body)
}

func (a *API) checkInput(ctx context.Context, in *SkillCall) error {
	if a.opt.Skills == nil {
		return nil // startCall says it
	}
	d, err := a.opt.Skills.FindSkill(in.Domain, in.Skill)
	if err != nil {
		return a.problemFor(ctx, err)
	}
	given := map[string]json.RawMessage{}
	if d.InputRequired && (len(in.Body.InputData) == 0 || json.Unmarshal(in.Body.InputData, &given) == nil && len(given) == 0) {
		return newUnprocessable("input_data is empty, and the skill " + in.call().Skill + " says in its section Input what it needs: send that")
	}
	return nil
}

// executeSkill answers when the run has ended. Who does not wait for that cancels nothing.
func (a *API) executeSkill(ctx context.Context, in *SkillCall) (*huma.StreamResponse, error) {
	if in.Body.DryRun {
		return a.answerDryRun(ctx, in)
	}
	run, err := a.callSkill(ctx, in)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		a.answerExecution(r, w, run.ID, func(e *Execution) any { return a.newSkillResult(in, e) })
	}}, nil
}

// executeSkillStream sends what the agent of a skill does, and what it came to.
func (a *API) executeSkillStream(ctx context.Context, in *streamedSkill) (*huma.StreamResponse, error) {
	if in.Body.DryRun {
		return a.answerDryRun(ctx, &in.SkillCall)
	}
	if in.LastEventID == "" {
		if err := a.checkInput(ctx, &in.SkillCall); err != nil {
			return nil, err
		}
	}
	run, seen, err := a.streamedRun(ctx, in.LastEventID, in.call(), in.Body)
	if err != nil {
		return nil, err
	}
	return a.streamEvents(run.ID, seen, func(q *sequence, event string, data any) (string, any) {
		switch event {
		case iteration:
			return event, data
		case pipelineDone:
			return "result", a.newSkillResult(&in.SkillCall, q.over)
		}
		return "", nil
	}), nil
}

// newSkillResult is what a run of one skill came to.
func (a *API) newSkillResult(in *SkillCall, e *Execution) SkillResult {
	res := SkillResult{SkillName: in.Skill, Success: e.Success, ModelUsed: in.Body.ModelOverride, CostUSD: e.TotalCostUSD, LatencyMS: e.TotalLatencyMS, ExecutionID: e.SessionID, Error: e.Error}
	for _, step := range e.Steps {
		res.Output = step.Output
	}
	if a.opt.Skills != nil && res.ModelUsed == "" {
		if d, err := a.opt.Skills.FindSkill(in.Domain, in.Skill); err == nil {
			res.ModelUsed = d.Model
		}
	}
	return res
}

// answerDryRun says what would be executed, or why nothing could be.
func (a *API) answerDryRun(ctx context.Context, in *SkillCall) (*huma.StreamResponse, error) {
	if a.opt.Skills == nil {
		return nil, errNoSkills()
	}
	if err := a.checkInput(ctx, in); err != nil {
		return nil, err
	}
	d, err := a.opt.Skills.FindSkill(in.Domain, in.Skill)
	if err == nil {
		c := in.call()
		c.Model, c.Input = in.Body.ModelOverride, in.Body.InputData
		err = a.opt.Skills.CheckCall(ctx, c)
	}
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	given := map[string]json.RawMessage{}
	_ = json.Unmarshal(in.Body.InputData, &given) // CheckCall read it
	model := cmp.Or(in.Body.ModelOverride, d.Model)
	said, err := json.Marshal(map[string]any{"dry_run": true, "skill": d.Name, "domain": d.Domain, "model": model,
		"prompt_length": d.PromptLength, "input_keys": slices.Sorted(maps.Keys(given))})
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(SkillResult{SkillName: d.Name, Success: true, Output: said, ModelUsed: model}) // a client that is gone cannot be told
	}}, nil
}
