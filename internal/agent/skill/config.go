package skill

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// configFile says how a skill is executed.
const configFile = "agentura.config.yaml"

// The roles of a skill. An agent works in steps with tools; the others are one call of a model.
const (
	RoleAgent      = "agent"
	RoleManager    = "manager"
	RoleSpecialist = "specialist"
	RoleField      = "field"
)

// Settings are what a skill says of how it is executed. A zero value is left to the operator.
type Settings struct {
	Domain    string `json:"domain,omitempty"`
	Role      string `json:"role"`
	Executor  string `json:"executor,omitempty"`
	Model     string `json:"model,omitempty"`
	MaxTurns  int    `json:"maxTurns,omitempty"`
	MaxTokens int    `json:"maxTokens,omitempty"`
	// Thinking is how many tokens of an answer may be thoughts, Fallbacks the models that are asked
	// where Model cannot answer: of our own agents alone.
	Thinking  int           `json:"thinking,omitempty"`
	Fallbacks []string      `json:"fallbacks,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	BudgetUSD float64       `json:"budgetUsd,omitempty"`
	// Deliver is what it has to leave, nil for what it says last.
	Deliver *Deliver `json:"deliver,omitempty"`
	// Verify are the criteria that it is told to hold its work against.
	Verify []string `json:"verify,omitempty"`
	// VerifyRetries is how often one of our own agents may mend what does not meet them.
	VerifyRetries int `json:"verifyRetries,omitempty"`
	// PerMinute is how often it may be started within a minute, AtOnce how many runs of it alone
	// may be under way; 0 is no limit of its own.
	PerMinute int `json:"perMinute,omitempty"`
	AtOnce    int `json:"atOnce,omitempty"`
	// Tools are what it wants of the tool servers that the operator has configured.
	Tools []Binding `json:"tools,omitempty"`
	// Notifications say who is told when a run has ended in which it was used.
	Notifications []Notification `json:"notifications,omitempty"`
	// Approval is what people are asked before its agent begins, "" where nobody is; Disabled says
	// that it is not to be used.
	Approval string `json:"approval,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
	// Configured says that there is a configuration: then it must be complete.
	Configured bool `json:"configured,omitempty"`
}

// The most that a skill may say: how often it may mend its work, how often it may be started within
// a minute, and how many runs of it may be under way.
const (
	maxMending = 5
	maxRate    = 10_000
	maxAtOnce  = 100
)

// IsAgent says that the skill works in steps, with tools.
func (s *Settings) IsAgent() bool { return s.Role == RoleAgent }

// IsSingleCall says that the skill is one call of a model.
func (s *Settings) IsSingleCall() bool {
	return s.Role == RoleManager || s.Role == RoleSpecialist || s.Role == RoleField
}

