package config

import (
	"fmt"
	"log/slog"
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
