package text

import (
	"slices"
	"strings"
	"testing"
)

func TestCountEdits(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"timeout", "timeuot", 1}, {"kitten", "sitting", 3}, {"agent", "agents", 1}, {strings.Repeat("x", 200), strings.Repeat("x", 300), 0}}
	for _, tt := range tests {
		if got := CountEdits(tt.a, tt.b); got != tt.want {
			t.Errorf("CountEdits(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestFindNear(t *testing.T) {
	names := []string{"cart", "cart-7d4b9c8f6d-abcde", "cart-7d4b9c8f6d-x2x7q", "catalog", "frontend", "card"}
	for name, tt := range map[string]struct {
		nearest string
		near    []string
	}{
		"crat":     {"cart", []string{"cart"}},
		"Cart":     {"cart", []string{"cart", "card"}},
		"cart":     {"cart", []string{"cart", "card"}},
		"cart-":    {"cart", []string{"cart"}},
		"fronted":  {"frontend", []string{"frontend"}},
		"forntned": {"frontend", []string{"frontend"}},
		"payments": {"", nil},
		"":         {"", nil},
	} {
		if got := FindNearest(name, names); got != tt.nearest {
			t.Errorf("FindNearest(%q) = %q, want %q", name, got, tt.nearest)
		}
		if got := FindNear(name, names, 2); !slices.Equal(got, tt.near) {
			t.Errorf("FindNear(%q) = %q, want %q", name, got, tt.near)
		}
	}
	if got := FindNearest("claude", []string{"codex", "claude-code"}); got != "claude-code" {
		t.Errorf("the first word of a name means %q", got)
	}
	pods := names[1:3]
	if got := FindNear("cart", pods, 5); !slices.Equal(got, pods) {
		t.Errorf("the beginning of two names means %q", got)
	}
}

func TestSuggestName(t *testing.T) {
	for name, want := range map[string]string{"fronted": "; did you mean frontend?", "payments": ""} {
		if got := SuggestName("; did you mean %s?", name, []string{"cart", "frontend"}); got != want {
			t.Errorf("for %q it suggests %q, want %q", name, got, want)
		}
	}
}
