package config

import (
	"fmt"
	"regexp"
	"strings"
)

// readOnlyTools is what a triage agent may use when nothing is said.
const readOnlyTools = "Read,Grep,Glob," + readOnlyBash

const readOnlyBash = "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"

var readOnlyCommand = regexp.MustCompile(`^kubectl[: ](get|describe|logs)( ?\*|:\*)?$`)

// narrowTools keeps of a list of tools what a read-only triage may use, and
// says of every other one what became of it. An old, permissive list therefore
// neither widens what an agent may do nor stops a start.
func narrowTools(asked []string) (kept, notes []string) {
	seen := map[string]bool{}
	for _, tool := range asked {
		narrowed, note := narrowTool(tool)
		if note != "" {
			notes = append(notes, note)
		}
		if narrowed != "" && !seen[narrowed] {
			seen[narrowed] = true
			kept = append(kept, narrowed)
		}
	}
	return kept, notes
}

func narrowTool(tool string) (kept, note string) {
	name, rest, limited := strings.Cut(tool, "(")
	switch name {
	case "":
		return "", ""
	case "Read", "Grep", "Glob":
		if limited {
			return name, fmt.Sprintf("%s is read as %s, inside the workspace only", clip(tool), name)
		}
		return name, ""
	case "Write":
		return name, "Write reaches the agent's output directory only"
	case "Bash":
		return narrowBash(tool, strings.TrimSuffix(rest, ")"), limited)
	}
	return "", clip(tool) + " is not available to a read-only triage and is left out"
}

// narrowBash keeps the reading kubectl commands of a Bash rule.
func narrowBash(tool, rules string, limited bool) (kept, note string) {
	if !limited {
		return readOnlyBash, "Bash is narrowed to kubectl get, describe and logs"
	}
	var reading, dropped []string
	for rule := range strings.SplitSeq(rules, ",") {
		rule = strings.TrimSpace(rule)
		if readOnlyCommand.MatchString(rule) {
			reading = append(reading, rule)
		} else {
			dropped = append(dropped, rule)
		}
	}
	if len(dropped) > 0 {
		note = fmt.Sprintf("%s: only kubectl get, describe and logs are kept", clip(tool))
	}
	if len(reading) == 0 {
		return "", note
	}
	return "Bash(" + strings.Join(reading, ",") + ")", note
}
