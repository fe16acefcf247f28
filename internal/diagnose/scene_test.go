package diagnose

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sceneOf reads a Scene from YAML documents, as if all objects of each kind that
// occurs, and of the kinds named beside it, had been read in namespace shop.
func sceneOf(t testing.TB, manifests string, complete ...string) *Scene {
	t.Helper()
	s := &Scene{Now: now}
	for _, doc := range strings.Split(manifests, "\n---\n") {
		var fields map[string]any
		if err := yaml.Load([]byte(doc), &fields, yaml.WithUniqueKeys(false)); err != nil { // the last of a key counts
			t.Fatal(err)
		}
		body, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(body); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if err := s.Add(u.GetKind(), body, Ref{"E1", "kubectl get " + strings.ToLower(u.GetKind())}); err != nil {
			t.Fatal(err)
		}
		complete = append(complete, u.GetKind())
	}
	for _, kind := range complete {
		s.SetComplete(kind, "shop")
		s.SetComplete(kind, "")
	}
	return s
}

// unlisted is a Scene with the same objects, of which no list was read to its end.
func unlisted(s *Scene) *Scene {
	out := &Scene{}
	from, to := reflect.ValueOf(s).Elem(), reflect.ValueOf(out).Elem()
	for i := range from.NumField() {
		if from.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return out
}

// checkScene runs all rules about the surroundings and compares the causes, as
// "cause Kind name", the best first.
func checkScene(t *testing.T, s *Scene, want ...string) {
	t.Helper()
	var got []string
	for _, f := range applyScene(s) {
		got = append(got, f.Cause+" "+f.Object.Kind+" "+f.Object.Name)
		sane(t, f)
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings %q, want %q", got, want)
	}
}

func TestSceneKeepsWhatItIsGiven(t *testing.T) {
	s := sceneOf(t, `{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: cart}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {namespace: shop, name: w}}`)
	if findObject(s.Services, "shop", "cart") == nil || findObject(s.Services, "other", "cart") != nil || len(s.Others) != 1 {
		t.Errorf("kept %d services, %d others", len(s.Services), len(s.Others))
	}
	if err := s.Add("Pod", []byte(`{"spec": 3}`), Ref{Source: "kubectl get pods"}); err == nil || !strings.Contains(err.Error(), "kubectl get pods") {
		t.Errorf("a Pod that is none: %v", err)
	}
}
