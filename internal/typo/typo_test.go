package typo

import (
	"slices"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"timeout", "timeuot", 1}, {"kitten", "sitting", 3}, {"agent", "agents", 1}, {strings.Repeat("x", 200), strings.Repeat("x", 300), 0}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestNear(t *testing.T) {
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
		if got := Nearest(name, names); got != tt.nearest {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, tt.nearest)
		}
		if got := Near(name, names, 2); !slices.Equal(got, tt.near) {
			t.Errorf("Near(%q) = %q, want %q", name, got, tt.near)
		}
	}
	if got := Nearest("claude", []string{"codex", "claude-code"}); got != "claude-code" {
		t.Errorf("the first word of a name means %q", got)
	}
	pods := names[1:3]
	if got := Near("cart", pods, 5); !slices.Equal(got, pods) {
		t.Errorf("the beginning of two names means %q", got)
	}
}
