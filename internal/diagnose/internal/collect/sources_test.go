package collect

import (
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func FuzzSources(f *testing.F) {
	f.Add(scenetest.MetricAnswer("1", "NaN"))
	f.Add(scenetest.LogAnswer("a", "b"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range pointsOf(body) {
			if !(p.Value >= 0) || p.Text == "" {
				t.Errorf("%+v", p)
			}
		}
		if text := linesIn(body); len(text) > logBytes {
			t.Errorf("%d bytes", len(text))
		}
	})
}
