package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// misdeeds is a kubectl that misbehaves by the name of a resource.
const misdeeds = `#!/bin/sh
echo "$2" > "$TMPDIR/deed"
case "$2" in
flood) exec yes "$(head -c 4000 /dev/full | tr '\0' x)" ;;
bomb) setsid sh -c 'bomb() { echo x >> "$TMPDIR/bombs"; bomb & bomb & exec sleep 1000; }; bomb' < /dev/null > /dev/null 2>&1 & echo gone ;;
esac
`

// An agent that does something to the machine ends as one that did not, or with a class
// that says what stopped it; its incident says the same wherever it is read, the facts are
// delivered, and nothing is left of it.
func TestMisdeedsAndTheirIncidents(t *testing.T) {
	kube := kubetest.Start(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(misdeeds), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	shell := oneOfEachKind()[0]
	byCLI := func(deed string) func(*testing.T) *site {
		return func(t *testing.T) *site {
			clitest.CLI(t, shell.cli)
			steps := []fakemodel.Step{{Tools: []fakemodel.ToolCall{shell.look(look{kubectl: "get " + deed})}}}
			return shell.site(t, fakemodel.New(t), append(steps, shell.deliver(oneFact)...))
		}
	}
	for name, c := range map[string]struct {
		begin func(*testing.T) *site
		deed  string
		ends  []string
	}{
		"a fork bomb": {byCLI("bomb"), "bomb", []string{"resolved", "failed timeout", "failed agent_error", "failed crash"}},
		// What the CLI keeps of it is its own affair.
		"endless output of a command": {byCLI("flood"), "flood", []string{"resolved", "failed timeout", "failed disk"}},
		"endless output of its own": {func(t *testing.T) *site {
			s := newRealSite(t)
			s.script("kubectl get flood\n")
			return s
		}, "flood", []string{"failed agent_error"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := c.begin(t), newPatient(t, kube)
			s.env["AGENT_TIMEOUT"] = "60"
			inc := s.investigate(t, p, kube.ReadOnly(t))
			if got := strings.TrimSpace(string(inc.Status) + " " + string(inc.FailureClass)); !slices.Contains(c.ends, got) {
				t.Errorf("ended %s: %s", got, inc.FailureReason)
			}
			// What filled the disk is removed, the deed's mark with it.
			if inc.FailureClass != nightcrier.FailDisk {
				if deed := strings.TrimSpace(string(s.file(inc, "tmp/deed"))); deed != c.deed {
					t.Errorf("the agent did %q", deed)
				}
			}
			var file struct {
				Status        nightcrier.IncidentStatus
				State         nightcrier.State
				FailureClass  nightcrier.FailureClass
				FailureReason string
			}
			s.must(json.Unmarshal(s.file(inc, "incident.json"), &file))
			if file.Status != inc.Status || file.State != inc.State || file.FailureClass != inc.FailureClass || file.FailureReason != inc.FailureReason {
				t.Errorf("incident.json has %+v, the store %s %s %s: %s", file, inc.Status, inc.State, inc.FailureClass, inc.FailureReason)
			}
			rep := s.report(inc)
			if source := map[bool]string{true: "agent", false: "builtin"}[inc.Status == nightcrier.Resolved]; rep.Source != source || rep.RootCause == nil {
				t.Errorf("%s: a report of %s, root cause %+v", inc.Status, rep.Source, rep.RootCause)
			}
			if inc.Attempts != 1 {
				t.Errorf("%d runs", inc.Attempts)
			}
			s.noneLeft()
		})
	}
}
