package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

// An incident that our rules have looked at is investigated again by each real CLI:
// with that one's provider, and its key and address out of all that are set.
func TestRetryWithAnotherExecutor(t *testing.T) {
	m := fakemodel.New(t)
	s := newSite(t, "")
	path := os.Getenv("PATH")
	for _, cli := range agent.CLIs() {
		path = filepath.Dir(clitest.CLI(t, cli.Command)) + string(filepath.ListSeparator) + path
	}
	t.Setenv("PATH", path)
	s.env["AGENT_MODEL"] = "scripted"
	for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
		s.env[config.KeyVariables(p)[0]] = realKey + "-" + string(p)
		s.env[config.AddressVariables(p)[0]] = m.URL("triage-report")
	}
	a := s.app(nil)
	s.push(cluster, fault(t, oom))
	inc := s.ended()
	for _, cli := range agent.CLIs() {
		before := len(m.Requests("triage-report"))
		_, err := a.Retry(t.Context(), inc.ID, cli.Name)
		s.must(err)
		inc = s.ended()
		if inc.Executor != cli.Name || inc.Status != nightcrier.Resolved {
			t.Errorf("%s: %s by %s: %s", cli.Name, inc.Status, inc.Executor, inc.FailureReason)
		}
		asked := m.Requests("triage-report")[before:]
		if len(asked) == 0 {
			t.Errorf("%s asked no model", cli.Name)
		}
		for _, r := range asked {
			key := r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key") + r.Header.Get("Authorization")
			if want := realKey + "-" + string(cli.Providers[0]); key != want && key != "Bearer "+want {
				t.Errorf("%s: %s was asked with another key", cli.Name, r.Path)
			}
		}
	}
	if _, err := a.Retry(t.Context(), inc.ID, "copilot"); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("an executor that nobody knows: %v", err)
	}
	s.noKeyIn(s.root)
}
