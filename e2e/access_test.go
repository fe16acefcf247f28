package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// TestAWritingCredentialIsNotHandedOut lets a server with an administrator's
// credential investigate a fault of a real cluster: the facts are collected with
// it, the agent gets no access, and permissions, report, log and the list of
// clusters say so and what to do. Allowed by name, the agent looks.
func TestAWritingCredentialIsNotHandedOut(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	for name, allow := range map[string]bool{"refused": false, "allowed by name": true} {
		t.Run(name, func(t *testing.T) {
			s, p := newRealSite(t), newPatient(t, kube)
			s.script(`cp "$KUBECONFIG" "$OUTPUT_DIR/artifacts/kubeconfig"` + "\n" + reports)
			a := s.app(func(o *app.Options) {
				o.Reach = nil
				o.Config.Clusters[0].Kubeconfig, o.Config.Clusters[0].AllowWriteCredential = kube.Kubeconfig, allow
			})
			s.push("real", p.fault(t))
			inc := s.ended()
			s.checkReport(inc, p, "agent", "permission-denied")
			if guarded := strings.Contains(string(s.file(inc, "output/artifacts/kubeconfig")), "https://127.0.0.1:"); guarded != allow {
				t.Errorf("the agent's kubeconfig names a server: %v", guarded)
			}
			s.tellsOfAccess(inc, a.Statuses()[0].Access, allow)
		})
	}
}

// tellsOfAccess holds what is said about an administrator's credential together.
func (s *site) tellsOfAccess(inc nightcrier.Incident, shown *nightcrier.Access, allowed bool) {
	s.Helper()
	if shown.ReadOnly != "no" || shown.Agents != allowed || !strings.Contains(shown.Detail, "change everything in the cluster") {
		s.Errorf("the list of clusters says %+v", shown)
	}
	var permissions map[string]any
	s.must(json.Unmarshal(s.file(inc, "incident_cluster_permissions.json"), &permissions))
	if permissions["canWrite"] != "yes" || permissions["agentAccess"] != allowed || permissions["canGetSecrets"] != true {
		s.Errorf("incident_cluster_permissions.json says %v", permissions)
	}
	rep := s.report(inc)
	if rep.BlastRadius["credential"] != "it can change everything in the cluster" || rep.Permissions["agentAccess"] != allowed {
		s.Errorf("the report says %v, %v", rep.BlastRadius, rep.Permissions)
	}
	unseen := slices.ContainsFunc(rep.NotChecked, func(n nightcrier.NotChecked) bool {
		return strings.Contains(n.What, "by the agent itself") && strings.Contains(n.Why, "nightcrier rbac kubeconfig")
	})
	if unseen == allowed {
		s.Errorf("not checked: %+v", rep.NotChecked)
	}
	event := "agent_access_refused"
	if allowed {
		event = "credential_not_read_only"
	}
	log, err := os.ReadFile(s.logFile)
	s.must(err)
	if !bytes.Contains(log, []byte(event)) {
		s.Errorf("the log does not say %s", event)
	}
}
