package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// Bounds of what one file may hold.
const (
	maxEntries = 100
	// maxNotifications is more than there are channels and outcomes.
	maxNotifications = 20
	maxRetries       = 5
	maxApprovers     = 20
	longestWait      = 90 * 24 * time.Hour
	leastTime        = time.Second
	longestStep      = 24 * time.Hour
	longestRun       = 7 * 24 * time.Hour
)

// pipelineKeys are the keys of a file.
func (r *reader) pipelineKeys(d *Definition) keys {
	return keys{
		"name":          readScalar(r, &d.Name, checked(checkName)),
		"description":   readScalar(r, &d.Description, checked(anyText)),
		"on":            r.readTriggers(d),
		"trigger":       r.readTriggers(d),
		"input_mapping": r.readTexts(&d.InputMapping, checkInput, checkInput),
		"concurrency":   func(n *yaml.Node, path string) { r.readKeys(n, path, r.concurrencyKeys(&d.Concurrency)) },
		"deadline":      readScalar(r, &d.Deadline, parseDuration(leastTime, longestRun)),
		"budget":        readScalar(r, &d.BudgetUSD, parseBudget),
		"notifications": r.readList(maxNotifications, func(_ int, n *yaml.Node, path string) {
			var told Notification
			r.readKeys(n, path, r.notificationKeys(&told))
			d.Notifications = append(d.Notifications, told)
			r.lines[path] = n.Line
		}),
		"steps": func(n *yaml.Node, path string) {
			d.Phases = append(d.Phases, Phase{})
			r.readSteps(&d.Phases[len(d.Phases)-1])(n, path)
		},
		"phases": r.readList(maxEntries, func(_ int, n *yaml.Node, path string) {
			var p Phase
			r.readKeys(n, path, r.phaseKeys(&p))
			d.Phases = append(d.Phases, p)
		}),
	}
}

// readTriggers reads one trigger, or a list of them. One that is a single word is a type.
func (r *reader) readTriggers(d *Definition) readValue {
	one := func(n *yaml.Node, path string) {
		var t Trigger
		if n.Kind == yaml.ScalarNode {
			r.triggerKeys(&t)["type"](n, path)
		} else {
			r.readKeys(n, path, r.triggerKeys(&t))
		}
		d.On = append(d.On, t)
		r.lintTrigger(t, n, path)
	}
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			one(n, path)
			return
		}
		r.readList(maxEntries, func(_ int, n *yaml.Node, path string) { one(n, path) })(n, path)
	}
}

func (r *reader) triggerKeys(t *Trigger) keys {
	return keys{
		"type":         readScalar(r, &t.Type, parseChoice(OnIncident, OnGitHubPR, OnWebhook, OnCron, OnManual)),
		"actions":      r.readWords(&t.Actions, maxEntries, checkPullRequestAction),
		"repositories": r.readWords(&t.Repositories, maxEntries, checkPattern),
		"branches":     r.readWords(&t.Branches, maxEntries, checkPattern),
		"schedule":     readScalar(r, &t.Cron, checked(anyText)),
		"timezone":     readScalar(r, &t.TimeZone, checked(anyText)),
	}
}

func (r *reader) concurrencyKeys(c *Concurrency) keys {
	return keys{
		"key":    readScalar(r, &c.Key, checked(someText)),
		"policy": readScalar(r, &c.Policy, parseChoice(Queue, CancelPrevious)),
	}
}

func (r *reader) notificationKeys(n *Notification) keys {
	return keys{
		"channel": readScalar(r, &n.Channel, parseChoice(skill.Channels()...)),
		"on":      r.readWords(&n.On, maxEntries, skill.CheckOutcome),
		"if":      readScalar(r, &n.If, checked(someText)),
		"text":    readScalar(r, &n.Text, checked(someText)),
	}
}

func (r *reader) phaseKeys(p *Phase) keys {
	return keys{
		"name": readScalar(r, &p.Name, checked(checkName)),
		"type": func(n *yaml.Node, path string) {
			var kind string
			readScalar(r, &kind, parseChoice("sequential", "parallel"))(n, path)
			p.Parallel = kind == "parallel"
		},
		"fan_in_from": readScalar(r, &p.FanInFrom, checked(checkName)),
		"steps":       r.readSteps(p),
	}
}

func (r *reader) readSteps(p *Phase) readValue {
	return r.readList(maxEntries, func(_ int, n *yaml.Node, path string) {
		s := Step{Required: true, ContextForNext: true}
		r.readKeys(n, path, r.stepKeys(&s))
		p.Steps = append(p.Steps, s)
		r.lines[path] = n.Line
	})
}

func (r *reader) stepKeys(s *Step) keys {
	return keys{
		"id":               readScalar(r, &s.ID, checked(checkID)),
		"skill":            readScalar(r, &s.Skill, checked(checkSkill)),
		"action":           readScalar(r, &s.Action, parseChoice(Actions()...)),
		"agent_id":         readScalar(r, &s.AgentID, checked(checkID)),
		"with":             r.readTexts(&s.With, checkInput, someText),
		"if":               readScalar(r, &s.If, checked(someText)),
		"required":         readScalar(r, &s.Required, parseBool),
		"on_failure":       readScalar(r, &s.OnFailure, parseChoice(Stop, Continue, Retry)),
		"retries":          readScalar(r, &s.Retries, parseCount(1, maxRetries)),
		"timeout":          readScalar(r, &s.Timeout, parseDuration(leastTime, longestStep)),
		"budget":           readScalar(r, &s.BudgetUSD, parseBudget),
		"context_for_next": readScalar(r, &s.ContextForNext, parseBool),
		"approval": func(n *yaml.Node, path string) {
			s.Approval, s.Action = &Approval{}, ActionApproval
			r.readKeys(n, path, r.approvalKeys(s.Approval))
		},
		"deliverable": func(n *yaml.Node, path string) {
			s.Deliverable = &Deliverable{}
			if n.Kind == yaml.ScalarNode {
				readScalar(r, &s.Deliverable.Kind, parseDeliverable)(n, path)
				return
			}
			r.readKeys(n, path, r.deliverableKeys(s.Deliverable))
			if len(s.Deliverable.Schema) > 0 && len(s.Deliverable.Files) > 0 {
				r.addProblem(n.Line, path, errors.New("is a schema and files: keep one"))
			}
		},
	}
}

