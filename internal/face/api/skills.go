package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

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
}

// SkillInfo is a skill in short, in the words of the older platform.
type SkillInfo struct {
	Domain               string   `json:"domain"`
	Name                 string   `json:"name"`
	Role                 string   `json:"role"`
	Executor             string   `json:"executor,omitempty"`
	Model                string   `json:"model"`
	Trigger              string   `json:"trigger"`
	Description          string   `json:"description"`
	CostBudget           string   `json:"cost_budget"`
	Timeout              string   `json:"timeout"`
	MCPTools             []string `json:"mcp_tools" doc:"What it wants, as server/tool"`
	DomainDescription    string   `json:"domain_description"`
	DomainOwner          string   `json:"domain_owner"`
	GuardrailsCount      int      `json:"guardrails_count"`
	CorrectionsCount     int      `json:"corrections_count" doc:"0: nothing is corrected yet"`
	DeployStatus         string   `json:"deploy_status"`
	Health               string   `json:"health" doc:"unknown: no rate is counted yet"`
	Version              string   `json:"version"`
	Digest               string   `json:"digest,omitempty"`
	DisplayTitle         string   `json:"display_title"`
	DisplaySubtitle      string   `json:"display_subtitle"`
	DisplayAvatar        string   `json:"display_avatar"`
	DisplayColor         string   `json:"display_color"`
	DisplayTags          []string `json:"display_tags"`
	ConversationStarters []string `json:"conversation_starters"`
	Lacks                string   `json:"lacks,omitempty" doc:"Why it cannot be executed"`
}

// SkillDetail is all that is known of one.
type SkillDetail struct {
	SkillInfo
	TaskDescription string              `json:"task_description"`
	InputSchema     string              `json:"input_schema"`
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
	ExecutionID string          `json:"execution_id" doc:"The id of the run"`
	Error       string          `json:"error,omitempty"`
}

// SkillPath names a skill.
type SkillPath struct {
	Domain string `path:"domain" maxLength:"64" doc:"The domain; default for none"`
	Skill  string `path:"skill" maxLength:"64" doc:"The skill's name"`
}

// skillCall is a call of one skill.
type skillCall struct {
	SkillPath
	Body CallBody
}

// call is what it asks for.
func (c *skillCall) call() Call {
	if c.Domain == NoDomain {
		return Call{Skill: c.Skill}
	}
	return Call{Skill: c.Domain + "/" + c.Skill}
}

func (a *API) skillRoutes(h huma.API) {
	huma.Register(h, newOperation("list-skills", http.MethodGet, "/skills", "Skills, by domain and name"), a.listSkills)
	huma.Register(h, newOperation("get-skill", http.MethodGet, "/skills/{domain}/{skill}", "One skill"), a.getSkill)
	huma.Register(h, callOperation(acceptedOperation("start-skill", "/skills/{domain}/{skill}/runs", "Start a run of one skill, without waiting for it")), a.startSkill)
	execute := callOperation(newOperation("execute-skill", http.MethodPost, "/skills/{domain}/{skill}/execute", "Run one skill to its end"))
	execute.Responses["200"] = &huma.Response{Description: "What it came to, well or not",
		Content: map[string]*huma.MediaType{"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[SkillResult](), true, "SkillResult")}}}
	huma.Register(h, execute, a.executeSkill)
	huma.Register(h, newOperation("list-domains", http.MethodGet, "/domains", "Domains of skills, by name"), a.listDomains)
	huma.Register(h, newOperation("get-domain", http.MethodGet, "/domains/{domain}", "One domain, with its skills"), a.getDomain)
}

func errNoSkills() error {
	return newProblem(nightcrier.NotFound, "no server runs here, and only a server knows skills; `nightcrier skills list` shows them")
}

func (a *API) listSkills(context.Context, *struct{}) (*listOf[SkillInfo], error) {
	if a.opt.Skills == nil {
		return &listOf[SkillInfo]{[]SkillInfo{}}, nil
	}
	return &listOf[SkillInfo]{notNil(a.opt.Skills.ListSkills())}, nil
}

func (a *API) getSkill(ctx context.Context, in *SkillPath) (*body[SkillDetail], error) {
	if a.opt.Skills == nil {
		return nil, errNoSkills()
	}
	d, err := a.opt.Skills.FindSkill(in.Domain, in.Skill)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[SkillDetail]{d}, nil
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
	return &body[DomainDetail]{d}, nil
}

func (a *API) startSkill(ctx context.Context, in *skillCall) (*body[nightcrier.Run], error) {
	run, err := a.startCall(ctx, in.call(), in.Body)
	if err != nil {
		return nil, err
	}
	return &body[nightcrier.Run]{run}, nil
}

// executeSkill answers when the run has ended. Who does not wait for that cancels nothing.
func (a *API) executeSkill(ctx context.Context, in *skillCall) (*huma.StreamResponse, error) {
	run, err := a.startCall(ctx, in.call(), in.Body)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		a.answerExecution(r, w, run.ID, func(e *Execution) any {
			res := SkillResult{SkillName: in.Skill, Success: e.Success, CostUSD: e.TotalCostUSD, LatencyMS: e.TotalLatencyMS, ExecutionID: e.SessionID, Error: e.Error}
			for _, step := range e.Steps {
				res.Output = step.Output
			}
			if a.opt.Skills != nil {
				if d, err := a.opt.Skills.FindSkill(in.Domain, in.Skill); err == nil {
					res.ModelUsed = d.Model
				}
			}
			return res
		})
	}}, nil
}
