package kubetest_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func TestAudited(t *testing.T) {
	s := kubetest.Audited(t)
	ns := s.Namespace(t)
	ofUs := func(e kubetest.AuditEvent) bool {
		return e.Verb == "create" && strings.HasPrefix(e.RequestURI, "/api/v1/namespaces") && e.User.Username == "admin" && e.ObjectRef.Name == ns
	}
	if events := s.Audit(t); !slices.ContainsFunc(events, ofUs) {
		t.Errorf("the making of %s is not among %d requests", ns, len(events))
	}
}

func TestOldKubectl(t *testing.T) {
	out, err := exec.Command(kubetest.OldKubectl(t), "version", "--client").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v1.32.") {
		t.Errorf("version: %v: %s", err, out)
	}
}
