package prompt

// Repair asks for a report again, in the session that wrote it: the problems are
// what is wrong with it, in our words. Nothing of the report itself is repeated,
// and whatever stands in a problem expands to nothing.
func Repair(who Agent, problems []string) []byte {
	said := make([]string, len(problems))
	for i, p := range problems {
		said[i] = escapeCell(p)
	}
	return []byte(renderTemplate("repair.md", map[string]any{
		"Problems": said, "Headings": headings, "Sentence": ReadOnly, "ReportPath": defaultReportPath, "AnswersOnly": who.AnswersOnly,
	}))
}
