package compose

import (
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestPriority(t *testing.T) {
	cases := []struct {
		severity nightcrier.Severity
		impact   string
		outage   bool
		want     string
	}{
		{nightcrier.Critical, singlePod, false, "P2"}, {nightcrier.Critical, oneNamespace, false, "P1"}, {nightcrier.Critical, manyNamespaces, false, "P1"},
		{nightcrier.ErrorSeverity, singlePod, false, "P3"}, {nightcrier.ErrorSeverity, oneNamespace, false, "P2"},
		{nightcrier.Warning, singlePod, false, "P4"}, {nightcrier.Warning, oneNamespace, false, "P3"}, {nightcrier.Info, manyNamespaces, false, "P4"},
		{nightcrier.Critical, oneNamespace, true, "P1"}, {nightcrier.Critical, singlePod, true, "P2"}, {nightcrier.Warning, singlePod, true, "P2"},
		{nightcrier.Info, singlePod, true, "P4"},
	}
	for _, c := range cases {
		if got := ratePriority(c.severity, c.impact, c.outage); got != c.want {
			t.Errorf("%s, %s, outage %v: %s, want %s", c.severity, c.impact, c.outage, got, c.want)
		}
	}
}
