package pods

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// A log whose last words tell nothing is the dearest: every wording is tried on
// every line near its end.
func BenchmarkTold(b *testing.B) {
	f := scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), strings.Repeat("2026-03-01T11:59:00Z ERROR [http-nio-8080-exec-7] c.s.cart.CartController : request 4f6a failed for the customer with a total of 42.10 and 7 items\n", 100))
	for b.Loop() {
		for c := range f.FailingContainers() {
			reasonInLog(f, c)
		}
	}
}
