package price

import (
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestTable(t *testing.T) {
	table, err := Defaults().With([]string{"openai:gpt-5=1.25/10/0.125", "claude-sonnet-5-5=1/2", "qwen*=0/0", "qwen3-*=1/1/1/1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		provider nightcrier.Provider
		model    string
		want     Money // of a million tokens in and out
	}{
		{nightcrier.OpenAI, "gpt-5", FromDollars(11.25)},
		{nightcrier.OpenAI, "gpt-5-2026-01-01", FromDollars(11.25)},
		{nightcrier.OpenAI, "gpt-4o", FromDollars(12.5)},
		{nightcrier.OpenAI, "gpt-4o-2024-08-06", FromDollars(12.5)},
		{nightcrier.OpenAI, "gpt-4o-2024-05-13", FromDollars(20)}, // dearer than its name
		{nightcrier.OpenAI, "gpt-5.6-terra", FromDollars(22)},
		{nightcrier.OpenAI, "gpt-6.1-sol", FromDollars(19)}, // what codex asks by itself
		{nightcrier.Google, "gemini-2.5-pro", FromDollars(17.5)},
		{nightcrier.OpenAI, "gpt-unheard-of", -1},
		{nightcrier.Google, "gpt-5", -1},
		{"", "claude-sonnet-4-5-20250929", FromDollars(18)},
		{nightcrier.Anthropic, "claude-sonnet-5-5", FromDollars(3)},
		{nightcrier.OpenAI, "qwen2", 0},
		{nightcrier.OpenAI, "qwen3-coder", FromDollars(2)},
		{nightcrier.Anthropic, "claude-haiku-5-5", FromDollars(3)},
	} {
		p, ok := table.Of(c.provider, c.model)
		if got := p.Of(Tokens{Input: 1e6, Output: 1e6}); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s %s: %s, %t", c.provider, c.model, got, ok)
		}
	}
	p, _ := table.Of("", "claude-haiku-5-5")
	if got := p.Of(Tokens{Input: 1000}); got != FromDollars(0.0001) {
		t.Errorf("a short request costs %s", got)
	}
	for _, bad := range []string{"", "x", "x=1", "=1/2", "x=1/2/3/4/5", "x=-1/2", "x=NaN/1", "x=1/y", "[=1/2"} {
		if e, err := ParseEntry(bad); err == nil {
			t.Errorf("%q is %+v", bad, e)
		}
	}
}
