package scene_test

import (
	"testing"

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
