package webhook

import (
	"os"
	"strings"
	"testing"
)

// TestDocs holds docs/events.md against the tables.
func TestDocs(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range rules {
		ok := false
		for line := range strings.Lines(string(file)) {
			ok = ok || strings.Contains(line, "`"+name+"`") && strings.Contains(line, rule.faultType) && strings.Contains(line, "| "+rule.kind+" |")
		}
		if !ok {
			t.Errorf("docs/events.md does not say that %s is %s of a %s", name, rule.faultType, rule.kind)
		}
		if _, known := kindOf(rule.kind); !known {
			t.Errorf("%s is about %s, which no label names", name, rule.kind)
		}
	}
	roles := []string{"namespace", "container"}
	for _, k := range named {
		roles = append(roles, k.role)
	}
	for _, role := range roles {
		if !strings.Contains(string(file), "`"+role+"`") {
			t.Errorf("docs/events.md lacks the label %s", role)
		}
	}
}
