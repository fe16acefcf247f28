// Package scenetest makes the scenes that rules, reads and reports are tested on.
package scenetest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// CheckFinding checks what every finding of every rule owes its reader.
func CheckFinding(t *testing.T, f scene.Finding) {
	t.Helper()
	if f.Entry.Meaning == "" {
		t.Errorf("cause %q is not published", f.Cause)
	}
	if f.Object.Name == "" || f.Summary == "" || f.WrongIf == "" || f.Confidence == "" || len(f.Actions) == 0 {
		t.Errorf("%s: incomplete: %+v", f.Cause, f)
	}
	if f.Test.Command == "" || f.Test.IfTrue == "" || f.Test.IfFalse == "" || f.Test.Outcome != "not-run" {
		t.Errorf("%s: no falsification test: %+v", f.Cause, f.Test)
	}
	if len(f.Observed) == 0 || f.Observed[0].Ref.Evidence == "" {
		t.Errorf("%s: rests on nothing: %+v", f.Cause, f.Observed)
	}
	for _, a := range f.Actions {
		if a.Action == "" || a.Outcome == "" || a.Risk == "" {
			t.Errorf("%s: incomplete action %+v", f.Cause, a)
		}
	}
}

// New reads a Scene from YAML documents, as if all objects of each kind that
// occurs, and of the kinds named beside it, had been read in namespace shop.
func New(t testing.TB, manifests string, complete ...string) *scene.Scene {
	t.Helper()
	s := &scene.Scene{Now: Now}
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
		if err := s.Add(u.GetKind(), body, scene.Ref{Evidence: "E1", Source: "kubectl get " + strings.ToLower(u.GetKind())}); err != nil {
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

// Unlisted is a Scene with the same objects, of which no list was read to its end.
func Unlisted(s *scene.Scene) *scene.Scene {
	out := &scene.Scene{}
	from, to := reflect.ValueOf(s).Elem(), reflect.ValueOf(out).Elem()
	for i := range from.NumField() {
		if from.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return out
}
