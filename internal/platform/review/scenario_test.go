package review

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is posted into the cases")

// readCase reads a case: sections, each below a line "-- name --".
func readCase(t *testing.T, file string) (sections map[string]string, order []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections = map[string]string{}
	name := "about"
	for line := range strings.Lines(string(raw)) {
		if inner, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "-- "); ok && strings.HasSuffix(inner, " --") {
			name = strings.TrimSuffix(inner, " --")
			order = append(order, name)
			continue
		}
		sections[name] += line
	}
	return sections, order
}

// Each file of testdata is a case: a diff, what agents delivered, what was posted before, and what is
// posted. To add one, write the sections before "posted" and run the test with -update.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			in, order := readCase(t, file)
			l := looked{runID: "R1", about: About{Head: strings.Repeat("1", 40)}, diff: ParseDiff([]byte(in["diff"]))}
			if said := in["policy"]; said != "" {
				if err := json.Unmarshal([]byte(said), &l.policy); err != nil {
					t.Fatal(err)
				}
			}
			l.about.HiddenLines = l.diff.clean(func(s string) string { return s })
			l.about.Files = newMaterial(About{}, &l.diff, nil, readAttributes(in["gitattributes"]), nil).about.Files
			l.posted.Summary = strings.TrimSpace(in["summary before"])
			for _, body := range strings.Split(in["comments before"], "\n\n") {
				l.posted.Comments = append(l.posted.Comments, PostedComment{Body: body, Resolved: strings.Contains(body, "resolved")})
			}
			for _, name := range order {
				if step, ok := strings.CutPrefix(name, "agent "); ok {
					a := Agent{Step: step}
					if said, failed := strings.CutPrefix(in[name], "failed: "); failed {
						a.Failure = strings.TrimSpace(said)
					} else {
						d, err := readDelivered([]byte(in[name]))
						if err != nil {
							t.Fatal(err)
						}
						a.Summary, a.findings = d.Summary, d.Findings
					}
					l.agents = append(l.agents, a)
				}
			}
			plan := l.plan()
			checkPlan(t, &l, &plan)
			got := plan.Preview()
			if *update {
				raw, _ := os.ReadFile(file)
				before, _, _ := strings.Cut(string(raw), "-- posted --\n")
				if err := os.WriteFile(file, []byte(before+"-- posted --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != in["posted"] {
				t.Errorf("posted:\n%s\nwant:\n%s", got, in["posted"])
			}
		})
	}
}

// checkPlan holds of every plan, whatever agents deliver.
func checkPlan(t *testing.T, l *looked, p *Plan) {
	t.Helper()
	if p.Review != nil {
		limit := l.policy.Max
		if limit == 0 {
			limit = defaultMax
		}
		if len(p.Review.Comments) > limit {
			t.Errorf("%d comments on lines", len(p.Review.Comments))
		}
		for _, c := range p.Review.Comments {
			if !l.diff.shows(found{Finding: Finding{Path: c.Path, Side: c.Side, Line: c.Line, Start: c.Start}}) {
				t.Errorf("%s:%d stands on no line of the diff", c.Path, c.Line)
			}
			for _, said := range l.posted.Comments {
				if print := printLine.FindString(c.Body); strings.Contains(said.Body, print) {
					t.Errorf("%s is repeated", print)
				}
			}
		}
	}
	if p.Summary != nil && (!strings.HasPrefix(p.Summary.Body, summaryMarker) || len(p.Summary.Body) > maxPosted) {
		t.Errorf("a summary of %d bytes", len(p.Summary.Body))
	}
}
