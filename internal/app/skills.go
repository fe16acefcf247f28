package app

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// ListSkills implements api.Skills: those that are used, as they are now. One that cannot be read is
// named, with why.
func (a *Investigator) ListSkills() []api.SkillInfo {
	var all []api.SkillInfo
	for _, l := range a.skillLibrary.List() {
		switch {
		case !l.Used:
		case l.Err != nil:
			all = append(all, completeInfo(api.SkillInfo{Domain: api.NoDomain, Name: l.Name, Health: "failing", Lacks: l.Err.Error()}))
		default:
			all = append(all, a.newSkillInfo(l.Skill))
		}
	}
	slices.SortFunc(all, func(x, y api.SkillInfo) int {
		return cmp.Or(strings.Compare(x.Domain, y.Domain), strings.Compare(x.Name, y.Name))
	})
	return all
}

// completeInfo makes lists that are empty of those that are not there.
func completeInfo(i api.SkillInfo) api.SkillInfo {
	for _, list := range []*[]string{&i.MCPTools, &i.DisplayTags, &i.ConversationStarters} {
		*list = append([]string{}, *list...)
	}
	return i
}

func (a *Investigator) newSkillInfo(s *skill.Skill) api.SkillInfo {
	set, card := s.Settings, s.Card
	i := api.SkillInfo{LastDeployed: s.Changed,
		Domain: cmp.Or(set.Domain, api.NoDomain), Name: s.Name, Role: set.Role, Executor: set.Executor, Model: set.Model, Trigger: cmp.Or(card.Trigger, "manual"),
		Description: cmp.Or(s.Description, s.Title()), CostBudget: card.CostBudget, Timeout: card.Timeout, DomainDescription: card.DomainDescription, DomainOwner: card.DomainOwner,
		GuardrailsCount: len(s.Bullets("Guardrails")), DeployStatus: cmp.Or(card.DeployStatus, "active"), Health: "unknown", Version: s.Version, Digest: s.Ref().Digest,
		DisplayTitle: cmp.Or(card.Title, s.Name), DisplaySubtitle: card.Subtitle, DisplayAvatar: card.Avatar, DisplayColor: card.Color, DisplayTags: card.Tags,
		ConversationStarters: card.Starters[:min(len(card.Starters), 4)],
	}
	if i.CostBudget == "" && set.BudgetUSD > 0 {
		i.CostBudget = fmt.Sprintf("$%.2f", set.BudgetUSD)
	}
	if i.Timeout == "" && set.Timeout > 0 {
		i.Timeout = set.Timeout.String()
	}
	for _, b := range set.Tools {
		for _, tool := range b.Tools {
			i.MCPTools = append(i.MCPTools, b.Server+"/"+tool)
		}
	}
	if _, err := (pipeline.Skills{Agent: a.cfg.AgentOfSkill}).Pin(s); err != nil {
		i.Lacks = err.Error()
	}
	return completeInfo(i)
}

// FindSkill implements api.Skills.
func (a *Investigator) FindSkill(domain, name string) (api.SkillDetail, error) {
	if domain != api.NoDomain {
		name = path.Join(domain, name)
	}
	s, err := a.skillLibrary.Find(name)
	if err != nil {
		return api.SkillDetail{}, err
	}
	d := api.SkillDetail{
		SkillInfo: a.newSkillInfo(s), TaskDescription: s.Section("Task"), InputSchema: s.Section("Input Format", "Context You'll Receive", "Input"), InputRequired: s.Section("Input") != "", PromptLength: len(s.Instructions()), OutputSchema: s.Section("Output Format"),
		SkillBody: s.Body(), SkillGuardrails: append([]string{}, s.Bullets("Guardrails")...), Triggers: append([]map[string]string{}, s.Card.Triggers...),
		FeedbackEnabled: s.Card.LearnsFromCorrections, Phases: []api.SkillPhase{}, Findings: []string{},
	}
	for _, p := range s.Phases() {
		d.Phases = append(d.Phases, api.SkillPhase{Number: p.Number, Name: p.Name, Gate: p.Gate})
	}
	for _, f := range s.Findings {
		d.Findings = append(d.Findings, f.String())
	}
	return d, nil
}

// ListDomains implements api.Skills.
func (a *Investigator) ListDomains() []api.DomainInfo {
	var all []api.DomainInfo
	for _, s := range a.ListSkills() {
		if n := len(all); n == 0 || all[n-1].Name != s.Domain {
			all = append(all, api.DomainInfo{Name: s.Domain})
		}
		d := &all[len(all)-1]
		d.SkillsCount++
		d.Description, d.Owner = cmp.Or(d.Description, s.DomainDescription), cmp.Or(d.Owner, s.DomainOwner)
	}
	return all
}

// FindDomain implements api.Skills.
func (a *Investigator) FindDomain(name string) (api.DomainDetail, error) {
	list := a.ListDomains()
	i := slices.IndexFunc(list, func(d api.DomainInfo) bool { return d.Name == name })
	if i < 0 {
		return api.DomainDetail{}, nightcrier.Errorf(nightcrier.NotFound, "there is no skill in a domain %.64q", name)
	}
	d := api.DomainDetail{DomainInfo: list[i], Skills: []api.SkillInfo{}, Topology: []api.Edge{}, Guardrails: []string{}}
	for _, info := range a.ListSkills() {
		if info.Domain == name {
			d.Skills = append(d.Skills, info)
		}
	}
	for _, l := range a.skillLibrary.List() {
		if !l.Used || l.Err != nil || cmp.Or(l.Skill.Settings.Domain, api.NoDomain) != name {
			continue
		}
		for _, r := range l.Skill.Card.Routes {
			d.Topology = append(d.Topology, api.Edge{FromSkill: l.Skill.Name, ToSkill: r.To, RouteCondition: r.When})
		}
		for _, above := range l.Skill.Layers {
			if path.Base(above.Path) == "DOMAIN.md" {
				d.Identity = above.Text
			}
		}
	}
	d.Guardrails = append(d.Guardrails, skill.BulletsOf(d.Identity, "Guardrails")...)
	return d, nil
}
