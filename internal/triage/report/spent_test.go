package report

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// TestWhatAnAgentCost has a report say what was spent, to the digit, and which layers
// held, also where the agent failed and the facts are the built-in rules'.
func TestWhatAnAgentCost(t *testing.T) {
	for _, tt := range []struct {
		usage nightcrier.Usage
		want  string
	}{
		{nightcrier.Usage{InputTokens: 40852, OutputTokens: 156, CostUSD: 0.083264}, "### Spent on Models\n\n- $0.083264: 40852 tokens in, 156 out\n"},
		{nightcrier.Usage{InputTokens: 1, CostUSD: 2}, "- $2.00: 1 tokens in, 0 out\n"},
		{nightcrier.Usage{InputTokens: 7, OutputTokens: 1}, "- 7 tokens in, 1 out; in dollars it is not known"},
		{nightcrier.Usage{APIRequests: 3}, ""},
	} {
		r := &nightcrier.Report{Source: "builtin", Severity: "P1", SandboxLayers: []string{"netns", "seccomp"}, Usage: tt.usage}
		md := string(Final(r, Detail{}))
		if tt.want == "" && strings.Contains(md, "Spent on") || !strings.Contains(md, tt.want) {
			t.Errorf("%+v: want %q in\n%s", tt.usage, tt.want, md)
		}
		if !strings.Contains(md, "### Sandbox\n\n- netns, seccomp\n") {
			t.Errorf("no layers in\n%s", md)
		}
		if strings.Contains(md, "does not grant") {
			t.Errorf("something is missing in\n%s", md)
		}
		r.SandboxMissing = []string{"pidns", "landlock-net"}
		if md := string(Final(r, Detail{})); !strings.Contains(md, "### Sandbox\n\n- netns, seccomp\n- without pidns, landlock-net, which this machine does not grant\n") {
			t.Errorf("what is missing is not said in\n%s", md)
		}
	}
}
