package scene_test

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// What is missing is followed to who makes it, what that was told to use, and, for what is
// made in steps, to the last step.
func TestWhoMakesWhat(t *testing.T) {
	s := scenetest.New(t, scenetest.JoinDocs(
		`{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {namespace: shop, name: db}, spec: {secretStoreRef: {kind: ClusterSecretStore, name: vault}, target: {name: db-login}}}`,
		`{apiVersion: external-secrets.io/v1, kind: ClusterSecretStore, metadata: {name: vault}}`,
		`{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {namespace: shop, name: web}, spec: {secretName: web-tls}}`,
		`{apiVersion: cert-manager.io/v1, kind: CertificateRequest, metadata: {namespace: shop, name: web-1, ownerReferences: [{apiVersion: cert-manager.io/v1, kind: Certificate, name: web, uid: u, controller: true}]}}`,
	))
	g := scene.DrawGraph(s)
	for from, to := range map[nightcrier.Object]nightcrier.Object{
		scenetest.InShop("Secret", "db-login"): {Kind: "ClusterSecretStore", Name: "vault"},
		scenetest.InShop("Secret", "web-tls"):  scenetest.InShop("CertificateRequest", "web-1"),
	} {
		if _, reached := g.ReachFrom(from, scene.ByMake)[to]; !reached {
			t.Errorf("%s does not lead to %s", from, to)
		}
	}
}

// The items of a list that an API server sends do not say of which kind they are.
func TestAddOfAList(t *testing.T) {
	s := &scene.Scene{}
	if err := s.Add("ControllerRevision", []byte(`{"metadata":{"namespace":"shop","name":"db-1"},"revision":1}`), scene.Ref{Evidence: "E1"}); err != nil {
		t.Fatal(err)
	}
	if len(s.Others) != 1 || s.Others[0].Object.GetKind() != "ControllerRevision" || s.Others[0].Object.GetName() != "db-1" {
		t.Errorf("%+v", s.Others)
	}
}

// An object says that it is well by a condition that holds since after the warning; an older word,
// or one against it, says nothing.
func TestSaysItIsWell(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		conditions string
		want       bool
	}{
		"ready since":               {`[{"type":"Ready","status":"True","lastTransitionTime":"2026-03-01T11:05:00Z"}]`, true},
		"ready since before":        {`[{"type":"Ready","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"}]`, false},
		"not ready":                 {`[{"type":"Ready","status":"False","message":"no route","lastTransitionTime":"2026-03-01T11:05:00Z"}]`, false},
		"ready, and stalled beside": {`[{"type":"Ready","status":"True","lastTransitionTime":"2026-03-01T11:05:00Z"},{"type":"Stalled","status":"True","message":"retries are over"}]`, false},
		"says nothing":              {`[]`, false},
	} {
		s := &scene.Scene{}
		if err := s.Add("Widget", []byte(`{"kind":"Widget","metadata":{"namespace":"shop","name":"w"},"status":{"conditions":`+c.conditions+`}}`), scene.Ref{Evidence: "E1"}); err != nil {
			t.Fatal(err)
		}
		if got := s.SaysItIsWell(nightcrier.Object{Kind: "Widget", Namespace: "shop", Name: "w"}, at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if s.SaysItIsWell(nightcrier.Object{Kind: "Widget", Namespace: "shop", Name: "other"}, at) {
			t.Errorf("%s: another one is well that was not read", name)
		}
	}
}

// The last cause that a trace names is the reason, up to the next message.
func TestInnermostReason(t *testing.T) {
	lines := []string{
		"ERROR request failed: java.lang.IllegalStateException: cannot process",
		"\tat org.example.A.run(A.java:1)",
		"Caused by: org.example.WrapperException: read failed",
		"\tat org.example.B.run(B.java:2)",
		"Caused by: java.io.EOFException: the file is cut",
		"INFO next request",
		"Caused by: nothing of the above",
	}
	if got := scene.InnermostReason(lines, 0); got != "Caused by: java.io.EOFException: the file is cut" {
		t.Error(got)
	}
	if got := scene.InnermostReason(lines, 5); got != "Caused by: nothing of the above" {
		t.Error(got)
	}
	if got := scene.InnermostReason([]string{"ERROR alone", "INFO next"}, 0); got != "ERROR alone" {
		t.Error(got)
	}
}
