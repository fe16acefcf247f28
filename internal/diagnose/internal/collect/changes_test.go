package collect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestWhoDelivers(t *testing.T) {
	s := scenetest.New(t, strings.Replace(scenetest.EditedDeployment(time.Hour), "labels: {", `annotations: {argocd.argoproj.io/tracking-id: "ops_shop:apps/Deployment:shop/cart"}
  labels: {helm.toolkit.fluxcd.io/name: "../evil", helm.toolkit.fluxcd.io/namespace: x, `, 1))
	meta, selector := s.WorkloadOf(scenetest.Cart)
	var got []string
	for _, r := range scene.DeliveredBy(*meta) {
		got = append(got, r.APIVersion+" "+r.String())
	}
	want := []string{"argoproj.io/v1alpha1 ops/Application/shop", "kustomize.toolkit.fluxcd.io/v1 flux-system/Kustomization/shop"}
	if !slices.Equal(got, want) || selector != "app=cart" {
		t.Errorf("got %q, selector %q", got, selector)
	}
}

func TestManagersAreTrimmed(t *testing.T) {
	got := string(ScrubBody([]byte(`{"kind":"ConfigMap","metadata":{"name":"a","managedFields":[
		{"manager":"helm","operation":"Update","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{}}},
		{"manager":"kubectl-edit","operation":"Update","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:data":{}}},
		{"manager":"kubelet","operation":"Update","time":"2026-01-03T00:00:00Z","subresource":"status"}]}}`)))
	want := `{"kind":"ConfigMap","metadata":{"managedFields":[{"manager":"kubectl-edit","operation":"Update","time":"2026-01-02T00:00:00Z"}],"name":"a"}}`
	if strings.TrimSpace(got) != want {
		t.Errorf("got %s", got)
	}
}
