package pipeline

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page has each key, and no other; its example is one.
func TestDocs(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	page, r := string(raw), &reader{def: &Definition{}}
	want := map[string]bool{}
	for prefix, known := range map[string]keys{
		"": r.pipelineKeys(r.def), "on.": r.triggerKeys(&Trigger{}), "notifications.": r.notificationKeys(&Notification{}), "concurrency.": r.concurrencyKeys(&Concurrency{}), "phases.": r.phaseKeys(&Phase{}),
		"steps.": r.stepKeys(&Step{}), "steps.deliverable.": r.deliverableKeys(&Deliverable{}), "steps.approval.": r.approvalKeys(&Approval{}),
	} {
		for key := range known {
			want[prefix+key] = true
		}
	}
	_, keysOn, _ := strings.Cut(page, "\n## Keys\n")
	keysOn, _, _ = strings.Cut(keysOn, "\n## ")
	got := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(keysOn, -1) {
		got[m[1]] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("docs/pipelines.md has the keys\n%q, the files\n%q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	_, example, _ := strings.Cut(page, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	mustRead(t, example)
	for _, words := range append(Actions(), OnIncident, OnGitHubPR, OnWebhook, OnCron, OnManual) {
		if !strings.Contains(keysOn, "`"+words+"`") {
			t.Errorf("docs/pipelines.md lacks %s", words)
		}
	}
}
