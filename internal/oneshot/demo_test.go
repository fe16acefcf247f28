package oneshot

import (
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestLedToNone(t *testing.T) {
	for want, suppressed := range map[string]map[nightcrier.Reason]int{
		"every one counts": nil,
		"3 led to none (1 not a fault, 2 below threshold)": {nightcrier.BelowThreshold: 2, nightcrier.NotAFault: 1},
	} {
		if got := ledToNone(suppressed); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
