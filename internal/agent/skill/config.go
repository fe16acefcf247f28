package skill

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
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
	// Tools are what it wants of the tool servers that the operator has configured.
	Tools []Binding `json:"tools,omitempty"`
	// Notifications say who is told when a run has ended in which it was used.
	Notifications []Notification `json:"notifications,omitempty"`
	// Approval says that a person must agree to what it does; Disabled that it is not to be used.
	Approval bool `json:"approval,omitempty"`
	Disabled bool `json:"disabled,omitempty"`
	// Configured says that there is a configuration: then it must be complete.
	Configured bool `json:"configured,omitempty"`
}

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
	// Approval are those that a person must agree to; nobody can yet, so they are not offered.
	Approval []string `json:"approval,omitempty"`
}

// Effect says what becomes of a key of agentura.config.yaml.
type Effect string

// The effects.
const (
	Used   Effect = "used"
	Unused Effect = "no effect"
	// RefusedWhenSet is a promise that cannot be kept here: a skill that asks for it is not executed.
	RefusedWhenSet Effect = "refused"
)

// Key is a key of agentura.config.yaml. Keys of lists are written like those of mappings.
type Key struct {
	Path string
	Effect
}

// Keys are those that are known. What lies below one without an effect has none either.
func Keys() []Key {
	var all []Key
	for effect, paths := range map[Effect]string{
		Used: `domain domain.name skills skills.name skills.role skills.version skills.model skills.cost_budget skills.cost_budget_per_execution
			skills.deploy_status agent agent.executor agent.max_iterations agent.max_tokens agent.budget_tokens agent.fallback_models skills.fallback_models agent.timeout sandbox mcp_tools mcp_tools.server mcp_tools.tools
			mcp_tools.approval_required guardrails guardrails.budget guardrails.budget.max_per_execution guardrails.budget.max_cost_per_execution
			guardrails.budget.max_cost_per_alert verify verify.enabled verify.criteria notifications notifications.channel notifications.on deliver deliver.report deliver.schema deliver.files`,
		Unused: `description domain.description domain.owner skills.path skills.triggers triggers agent.template agent.cpu agent.memory
			agent.backend routing guardrails.budget.alert_at guardrails.rate_limits feedback verify.max_retries notifications.config observability display`,
		RefusedWhenSet: `guardrails.human_in_loop`,
	} {
		for _, path := range strings.Fields(paths) {
			all = append(all, Key{path, effect})
		}
	}
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// readSettings reads the configuration of a skill, and what its SKILL.md says in its front matter,
// which wins. The notes name the keys that have no effect.
func (s *Skill) readSettings(dir fs.FS) error {
	config, err := readConfig(dir)
	if err != nil {
		return err
	}
	front, err := readRawFront(dir)
	if err != nil {
		return fmt.Errorf("SKILL.md: %w", err)
	}
	r := settingsReader{of: configFile}
	if config != nil {
		s.Settings, s.Version = r.readConfigured(s.Name, config)
		s.Unused = listUnused(config)
	}
	r.of = "SKILL.md"
	set := &s.Settings
	set.Domain = cmp.Or(r.text(front, "domain"), set.Domain)
	set.Model = cmp.Or(r.text(front, "model"), set.Model)
	set.Timeout = cmp.Or(set.Timeout, r.duration(front, "timeout"))
	set.BudgetUSD = lowest(set.BudgetUSD, r.dollars(front, "cost_budget_per_execution"))
	set.Role = cmp.Or(r.text(front, "role"), set.Role)
	if set.Role == "" {
		if set.Role = RoleAgent; set.Configured && set.Executor == "" && set.MaxTurns == 0 {
			set.Role = RoleSpecialist
		}
	}
	return r.wrong
}

// readConfig reads agentura.config.yaml, nil where there is none.
func readConfig(dir fs.FS) (map[string]any, error) {
	data, err := readRegular(dir, configFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(data) > maxConfig || isCrowded(string(data)) {
		return nil, fmt.Errorf("%s is larger than %d KiB, or nests too much", configFile, maxConfig>>10)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s: %s", configFile, firstLine(err.Error()))
	}
	return config, nil
}

// readRawFront is the front matter of SKILL.md with all that it says.
func readRawFront(dir fs.FS) (map[string]any, error) {
	data, err := readRegular(dir, "SKILL.md")
	if err != nil {
		return nil, err
	}
	said, err := plainText(data)
	if err != nil {
		return nil, err
	}
	head, _, err := splitFront(said)
	if err != nil || isCrowded(head) {
		return nil, err // readFiles refuses what is crowded
	}
	var front map[string]any
	if err := yaml.Unmarshal([]byte(head), &front); err != nil {
		return nil, errors.New(firstLine(err.Error()))
	}
	return front, nil
}

// settingsReader takes values out of a mapping, and keeps the first fault.
type settingsReader struct {
	of    string
	wrong error
}

func (r *settingsReader) fault(key, want string) {
	if r.wrong == nil {
		r.wrong = fmt.Errorf("%s: %s is not %s", r.of, key, want)
	}
}

// readConfigured reads a whole configuration, and the version of the skill.
func (r *settingsReader) readConfigured(name string, c map[string]any) (Settings, string) {
	set := Settings{Configured: true}
	domain, _ := c["domain"].(map[string]any)
	if set.Domain, _ = c["domain"].(string); domain != nil {
		set.Domain = r.text(domain, "name")
	}
	own := r.ownEntry(name, c)
	set.Role, set.Model = r.text(own, "role"), r.text(own, "model")
	set.Disabled = r.text(own, "deploy_status") == "disabled"
	agent := r.mapping(c, "sandbox")
	if len(agent) == 0 {
		agent = r.mapping(c, "agent")
	}
	set.Executor, set.Timeout = r.text(agent, "executor"), r.duration(agent, "timeout")
	set.MaxTurns, set.MaxTokens = r.count(agent, "max_iterations", 1000), r.count(agent, "max_tokens", 1<<20)
	if agent["budget_tokens"] != 0 { // which is how it is said that there are to be none
		set.Thinking = r.count(agent, "budget_tokens", 1<<20)
	}
	set.Fallbacks = append(r.texts(own, "fallback_models"), r.texts(agent, "fallback_models")...)
	guardrails := r.mapping(c, "guardrails")
	budget := r.mapping(guardrails, "budget")
	set.BudgetUSD = lowest(r.dollars(own, "cost_budget"), r.dollars(own, "cost_budget_per_execution"),
		r.dollars(budget, "max_per_execution"), r.dollars(budget, "max_cost_per_execution"), r.dollars(budget, "max_cost_per_alert"))
	people := r.mapping(guardrails, "human_in_loop")
	needed, _ := people["require_approval"].(bool)
	set.Approval = needed || people["required_for"] != nil
	if verify := r.mapping(c, "verify"); verify["enabled"] != false {
		set.Verify = r.texts(verify, "criteria")
	}
	for _, one := range r.list(c, "mcp_tools") {
		set.Tools = append(set.Tools, Binding{r.text(one, "server"), r.texts(one, "tools"), r.texts(one, "approval_required")})
	}
	set.Notifications = r.notifications(c)
	set.Deliver = r.deliver(r.mapping(c, "deliver"))
	return set, r.text(own, "version")
}

// ownEntry is what the configuration says of the skill under skills.
func (r *settingsReader) ownEntry(name string, c map[string]any) map[string]any {
	for _, one := range r.list(c, "skills") {
		if one["name"] == name {
			return one
		}
	}
	if r.wrong == nil {
		r.wrong = fmt.Errorf("%s does not list it under skills", r.of)
	}
	return nil
}

func (r *settingsReader) notifications(c map[string]any) (all []Notification) {
	for _, one := range r.list(c, "notifications") {
		n := Notification{r.text(one, "channel"), r.texts(one, "on")}
		if !slices.Contains(Channels(), n.Channel) {
			r.fault("notifications.channel", "one of "+strings.Join(Channels(), ", "))
		}
		for _, on := range n.On {
			if CheckOutcome(on) != nil {
				r.fault("notifications.on", "a list of success, failure, error and always")
			}
		}
		all = append(all, n)
	}
	return all
}

func (r *settingsReader) deliver(d map[string]any) *Deliver {
	if len(d) == 0 {
		return nil
	}
	out := Deliver{Report: r.text(d, "report"), Files: r.texts(d, "files")}
	if schema := r.mapping(d, "schema"); len(schema) > 0 {
		raw, err := json.Marshal(schema)
		if err != nil {
			r.fault("deliver.schema", "a JSON Schema")
		}
		out.Schema = raw
	}
	kinds := 0
	for _, given := range []bool{out.Report != "", len(out.Files) > 0, out.Schema != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		r.fault("deliver", "one of report, schema and files")
	}
	return &out
}

func (r *settingsReader) mapping(m map[string]any, key string) map[string]any {
	v, ok := m[key].(map[string]any)
	if !ok && m[key] != nil {
		r.fault(key, "a mapping")
	}
	return v
}

func (r *settingsReader) list(m map[string]any, key string) (all []map[string]any) {
	items, ok := m[key].([]any)
	if !ok && m[key] != nil {
		r.fault(key, "a list of mappings")
	}
	for _, item := range items {
		one, ok := item.(map[string]any)
		if !ok {
			r.fault(key, "a list of mappings")
			continue
		}
		all = append(all, one)
	}
	return all
}

func (r *settingsReader) text(m map[string]any, key string) string {
	said, ok := scalarText(m[key])
	if !ok {
		r.fault(key, "a text")
	}
	return said
}

func (r *settingsReader) texts(m map[string]any, key string) (all []string) {
	items, ok := m[key].([]any)
	if !ok && m[key] != nil {
		r.fault(key, "a list of texts")
	}
	for _, item := range items {
		one, ok := scalarText(item)
		if !ok {
			r.fault(key, "a list of texts")
		}
		all = append(all, one)
	}
	return all
}

// count is a whole number from 1 to most, 0 where there is none.
func (r *settingsReader) count(m map[string]any, key string, most int) int {
	said := r.text(m, key)
	if said == "" {
		return 0
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 || n > most {
		r.fault(key, fmt.Sprintf("a whole number from 1 to %d", most))
		return 0
	}
	return n
}

// maxTimeout is the longest that an agent may work.
const maxTimeout = 24 * time.Hour

// duration is a number of seconds, or a time such as 60s.
func (r *settingsReader) duration(m map[string]any, key string) time.Duration {
	said := r.text(m, key)
	if said == "" {
		return 0
	}
	d, err := time.ParseDuration(said)
	if seconds, wrong := strconv.ParseFloat(said, 64); wrong == nil {
		d, err = time.Duration(min(seconds, 2*maxTimeout.Seconds())*float64(time.Second)), nil
	}
	if err != nil || d < time.Second || d > maxTimeout {
		r.fault(key, "a number of seconds, or a time such as 60s, of at most a day")
		return 0
	}
	return d
}

// dollars is an amount such as "$0.30", 0 where there is none.
func (r *settingsReader) dollars(m map[string]any, key string) float64 {
	said := r.text(m, key)
	if said == "" {
		return 0
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(said, "$"), 64)
	if err != nil || usd <= 0 || math.IsInf(usd, 0) || math.IsNaN(usd) {
		r.fault(key, "an amount such as $0.30")
		return 0
	}
	return usd
}

// lowest is the least of some bounds, of which 0 is none.
func lowest(bounds ...float64) (least float64) {
	for _, b := range bounds {
		if b > 0 && (least == 0 || b < least) {
			least = b
		}
	}
	return least
}

// listUnused names the keys of a configuration that have no effect, and those that are not known.
func listUnused(c map[string]any) []string {
	known := map[string]Effect{}
	for _, k := range Keys() {
		known[k.Path] = k.Effect
	}
	found := map[string]bool{}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(path, item)
			}
		case map[string]any:
			for key, below := range v {
				at := strings.TrimPrefix(path+"."+key, ".")
				effect, ok := known[strings.Replace(at, "sandbox.", "agent.", 1)]
				switch {
				case !ok:
					found[text.CutRunes(text.FoldLine(at), maxValue)+" is not known"] = true
				case effect == Unused:
					found[at+" has no effect here"] = true
				case at != "deliver.schema" && effect == Used:
					visit(at, below)
				}
			}
		}
	}
	visit("", c)
	var all []string
	for said := range found {
		all = append(all, configFile+": "+said)
	}
	slices.Sort(all)
	return all[:min(len(all), maxFindings)]
}

// FullName is its name with its domain, where it has one.
func (s *Skill) FullName() string { return path.Join(s.Settings.Domain, s.Name) }

// CheckRunnable says in one line why a step cannot execute the skill, nil when one can.
func (s *Skill) CheckRunnable() error {
	set := s.Settings
	refuse := func(format string, args ...any) error {
		return nightcrier.Errorf(nightcrier.Refused, "the skill %s cannot be executed: %s", s.FullName(), fmt.Sprintf(format, args...))
	}
	switch {
	case set.Disabled:
		return refuse("its deploy_status is disabled")
	case !set.IsAgent() && !set.IsSingleCall():
		return refuse("its role %.40q is none of agent, manager, specialist and field", set.Role)
	case set.IsAgent() && set.Configured && set.MaxTurns == 0:
		return refuse("agent.max_iterations is missing in %s: say how many turns its agent has", configFile)
	case set.Approval:
		return refuse("guardrails.human_in_loop asks for a person's approval, which nobody can give here")
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
