package prompt

import (
	"embed"
	"strings"
	"text/template"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

//go:embed text
var texts embed.FS

var templates = template.Must(template.ParseFS(texts, "text/report.md", "text/user.md", "text/repair.md"))

// mustText returns an embedded text; it exists, or a test would fail.
func mustText(name string) string {
	data, err := texts.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func renderTemplate(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return b.String()
}

// systemPrompt is the sentence, the generic part, and the report's form.
func (in Input) systemPrompt(generic string) string {
	report := renderTemplate("report.md", map[string]any{"SkillPath": in.SkillPath, "ReadIt": in.readIt(), "Headings": headings})
	return ReadOnly + "\n\n" + strings.TrimSpace(generic) + "\n\n" + report
}

func (in Input) userPrompt() string {
	inc := in.Incident
	triage := len(in.TriageReport) > 0
	return renderTemplate("user.md", map[string]any{
		"ID": inc.ID, "Cluster": escapeCell(inc.Cluster), "Namespace": orNone(escapeCell(inc.Namespace())),
		"Resource": escapeCell(inc.Resource.String()), "Fault": escapeCell(inc.FaultType), "Severity": inc.Severity.String(),
		"Reported": reportedAt(in.Event, inc), "Urgency": urgencyText(inc.Severity), "Depth": depthText(inc.Severity),
		"Asked":   inc.FaultType == nightcrier.Asked,
		"CanLook": in.CanLook, "WhyNot": orNoCredential(escapeCell(in.WhyNot)), "Sentence": ReadOnly, "SkillPath": in.SkillPath, "ReportPath": in.ReportPath,
		"Runbooks": len(in.Runbooks) > 0, "Earlier": in.Earlier != nil, "Recalled": in.Earlier != nil && in.Preload,
		"Triage": triage, "Preloaded": in.preloadedNote(triage), "Skills": in.otherSkills(), "Tools": quoteNames(in.Agent.Tools), "Commands": quoteNames(kubectlCommands(in.Agent.Verbs)), "AnswersOnly": in.Agent.AnswersOnly,
	})
}

// maxDescription bounds what a skill says of itself, in characters.
const maxDescription = 300

// otherSkills are the further skills, with what they say of themselves made harmless.
func (in Input) otherSkills() []Skill {
	var all []Skill
	for _, s := range in.Skills {
		about := escapeCell(text.CutRunes(text.MaskClean(s.Description, in.Mask, text.FoldLine), maxDescription))
		if about == "" {
			about = "it does not say what for"
		}
		all = append(all, Skill{Path: escapeCell(s.Path), Description: about})
	}
	return all
}

// readIt says by which means the agent reads its skill.
func (in Input) readIt() string {
	if in.Agent.FileTool != "" {
		return "with the tool `" + in.Agent.FileTool + "`"
	}
	return "for example `cat " + in.SkillPath + "`"
}

// kubectlCommands are those of kubectl for some verbs.
func kubectlCommands(verbs []string) []string {
	all := make([]string, len(verbs))
	for i, v := range verbs {
		all[i] = "kubectl " + v
	}
	return all
}

// quoteNames lists names as code, "" for none.
func quoteNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

func orNoCredential(why string) string {
	if why == "" {
		return "no credential is configured for it"
	}
	return why
}

func (in Input) preloadedNote(triage bool) string {
	where := "in front of this text"
	if in.Agent.PreloadInSystem {
		where = "in your instructions"
	}
	note := "The incident and what the credential may read stand " + where + ", in the blocks `incident` and `kubernetes_cluster_access_permissions`."
	switch {
	case triage && in.Preload:
		return note + " What was found before you started stands there too, as `initial_triage_report`; do not collect it again."
	case triage:
		return note + " What was found before you started is in a file."
	}
	return note + " Nothing was collected before you started: begin with the object named above."
}

func reportedAt(ev nightcrier.Event, inc *nightcrier.Incident) string {
	at := inc.Timestamp
	if at.IsZero() {
		at = inc.CreatedAt
	}
	if at.IsZero() {
		at = ev.ReceivedAt
	}
	if at.IsZero() {
		return "unknown"
	}
	return at.UTC().Format(time.RFC3339)
}

func urgencyText(s nightcrier.Severity) string {
	switch s {
	case nightcrier.Critical:
		return "**URGENT: a critical fault is open now. The first minutes count: name the cause and the safest mitigation first, then complete the report.**"
	case nightcrier.ErrorSeverity:
		return "**Something has failed and somebody will be asked to mend it today. Be quick and exact.**"
	case nightcrier.Warning:
		return "A warning was reported. Find out whether it is going to hurt."
	}
	return "For information: nothing is known to hurt. Say briefly what happened."
}

func depthText(s nightcrier.Severity) string {
	switch s {
	case nightcrier.Critical:
		return "Begin at P1 (P2 if a single pod is affected): full depth. Every section in full, three hypotheses weighed, blast radius and escalation triggers named."
	case nightcrier.ErrorSeverity:
		return "Begin at P3: concise. Short sentences, two hypotheses weighed, H3 in one line. Go to full depth and P2 if more than one workload is affected."
	}
	return "Begin at P4: minimal. The card, the facts, one hypothesis with its test, one action. Raise it if the facts show that users are affected."
}

func orNone(s string) string {
	if s == "" {
		return "none (cluster-wide)"
	}
	return s
}
