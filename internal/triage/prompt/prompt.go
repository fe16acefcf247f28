// Package prompt builds everything that an agent is told: the context files, the
// system and user prompts, and the exact record of what was sent.
//
// Text from outside gets into a prompt only inside a tagged block, escaped so
// that it can neither close the block nor make a CLI expand a file name.
package prompt

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"nightcrier.dev/nightcrier"
)

// ReadOnly is the sentence that every system prompt carries.
const ReadOnly = "You are in READ-ONLY triage mode. Do NOT attempt to modify cluster state, apply changes, or run remediation commands. Your role is ANALYSIS ONLY."

// Defaults of Input.
const (
	defaultReportPath = "output/investigation.md"
	defaultSkillPath  = ".claude/skills/k8s-troubleshooter/SKILL.md"
)

// maxSystemPrompt bounds the file of Input.SystemPromptFile, in bytes.
const maxSystemPrompt = 256 << 10

// headings are the sections that a report must have, in order.
var headings = []string{
	"## 0. Executive Triage Card", "## 1. Problem Statement", "## 2. Assessment & Findings", "## 3. Root Cause Analysis",
	"## 4. Remediation Plan", "## 5. Proof of Work", "## 6. Supporting Evidence",
}

// Input is what a prompt is built from.
type Input struct {
	Incident *nightcrier.Incident
	// Event is the one that opened the incident.
	Event       nightcrier.Event
	Logs        []Log
	ClusterInfo ClusterInfo
	// Permissions is what the cluster's credential may do; nil is unknown.
	Permissions map[string]any
	// TriageReport is the diagnosis made before the agent starts, Markdown.
	TriageReport []byte
	// Earlier is an incident that came to the same diagnosis before, nil for none.
	Earlier *nightcrier.Recalled
	// Runbooks are what the people who run the system wrote for such a case.
	Runbooks []nightcrier.Runbook
	// Incomplete says what that diagnosis could not look at, "" for nothing.
	Incomplete string
	// Agent is who is told.
	Agent Agent
	// ReportPath and SkillPath are relative to the workspace; both have defaults.
	ReportPath, SkillPath string
	// Skills are others that the agent may read.
	Skills []Skill
	// CanLook says that the agent can look into the cluster; WhyNot says why it
	// cannot, "" where there is no credential.
	CanLook bool
	WhyNot  string
	// Preload puts the triage report into the prompt, and the earlier incident,
	// which would give it away. All else always is.
	Preload bool
	// SystemPromptFile replaces the generic part of the system prompt, "" keeps it.
	SystemPromptFile string
	// Mask hides secrets; nil hides nothing.
	Mask func(string) string
}

// Agent is how an agent takes what it is told, and what it can do.
type Agent struct {
	// PreloadInSystem puts what was found before the start into the system prompt;
	// else it stands in front of the user prompt.
	PreloadInSystem bool
	// Instructions say where it puts the system prompt; empty is nowhere, without an agent.
	Instructions string
	// Tools are the names of those that it looks into a cluster with; none means
	// kubectl, with the commands of Verbs.
	Tools, Verbs []string
	// FileTool is the tool that it reads files with; empty is a shell's cat.
	FileTool string
	// AnswersOnly says that it can write no file: its report is its last message.
	AnswersOnly bool
}

// Skill is one that may help in some cases.
type Skill struct {
	// Path is that of its SKILL.md in the workspace; Description is when to read it,
	// in its own words.
	Path, Description string
}

// Log is an excerpt of one container's log.
type Log struct {
	Namespace string
	Pod       string
	Container string
	Previous  bool
	Evidence  string
	Text      string
}

// ClusterInfo says where the fault is and which objects belong to it.
type ClusterInfo struct {
	ClusterName       string                `json:"clusterName"`
	Namespace         string                `json:"namespace"`
	InvolvedResources []nightcrier.Resource `json:"involvedResources"`
}

// Bundle is what an agent is given.
type Bundle struct {
	// Files are to be written into the workspace, by path.
	Files map[string][]byte
	// System is context/system-instructions.txt, User is PROMPT.md, Sent is
	// prompt-sent.md: both of them, byte for byte.
	System, User, Sent []byte
	// Incomplete says what the agent is missing, "" for nothing; it becomes the
	// incident's contextIncomplete.
	Incomplete string
	// Tokens estimates the preloaded blocks.
	Tokens   int
	Warnings []string
}

// Build makes the bundle. It is an Invalid error when the system prompt file
// cannot be used.
func Build(in Input) (Bundle, error) {
	in = in.withDefaults()
	generic, err := in.genericPrompt()
	if err != nil {
		return Bundle{}, err
	}
	files, err := contextFiles(in)
	if err != nil {
		return Bundle{}, err
	}
	pre, err := preloadBlocks(in)
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{Files: files, Incomplete: pre.incomplete, Tokens: pre.tokens, Warnings: pre.warnings}
	system, user := in.systemPrompt(generic), in.userPrompt()
	if in.Agent.PreloadInSystem {
		system += "\n" + pre.text
	} else {
		user = pre.text + "\n" + user
	}
	b.System, b.User = []byte(system), []byte(user)
	b.Sent = joinPrompts(in.Agent.Instructions, system, user)
	b.Files["context/system-instructions.txt"] = b.System
	b.Files["PROMPT.md"] = b.User
	b.Files["prompt-sent.md"] = b.Sent
	return b, nil
}

func (in Input) withDefaults() Input {
	if in.ReportPath == "" {
		in.ReportPath = defaultReportPath
	}
	if in.SkillPath == "" {
		in.SkillPath = defaultSkillPath
	}
	if in.Mask == nil {
		in.Mask = func(s string) string { return s }
	}
	if in.ClusterInfo.ClusterName == "" {
		in.ClusterInfo.ClusterName = in.Incident.Cluster
	}
	if in.ClusterInfo.Namespace == "" {
		in.ClusterInfo.Namespace = in.Incident.Namespace()
	}
	if in.ClusterInfo.InvolvedResources == nil {
		in.ClusterInfo.InvolvedResources = involvedResources(in.Incident)
	}
	return in
}

// involvedResources lists what the incident itself names.
func involvedResources(inc *nightcrier.Incident) []nightcrier.Resource {
	list := []nightcrier.Resource{}
	for _, r := range []nightcrier.Resource{inc.Resource, inc.Owner} {
		if !r.IsZero() && (len(list) == 0 || list[0] != r) {
			list = append(list, r)
		}
	}
	return list
}

// genericPrompt returns the part of the system prompt that a user may replace.
func (in Input) genericPrompt() (string, error) {
	if in.SystemPromptFile == "" {
		return mustText("text/generic.md"), nil
	}
	text, err := readBounded(in.SystemPromptFile)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "system prompt file %s: %w", in.SystemPromptFile, err)
	}
	return text, nil
}

func readBounded(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSystemPrompt+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxSystemPrompt:
		return "", fmt.Errorf("it is larger than %d KiB", maxSystemPrompt>>10)
	case strings.TrimSpace(string(data)) == "":
		return "", errors.New("it is empty")
	}
	return string(data), nil
}

// joinPrompts records both prompts, byte for byte, under a heading each.
func joinPrompts(place, system, user string) []byte {
	return []byte("# System prompt (" + cmp.Or(place, "not sent: there is no agent") + ")\n\n" + system + "\n\n# User prompt\n\n" + user)
}