// Deliver is what a skill has to leave: one of them.
type Deliver struct {
	Report string          `json:"report,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Files  []string        `json:"files,omitempty"`
}

// Binding is a tool server, and the tools of it that a skill wants.
type Binding struct {
	Server string   `json:"server"`
	Tools  []string `json:"tools,omitempty"`
	// Approval are those that a person must agree to; nobody can be asked while an agent works, so a call is refused.
	Approval []string `json:"approval,omitempty"`
	// ReadOnly leaves out those that may change something, also of a server that writes.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// Card is what people are shown of a skill.
type Card struct {
	DomainDescription string
	DomainOwner       string
	DeployStatus      string
	Trigger           string
	CostBudget        string
	Timeout           string
	Title             string
	Subtitle          string
	Avatar            string
	Color             string
	Tags              []string
	// Starters are things that one may ask it.
	Starters []string
	Triggers []map[string]string
	Routes   []Route
	// LearnsFromCorrections is what it asks for.
	LearnsFromCorrections bool
}

// Route is where a skill would hand something to.
type Route struct{ To, When string }

// readSettings reads the configuration of a skill, and what its SKILL.md says in its front
// matter, which wins.
func (s *Skill) readSettings(dir fs.FS, main *document, f *findings) {
	front := section{said: main.said, file: main.file, offset: main.saidLine, fault: Fail, f: f}
	config, ok := readConfig(dir, f)
	var block section
	switch {
	case config != nil:
		block = s.readConfigured(section{said: config, file: configFile, fault: Fail, f: f})
		for _, key := range []string{"mcp_tools", "triggers", "display"} {
			if front.has(key) {
				front.add(Warn, key, "has no effect here: %s says it", configFile)
			}
		}
	case ok:
		front.fault = Warn // somebody else's skill may say what it likes; the operator's bounds hold
		s.Settings.Tools = front.bindings()
		s.Card.readTriggers(front)
		s.Card.readDisplay(front.below("display"))
	}
	s.readFrontSettings(front)
	s.lintSettings(block, f)
}

// readConfig reads agentura.config.yaml: nil where there is none, not ok where it cannot be read.
func readConfig(dir fs.FS, f *findings) (config *yaml.Node, ok bool) {
	data, err := readRegular(dir, configFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	if err != nil {
		f.add(Fail, configFile, 0, "%v", err)
		return nil, false
	}
	if len(data) > maxConfig {
		f.add(Fail, configFile, 0, "is larger than %d KiB", maxConfig>>10)
		return nil, false
	}
	plain, err := plainText(data)
	if err != nil {
		f.add(Fail, configFile, 0, "%v", err)
		return nil, false
	}
	node, fault := strictyaml.ReadNode([]byte(plain))
	switch {
	case fault != nil:
		f.add(Fail, configFile, fault.Line, "%s", fault.Text)
	case node == nil:
		f.add(Fail, configFile, 0, "is empty: write domain, skills and agent, or take the file away")
	case node.Kind != yaml.MappingNode:
		f.add(Fail, configFile, node.Line, "is %s: write keys such as domain, skills and agent", strictyaml.DescribeNode(node))
	default:
		noteKeys(node, Keys(), configFile, 0, f)
		return node, true
	}
	return nil, false
}

// readConfigured reads a whole configuration, and returns what says how its agent works.
func (s *Skill) readConfigured(c section) (block section) {
	set, card := &s.Settings, &s.Card
	set.Configured = true
	if domain := c.said; c.isText("domain") {
		set.Domain, card.DomainDescription = c.text("domain"), c.text("description")
	} else if domain != nil {
		d := c.below("domain")
		set.Domain, card.DomainDescription, card.DomainOwner = d.text("name"), d.text("description"), d.text("owner")
	}
	own := s.ownEntry(c)
	s.Version, set.Role, set.Model = own.text("version"), own.text("role"), own.text("model")
	card.DeployStatus = own.oneOf("deploy_status", "active", "canary", "shadow", "disabled")
	if set.Disabled = card.DeployStatus == "disabled"; set.Disabled {
		own.add(Refuse, "deploy_status", "it is disabled: no step executes it")
	}
	block = s.readAgent(c)
	set.Fallbacks = append(own.texts("fallback_models"), block.texts("fallback_models")...)
	budget := c.below("guardrails").below("budget")
	set.BudgetUSD = lowest(own.dollars("cost_budget"), own.dollars("cost_budget_per_execution"),
		budget.dollars("max_per_execution"), budget.dollars("max_cost_per_execution"), budget.dollars("max_cost_per_alert"))
	people := c.below("guardrails").below("human_in_loop")
	if people.isTrue("require_approval") {
		set.Approval = cmp.Or(people.text("approval_prompt"), "May the agent begin?")
	}
	if people.has("required_for") {
		people.add(Refuse, "required_for", "names roles, which nobody has here: use require_approval, or put an approval before the step in a pipeline")
	}
	if verify := c.below("verify"); !verify.has("enabled") || verify.isTrue("enabled") {
		set.Verify = verify.texts("criteria")
		if set.VerifyRetries = verify.count("max_retries", maxMending, 0); len(set.Verify) > 0 && !verify.has("max_retries") {
			set.VerifyRetries = 1
		}
	}
	guardrails := c.below("guardrails")
	rates := guardrails.below("rate_limits")
	set.PerMinute = int(lowest(float64(rates.count("requests_per_minute", maxRate)), float64(rates.count("max_executions_per_minute", maxRate))))
	set.AtOnce = guardrails.count("max_concurrent", maxAtOnce)
	set.Tools, set.Deliver, set.Notifications = c.bindings(), c.deliver(), c.notifications()
	card.readTriggers(own)
	card.readTriggers(c)
	card.readDisplay(c.below("display"))
	for _, route := range c.list("routing") {
		card.Routes = append(card.Routes, Route{cmp.Or(route.text("to"), route.below("then").text("forward_to"), route.below("then").text("route_to")), route.text("condition")})
	}
	card.LearnsFromCorrections = c.below("feedback").isTrue("capture_corrections")
	return block
}

// readAgent reads the block that says how an agent works.
func (s *Skill) readAgent(c section) section {
	block := c.below("sandbox")
	switch other := c.below("agent"); {
	case block.isEmpty():
		block = other
	case !other.isEmpty():
		c.add(Warn, "agent", "has no effect beside sandbox, which wins: keep one of them")
	}
	set := &s.Settings
	set.Executor, set.Timeout = block.text("executor"), block.duration("timeout")
	set.MaxTurns, set.MaxTokens = block.count("max_iterations", 1000), block.count("max_tokens", 1<<20)
	set.Thinking = block.count("budget_tokens", 1<<20, 0) // which says that there are to be none
	return block
}

// ownEntry is what the configuration says of the skill under skills.
func (s *Skill) ownEntry(c section) section {
	for _, one := range c.list("skills") {
		if one.text("name") == s.Name {
			return one
		}
	}
	c.add(Fail, "skills", "does not list this skill: write - {name: %s, role: agent} below it", s.Name)
	return section{file: c.file, fault: Fail, f: c.f}
}

// readFrontSettings reads what a SKILL.md says of its execution.
func (s *Skill) readFrontSettings(front section) {
	set := &s.Settings
	set.Domain = cmp.Or(front.text("domain"), set.Domain)
	s.Version = cmp.Or(s.Version, front.text("version"))
	if front.isMapping("metadata") {
		s.Version = cmp.Or(s.Version, front.below("metadata").text("version"))
	}
	s.Card.Trigger, s.Card.CostBudget, s.Card.Timeout = front.text("trigger"), front.text("cost_budget_per_execution"), front.text("timeout")
	set.Timeout = cmp.Or(set.Timeout, front.duration("timeout"))
	set.BudgetUSD = lowest(set.BudgetUSD, front.dollars("cost_budget_per_execution"))
	for _, route := range front.list("routes_to") {
		s.Card.Routes = append(s.Card.Routes, Route{cmp.Or(route.text("skill"), route.text("domain")), route.text("when")})
	}
	switch model := front.text("model"); {
	case !set.Configured && model != "" && !strings.Contains(model, "/") && !strings.ContainsAny(model, "0123456789"):
		front.add(Warn, "model", "%s has no effect here: name a whole model, such as anthropic/claude-sonnet-4-5", text.CutLine(model, 40))
	default:
		set.Model = cmp.Or(model, set.Model)
	}
	role := front.text("role")
	switch {
	case role == "":
	case !set.Configured && !slices.Contains(roles, role):
		front.add(Warn, "role", "%s is none of %s: it is taken for an agent", text.CutLine(role, 40), strings.Join(roles, ", "))
		role = ""
	case set.Role != "" && set.Role != role:
		front.add(Warn, "role", "%s counts, and not the %s of %s", text.CutLine(role, 40), text.CutLine(set.Role, 40), configFile)
	}
	set.Role = cmp.Or(role, set.Role)
}

var roles = []string{RoleAgent, RoleManager, RoleSpecialist, RoleField}

// lintSettings says what is missing, and which role it is where none is named.
func (s *Skill) lintSettings(block section, f *findings) {
	set := &s.Settings
	if set.Role == "" {
		if set.Role = RoleAgent; set.Configured && block.isEmpty() {
			set.Role = RoleSpecialist
		}
		if set.Configured {
			f.add(Warn, configFile, 0, "skills.role is missing: it is taken for %s: write agent, manager or specialist", set.Role)
		}
	}
	switch {
	case !slices.Contains(roles, set.Role):
		f.add(Refuse, configFile, 0, "its role %q is none of %s", text.CutLine(set.Role, 40), strings.Join(roles, ", "))
	case set.Role != RoleAgent, !set.Configured:
	case block.isEmpty():
		f.add(Fail, configFile, 0, "an agent needs a block agent (or sandbox): write agent: {executor: claude-code, max_iterations: 20}")
	case set.MaxTurns == 0:
		block.add(Fail, "", "max_iterations is missing: say how many turns its agent has, such as max_iterations: 20")
	case set.Executor == "":
		block.add(Warn, "", "executor is missing, which is deprecated: the configured one does it; write executor: claude-code, or another one")
	case !slices.Contains(executorNames(), set.Executor):
		block.add(Fail, "executor", "%s is no executor%s: write one of %s", text.CutLine(set.Executor, 40), text.SuggestName(" (did you mean %s?)", set.Executor, executorNames()), strings.Join(executorNames(), ", "))
	}
	if len(set.Verify) > 0 && !set.IsAgent() {
		f.add(Warn, configFile, 0, "verify has no effect here: only an agent can check its work")
	}
}

// executorNames are those of the executors that a skill may name.
func executorNames() []string {
	var names []string
	for _, e := range agent.Executors() {
		if !e.SingleCall {
			names = append(names, e.Name)
		}
	}
	return names
}

func (c *Card) readTriggers(from section) {
	for _, one := range from.list("triggers") {
		trigger := map[string]string{}
		for _, key := range []string{"type", "pattern", "command", "schedule", "cron", "source", "filter", "from", "description"} {
			if said := one.text(key); said != "" {
				trigger[key] = said
			}
		}
		c.Triggers = append(c.Triggers, trigger)
	}
}

func (c *Card) readDisplay(d section) {
	c.Title, c.Subtitle, c.Avatar, c.Color = d.text("title"), d.text("subtitle"), d.text("avatar"), d.text("color")
	c.Tags, c.Starters = d.texts("tags"), d.texts("conversation_starters")
}

// FullName is its name with its domain, where it has one.
func (s *Skill) FullName() string { return path.Join(s.Settings.Domain, s.Name) }

// CheckRunnable says in one line why a step cannot execute the skill, nil when one can.
func (s *Skill) CheckRunnable() error {
	refuse := func(format string, args ...any) error {
		return nightcrier.Errorf(nightcrier.Refused, "the skill %s cannot be executed: %s", s.FullName(), fmt.Sprintf(format, args...))
	}
	if i := slices.IndexFunc(s.Findings, func(f Finding) bool { return f.Level == Refuse }); i >= 0 {
		return refuse("%s", s.Findings[i])
	}
	if n := len(s.Instructions()); n > maxInstructions {
		return refuse("its SKILL.md and what stands above it have %d KiB; an agent is given at most %d: move what is needed seldom into references/", n>>10, maxInstructions>>10)
	}
	return nil
}

// settingsDigest is what the settings and layers add to the digest of a skill.
func (s *Skill) settingsDigest() []byte {
	raw, err := json.Marshal(struct {
		Settings Settings
		Layers   []Layer
	}{s.Settings, s.Layers})
	if err != nil {
		panic(err) // texts and numbers can be encoded
	}
	return bytes.TrimSpace(raw)
}
