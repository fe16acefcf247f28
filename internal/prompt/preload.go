package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Budget of the preloaded blocks, in tokens of four characters.
const (
	charsPerToken = 4
	warnTokens    = 8_000
	maxTokens     = 10_000
)

// Tokens estimates how many tokens a text is.
func Tokens(s string) int { return (utf8.RuneCountInString(s) + charsPerToken - 1) / charsPerToken }

// preloaded is the data in front of an agent's first turn.
type preloaded struct {
	text       string
	tokens     int
	incomplete string
	warnings   []string
}

// preload makes the blocks. Incident and permissions are never cut; the triage
// report gets what they leave of the budget.
func preload(in Input) (preloaded, error) {
	snapshot := *in.Incident
	snapshot.Workspace, snapshot.Artifacts = "", nil
	incident, err := escapeJSON(&snapshot, in.Mask)
	if err != nil {
		return preloaded{}, err
	}
	permissions, err := escapeJSON(orUnknown(in.Permissions), in.Mask)
	if err != nil {
		return preloaded{}, err
	}
	p := preloaded{incomplete: in.Incomplete}
	p.text = block("incident", incident) + "\n" + block("kubernetes_cluster_access_permissions", permissions)
	if in.Preload {
		p.addTriage(in.Mask(string(in.TriageReport)))
	}
	p.tokens = Tokens(p.text)
	if p.tokens > warnTokens {
		p.warnings = append(p.warnings, fmt.Sprintf("the preloaded context is about %d tokens, more than %d", p.tokens, warnTokens))
	}
	return p, nil
}

func (p *preloaded) addTriage(report string) {
	if strings.TrimSpace(report) == "" {
		p.miss("there is no initial triage report")
		return
	}
	const tag = "initial_triage_report"
	escaped := escapeText(report)
	whole := "\n" + block(tag, escaped)
	room := maxTokens*charsPerToken - utf8.RuneCountInString(p.text)
	if utf8.RuneCountInString(whole) <= room {
		p.text += whole
		return
	}
	total := utf8.RuneCountInString(escaped)
	note := fmt.Sprintf("[cut here: the report has %d characters; all of it is in context/initial_triage_report.md]", total)
	kept := cutAtLine(escaped, room-utf8.RuneCountInString("\n"+block(tag, "\n"+note)))
	p.text += "\n" + block(tag, kept+"\n"+note)
	p.miss("the initial triage report was cut to fit the prompt")
	p.warnings = append(p.warnings, fmt.Sprintf("the initial triage report was cut from %d to %d characters to stay below %d tokens",
		total, utf8.RuneCountInString(kept), maxTokens))
}

func (p *preloaded) miss(what string) {
	if p.incomplete != "" {
		what = p.incomplete + "; " + what
	}
	p.incomplete = what
}

// cutAtLine keeps at most n characters and drops a line that would be broken.
func cutAtLine(s string, n int) string {
	if n <= 0 {
		return ""
	}
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	if line := strings.LastIndexByte(s[:end], '\n'); line >= 0 {
		return s[:line]
	}
	// One long line: an entity must not be broken.
	if amp := strings.LastIndexByte(s[:end], '&'); amp >= 0 && end-amp < len("&#64;") {
		return s[:amp]
	}
	return s[:end]
}

func orUnknown(permissions map[string]any) map[string]any {
	if permissions == nil {
		return map[string]any{"known": false, "reason": "the cluster's credential was not examined"}
	}
	return permissions
}
