package config

import (
	"fmt"
	"log/slog"
	"net/url"
)

// secretMask is what a secret prints as.
const secretMask = "‹secret›"

// Secret is a text that no printer, encoder or logger shows. The text is
// behind a pointer, so that even printing a struct that holds a Secret in an
// unexported field does not reach it. The zero Secret is unset.
type Secret struct{ text *string }

// NewSecret returns a Secret that holds text; an empty text is unset.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text, "" when unset.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet reports whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// Equal reports whether both hold the same text.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String returns the mask, "" when unset.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return secretMask
}

// Format prints the mask whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// MarshalText encodes the mask, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue logs the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Secrets are all that the configuration holds.
func (c *Config) Secrets() []string {
	database := c.DatabaseURL.Reveal()
	values := []string{c.Slack.WebhookURL.Reveal(), database}
	if u, err := url.Parse(database); err == nil && u.User != nil {
		password, _ := u.User.Password()
		values = append(values, password)
	}
	for _, key := range c.ModelKeys() {
		values = append(values, key.Reveal())
	}
	for _, cl := range c.Clusters {
		values = append(values, cl.MCP.APIKey.Reveal(), cl.Alertmanager.Token.Reveal())
		for _, e := range []Endpoint{cl.Sources.Prometheus, cl.Sources.Loki} {
			values = append(values, e.Token.Reveal(), e.Password.Reveal())
		}
	}
	for _, w := range c.Webhooks {
		values = append(values, w.Token.Reveal())
	}
	for _, s := range c.ToolServers {
		for _, value := range s.Variables {
			values = append(values, value.Reveal())
		}
	}
	return values
}
