package doctor

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
)

// TestAModelWithoutAPrice is found by doctor where each of its calls would be refused.
func TestAModelWithoutAPrice(t *testing.T) {
	for _, tt := range []struct {
		model  string
		prices []string
		usd    float64
		status string
	}{
		{"house-model", nil, 2, statusFail},
		{"house-model", nil, 0, statusOK},
		{"house-model", []string{"house-*=1/2"}, 2, statusOK},
		{"claude-sonnet-4-5", nil, 2, statusOK},
		{"claude-sonnet-5-5", nil, 2, statusOK}, // what claude makes of sonnet
	} {
		cfg := &config.Config{}
		cfg.Budget.PerRunUSD = tt.usd
		a := config.Agent{Spec: agent.Spec{Provider: nightcrier.Anthropic, Prices: tt.prices}}
		c := checkPriced(cfg, a, []string{"claude-haiku-4-5", tt.model}, Check{Code: CheckModel}.asOK("a key is set"))
		if c.Status != tt.status || c.Status == statusFail && !strings.Contains(c.Hint, "agent.prices") {
			t.Errorf("%+v: %+v", tt, c)
		}
	}
}
