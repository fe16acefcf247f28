package e2e

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// hands are how a CLI's model does what an investigation needs.
type hands struct {
	// executor is ours, cli clitest's; key and url are the variables of its provider.
	executor, cli, key, url string
	provider                nightcrier.Provider
	// tools says that it looks with our tools, noShell that the shell that it usually has
	// was taken from it for that.
	tools, noShell bool
	// read reads a file of the workspace.
	read func(path string) fakemodel.ToolCall
	// look looks into the cluster, with kubectl or with our tool; first is its first look.
	look  func(l look) fakemodel.ToolCall
	first look
	// change would take the Pod away.
	change fakemodel.ToolCall
	// half is how many events of the model's stream are over in the middle of a text.
	half int
	// deliver are the last turns: they hand in the report.
	deliver func(report string) []fakemodel.Step
}

// look is a read of a cluster, as the two ways to it have it: a command line behind
// kubectl, with what may stand before that word, or a call of our tool.
type look struct {
	kubectl, tool string
	args          map[string]any
	before        string
}

// command is the look as a shell's.
func (l look) command() string { return l.before + "kubectl " + l.kubectl }

// The looks of an investigation of the patient.
var (
	itsLog      = look{kubectl: "logs ${pod} -n ${namespace}", tool: "kubernetes_logs", args: map[string]any{"name": "${pod}", "namespace": "${namespace}"}}
	followed    = look{before: "timeout 50 ", kubectl: "logs -f ${pod} -n ${namespace}"}
	lastWords   = look{kubectl: "logs ${pod} --previous -n ${namespace}", tool: "kubernetes_logs", args: map[string]any{"name": "${pod}", "namespace": "${namespace}", "previous": true}}
	thePod      = look{kubectl: "get pod ${pod} -n ${namespace} -o yaml", tool: "kubernetes_get", args: map[string]any{"kind": "Pod", "name": "${pod}", "namespace": "${namespace}"}}
	itsEvents   = look{kubectl: "get events -n ${namespace}", tool: "kubernetes_events", args: map[string]any{"namespace": "${namespace}"}}
	described   = look{kubectl: "describe pod ${pod} -n ${namespace}", tool: "kubernetes_describe", args: map[string]any{"kind": "Pod", "name": "${pod}", "namespace": "${namespace}"}}
	deployments = look{kubectl: "get deployment cart -n ${namespace} -o yaml", tool: "kubernetes_get", args: map[string]any{"kind": "Deployment", "name": "cart", "namespace": "${namespace}"}}
)

// toolCall is the call that a model makes in the words of a CLI.
func toolCall(c agent.Call) fakemodel.ToolCall {
	return fakemodel.ToolCall{Name: c.Tool, Input: c.Input}
}

// investigators are the CLIs that investigate the patient, each as it usually does.
func investigators() (all []hands) {
	for _, e := range agent.CLIs() {
		all = append(all, handsOf(e))
	}
	return all
}

func handsOf(e agent.Executor) hands {
	its, usual := e.Calls, e.Providers[0]
	h := hands{
		executor: e.Name, cli: cmp.Or(e.Command, e.Name), provider: usual, key: config.KeyVariables(usual)[0], url: config.AddressVariables(usual)[0], tools: e.UsesTools, half: 4, first: itsLog,
		change:  toolCall(its.Shell("kubectl delete pod ${pod} -n ${namespace}")),
		read:    func(path string) fakemodel.ToolCall { return toolCall(its.Read(path)) },
		look:    func(l look) fakemodel.ToolCall { return toolCall(its.Shell(l.command())) },
		deliver: func(report string) []fakemodel.Step { return []fakemodel.Step{{Text: report}} },
	}
	if usual == nightcrier.Google {
		h.half = 1 // its API answers in fewer and larger events
	}
	if e.UsesTools {
		h.look = func(l look) fakemodel.ToolCall { return toolCall(its.Tool(l.tool, l.args)) }
		h.change = toolCall(its.Tool("kubernetes_delete", map[string]any{"kind": "Pod", "name": "${pod}", "namespace": "${namespace}"}))
	}
	if !e.AnswersOnly {
		h.deliver = func(report string) []fakemodel.Step {
			return []fakemodel.Step{
				{Tools: []fakemodel.ToolCall{toolCall(its.Write("output/investigation.md", report))}},
				{Text: "The report is at output/investigation.md."},
			}
		}
	}
	return h
}

// oneOfEachKind is the first that has a shell, and the first that has none: where what
// is tested does not depend on the CLI but on how it looks and hands in its report.
func oneOfEachKind() []hands {
	all := investigators()
	shell, tools := slices.IndexFunc(all, func(h hands) bool { return !h.tools }), slices.IndexFunc(all, func(h hands) bool { return h.tools })
	return []hands{all[shell], all[tools]}
}

// following are the same, with a first look at a log whose end is waited for: by the one
// whose shell we judge ourselves. Gemini's own policy knows no such command, and a tool
// does not wait.
func following(all []hands) []hands {
	for i := range all {
		if all[i].executor == config.ClaudeCode {
			all[i].first = followed
		}
	}
	return all
}

// shellsTakenAway are those that usually have a shell, without it: they look with our
// tools.
func shellsTakenAway() (all []hands) {
	for _, e := range agent.CLIs() {
		if h := handsOf(e); !h.tools {
			h.tools, h.noShell = true, true
			h.look = func(l look) fakemodel.ToolCall { return toolCall(e.Calls.Tool(l.tool, l.args)) }
			all = append(all, h)
		}
	}
	return all
}

