package kubetest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// AuditEvent is a request as the API server's audit log has it. A request is in
// there twice at least: when it came, and when it was answered.
type AuditEvent struct {
	Stage, Verb, RequestURI, UserAgent string

	User             struct{ Username string }
	ImpersonatedUser *struct{ Username string }
	ObjectRef        *struct{ Resource, Subresource, Namespace, Name string }
}

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata}]
`

// keepAudit makes the server that is to be started write every request down
// before it works on it.
func (s *Server) keepAudit() error {
	s.audit = filepath.Join(s.scratch.Path, "audit.log")
	return os.WriteFile(s.auditPolicy(), []byte(auditPolicy), 0o600)
}

func (s *Server) auditPolicy() string { return filepath.Join(s.scratch.Path, "audit-policy.yaml") }

func (s *Server) auditFlags() []string {
	if s.audit == "" {
		return nil
	}
	return []string{"--audit-policy-file=" + s.auditPolicy(), "--audit-log-path=" + s.audit, "--audit-log-mode=blocking"}
}

// Audit returns what the server, made by Audited, was asked so far.
func (s *Server) Audit(tb testing.TB) []AuditEvent {
	tb.Helper()
	log, err := os.ReadFile(s.audit)
	if err != nil {
		tb.Fatalf("kubetest: audit log: %v", err)
	}
	var events []AuditEvent
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			break // being written
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			tb.Fatalf("kubetest: audit log: %v", err)
		}
		events = append(events, e)
	}
	return events
}