func (r *reader) approvalKeys(a *Approval) keys {
	return keys{
		"prompt":    readScalar(r, &a.Prompt, checked(someText)),
		"approvers": r.readWords(&a.Approvers, maxApprovers, checkApprover),
		"needed":    readScalar(r, &a.Needed, parseCount(1, maxApprovers)),
		"expires":   readScalar(r, &a.Expires, parseDuration(leastTime, longestWait)),
	}
}

// parseDeliverable takes the one kind that needs no more words.
func parseDeliverable(s string) (DeliverableKind, error) {
	switch DeliverableKind(s) {
	case Report:
		return Report, nil
	case Schema, Files:
		return "", fmt.Errorf("is %s alone: write it as a key, with what is expected below it", quoteValue(s))
	}
	return "", fmt.Errorf("is %s: write report, or schema or files as a key with what is expected below it", quoteValue(s))
}

func (r *reader) deliverableKeys(d *Deliverable) keys {
	return keys{
		"schema": func(n *yaml.Node, path string) {
			schema, err := readSchema(n)
			if err != nil {
				r.addProblem(n.Line, path, err)
				return
			}
			d.Kind, d.Schema = Schema, schema
		},
		"files": func(n *yaml.Node, path string) {
			d.Kind = Files
			r.readWords(&d.Files, maxEntries, checkPattern)(n, path)
		},
	}
}

// readSchema reads a JSON Schema, which is complete in itself.
func readSchema(n *yaml.Node) (json.RawMessage, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("is %s: write a JSON Schema below it, in YAML", strictyaml.DescribeNode(n))
	}
	if inner := findUnsupported(n); inner != nil {
		return nil, fmt.Errorf("line %d: %w", inner.Line, strictyaml.ErrUnsupported)
	}
	var value map[string]any
	if err := n.Decode(&value); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %s", text.CutLine(err.Error(), 256))
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	return data, skill.CheckSchema(data)
}

// findUnsupported returns the first node below n that stands for what is written elsewhere.
func findUnsupported(n *yaml.Node) *yaml.Node {
	if strictyaml.IsUnsupported(n) {
		return n
	}
	for _, inner := range n.Content {
		if found := findUnsupported(inner); found != nil {
			return found
		}
	}
	return nil
}

// checkApprover takes the name of a person, as approvals.approvers of the configuration has it.
func checkApprover(s string) error {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, text.IsHidden) {
		return fmt.Errorf("is %s, which names nobody: write a name of approvals.approvers in the configuration", quoteValue(s))
	}
	return nil
}

func anyText(string) error { return nil }

func someText(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("is empty: write an expression, or take it out")
	}
	return nil
}

// checkName refuses what cannot name a pipeline or a phase, which become keys.
func checkName(s string) error {
	if skill.CheckName(s) != nil {
		return fmt.Errorf("is %s, which is no name: use up to 64 lower-case letters, digits, '-', '_' and '.', and no '.' at the start", quoteValue(s))
	}
	return nil
}

// checkID refuses what cannot name a step or an agent, which become directories and parts
// of keys.
func checkID(s string) error {
	if skill.CheckName(s) != nil || strings.Contains(s, ".") {
		return fmt.Errorf("is %s, which is no id: use up to 64 lower-case letters, digits, '-' and '_'", quoteValue(s))
	}
	return nil
}

// checkSkill takes the name of a skill, with its domain or without.
func checkSkill(s string) error {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		domain, name = "x", s
	}
	if skill.CheckName(domain) != nil || skill.CheckName(name) != nil {
		return fmt.Errorf("is %s, which is no skill: write domain/name or name, of up to 64 lower-case letters, digits, '-', '_' and '.' each", quoteValue(s))
	}
	return nil
}

// checkInput takes the name of an input, which an expression can name.
func checkInput(s string) error {
	ok := s != "" && len(s) <= 64 && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	})
	if !ok {
		return fmt.Errorf("%s is no name of an input: use up to 64 letters, digits and '_'", quoteValue(s))
	}
	return nil
}

// checkPattern takes what stays below a workspace.
func checkPattern(s string) error {
	if _, err := path.Match(s, ""); err != nil {
		return fmt.Errorf("is %s, which is no pattern: close what '[' opens", quoteValue(s))
	}
	if s == "" || len(s) > 256 || path.IsAbs(s) || path.Clean(s) != s || s == "." || s == ".." || strings.HasPrefix(s, "../") || strings.ContainsAny(s, "\\\x00") {
		return fmt.Errorf("is %s: write a path below the step's workspace, such as dist/*.html", quoteValue(s))
	}
	return nil
}

// pullRequestActions are those that GitHub has, and the comment that mentions us.
var pullRequestActions = strings.Fields(`assigned auto_merge_disabled auto_merge_enabled closed converted_to_draft demilestoned dequeued
	edited enqueued labeled locked mentioned milestoned opened ready_for_review reopened review_request_removed review_requested
	synchronize unassigned unlabeled unlocked`)

func checkPullRequestAction(s string) error {
	_, err := parseChoice(pullRequestActions...)(s)
	return err
}
