package prompt

import (
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// Where the whole of a block is that may be cut.
const (
	triageFile   = "context/initial_triage_report.md"
	runbooksFile = "context/runbooks.md"
	earlierFile  = "context/earlier_incident.md"
)

// earlierText says what an earlier incident came to, "" without one.
func earlierText(r *nightcrier.Recalled) string {
	if r == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Incident %s of %s had the same fingerprint, and its facts led to the same cause on the same object.\n", r.IncidentID, r.At.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "It was explained then as: %s\n", r.Summary)
	for i, n := range r.Notes {
		if i == 0 {
			b.WriteString("\nWhat people noted about it, the newest first:\n\n")
		}
		by := n.By
		if by != "" {
			by = " by " + by
		}
		fmt.Fprintf(&b, "- %s%s: %s\n", n.At.UTC().Format(time.RFC3339), by, strings.ReplaceAll(n.Text, "\n", "\n  "))
	}
	return b.String()
}

// runbooksText joins the runbooks that could be read, and names the others.
func runbooksText(list []nightcrier.Runbook) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "==> %s (%s) <==\n", r.Title, r.Source)
		if r.Problem != "" {
			fmt.Fprintf(&b, "(not read: %s)\n", r.Problem)
		}
		b.WriteString(strings.TrimRight(r.Text, "\n") + "\n\n")
	}
	return b.String()
}
