package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/compose"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// explainFacts runs all rules and composes what they find.
func explainFacts(f *scene.Facts) compose.Composition {
	own, all := rules.Judge(f)
	return compose.Compose(f, own, all)
}

// What is well in every way is found to be, by all rules together.
func TestAWellNamespaceHasNoFindings(t *testing.T) {
	f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, scenetest.WellShop), Target: nightcrier.Resource{Kind: "Namespace", Name: "shop"}, Owner: nightcrier.Resource{Kind: "Namespace", Name: "shop"}}
	for _, n := range explainFacts(f).Findings {
		t.Errorf("%s: %s", scenetest.Headline(n), n.Summary)
	}
}

func BenchmarkJudge(b *testing.B) {
	var docs []string
	for i := range 50 {
		docs = append(docs, scenetest.WellWorkload(fmt.Sprintf("w%d", i), fmt.Sprintf(`{name: NEXT_URL, value: "http://w%d:8080"}`, (i+1)%50), ""))
	}
	s := scenetest.New(b, strings.Join(docs, "\n---\n"))
	b.ResetTimer()
	for b.Loop() {
		r := nightcrier.Resource{Kind: "Namespace", Name: "shop"}
		explainFacts(&scene.Facts{Now: scenetest.Now, Scene: s, Target: r, Owner: r})
	}
	b.ReportMetric(float64(len(docs))*float64(b.N)/b.Elapsed().Seconds(), "workloads/s")
}
