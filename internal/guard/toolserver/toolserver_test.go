package toolserver

import (
	"strings"
	"testing"
)

func TestNamesOfServers(t *testing.T) {
	for _, name := range []string{"", "A", "a b", "a_b", "kubernetes", "read", "loki", "9a", strings.Repeat("a", 21), "a\n"} {
		if CheckName(name) == nil {
			t.Errorf("%q passes", name)
		}
	}
	for _, name := range []string{"grafana", "a-1"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for pattern, ok := range map[string]bool{"query": true, "query_*": true, "*": true, "[": false, "": false, strings.Repeat("a", 200): false} {
		if (CheckPattern(pattern) == nil) != ok {
			t.Errorf("%.20q: %t", pattern, !ok)
		}
	}
}