// site is an installation whose agent is the CLI, with a model that does the steps.
func (h hands) site(t *testing.T, m *fakemodel.Server, steps []fakemodel.Step) *site {
	t.Helper()
	m.MustAdd(t, h.cli, fakemodel.Scenario{Steps: steps, Let: map[string]string{
		"pod": `(cart-[a-z0-9]{8,10}-[a-z0-9]{5})\b`, "namespace": `"namespace":\s*"([^"]+)"`, "evidence": `evidence (?:E\d+ )*(E\d+)`,
	}})
	s := newRealSite(t)
	s.env["NIGHTCRIER_AGENT_EXECUTOR"] = h.executor
	if h.executor != "ptc" { // our own needs no program
		s.env["NIGHTCRIER_AGENT_COMMAND"] = clitest.CLI(t, h.cli)
	}
	s.env["NIGHTCRIER_AGENT_MODEL"] = "sonnet"
	s.env["NIGHTCRIER_AGENT_SHELL"] = strconv.FormatBool(!h.noShell)
	s.env[h.key], s.env[h.url] = realKey, m.URL(h.cli)
	return s
}

// oneFact is the report that every way below ends in: what the last look showed.
const oneFact = `# Kubernetes Incident Triage Report

## 0. Executive Triage Card

- **Status:** 🔴 Active Incident
- **Severity:** P2
- **Impact:** Single Pod
- **Target:** Deployment ${namespace}/cart
- **Primary Hypothesis:** the process may not open its data directory — Confidence: High

| Priority | Action | Expected Outcome | Risk |
|---|---|---|---|
| 1 | set fsGroup of the Pod | the file can be opened | none |

## 1. Problem Statement

- the container restarts

## 2. Assessment & Findings

- **Category:** Pod

- **[FACT-1]** Pod ${pod} said before it ended that it cannot open its ledger — Source: ` + "`${evidence}`" + ` — "cannot open /data/ledger: permission denied"

## 3. Root Cause Analysis

### H1: the process may not open its data directory — Confidence: High

- **Cause:** ` + "`permission-denied`" + `
- **Object:** Deployment ${namespace}/cart
- **Evidence for:** FACT-1
- **Falsification test:** ` + "`kubectl logs ${pod} --previous -n ${namespace}`" + `
- **Expected if true:** "permission denied"
- **Expected if false:** no such line

## 4. Remediation Plan

Steps for a person are in the card.

## 5. Proof of Work

- one log was read

## 6. Supporting Evidence

- in the evidence that the fact cites
`

// What the preloaded facts save is told in turns, tool calls and bytes of requests
// to a finished report. The scripted model decides the turns: with the facts it
// writes after one look of its own, without them it must look for what they say.
// What is measured is what the protocol then needs.
func TestWhatThePreloadSavesAnAgent(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	all := investigators()
	if testproc.Raced() {
		all = oneOfEachKind() // only what is measured differs
	}
	for _, h := range all {
		t.Run(h.cli, func(t *testing.T) {
			t.Parallel()
			clitest.CLI(t, h.cli)
			step := func(calls ...fakemodel.ToolCall) fakemodel.Step { return fakemodel.Step{Tools: calls} }
			skill, last := h.read(".claude/skills/k8s-troubleshooter/SKILL.md"), step(h.look(lastWords))
			for _, way := range []struct {
				name    string
				preload bool
				steps   []fakemodel.Step
			}{
				{"facts in the prompt", true, []fakemodel.Step{step(skill), last}},
				{"facts in a file", false, []fakemodel.Step{step(skill), step(h.read("context/initial_triage_report.md")), last}},
				{"facts not used", false, []fakemodel.Step{
					step(skill), step(h.read("context/incident.json"), h.read("context/logs.txt")),
					step(h.look(thePod), h.look(itsEvents)), step(h.look(described), h.look(deployments)), last,
				}},
			} {
				m, steps := fakemodel.New(t), append(way.steps, h.deliver(oneFact)...)
				s, p := h.site(t, m, steps), newPatient(t, kube)
				if !way.preload {
					s.env["SKILLS_DISABLE_TRIAGE_PRELOAD"] = "true"
				}
				inc := s.investigate(t, p, kube.ReadOnly(t))
				rep := s.checkReport(inc, p, "agent", "permission-denied")
				if inc.Status != nightcrier.Resolved || rep.CheckedShare != 1 {
					t.Errorf("%s: %s (%s), the fact is not seen: %+v", way.name, inc.Status, inc.FailureReason, rep.Facts)
				}
				if told := bytes.Contains(s.file(inc, "prompt-sent.md"), []byte("<initial_triage_report>")); told != way.preload {
					t.Errorf("%s: the facts are in the prompt: %t", way.name, told)
				}
				turns, sent, calls := 0, 0, 0
				for _, r := range m.Requests(h.cli) {
					sent += len(r.Body)
					if len(r.Tools) > 0 {
						turns++
					}
				}
				for _, st := range steps {
					calls += len(st.Tools)
				}
				if turns != len(steps) {
					t.Errorf("%s: %d turns, the script has %d", way.name, turns, len(steps))
				}
				t.Logf("| %s | %s | %d | %d | %d | %d |", h.cli, way.name, turns, calls, sent, rep.Usage.InputTokens)
			}
		})
	}
}
