package api

import (
	"strings"
	"testing"
)

func TestPipelinesAreAListOfTheirOwn(t *testing.T) {
	for want, list := range map[string]func() []Pipeline{
		`[]`: nil,
		`[{"name":"deploy","description":"","steps":2},{"name":"review","description":"Looks at a change","steps":4}]`: func() []Pipeline {
			return []Pipeline{{Name: "deploy", Steps: 2}, {Name: "review", Description: "Looks at a change", Steps: 4}}
		},
	} {
		a := newFake().api(t, func(o *Options) { o.Pipelines = list })
		rec := ask(a, "GET", path("pipelines"))
		if got := strings.TrimSpace(rec.Body.String()); rec.Code != 200 || got != want {
			t.Errorf("%d, %s; want %s", rec.Code, got, want)
		}
		if !describes(t, a, "GET", path("pipelines"), 200) {
			t.Error("it is not described")
		}
		if rec := ask(a, "GET", path("pipelines?x=1")); rec.Code != 422 {
			t.Errorf("an unknown parameter: %d", rec.Code)
		}
	}
}
