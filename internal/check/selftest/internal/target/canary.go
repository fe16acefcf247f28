package target

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// Canary is a secret of the scripted cluster that is to be seen nowhere else.
type Canary struct {
	Where, Value string

	packed string // what holds it packed, "" for nothing
}

// FindIn tells how a canary stands in a text: "" when it does not, " as it is", or the
// spelling.
func (c Canary) FindIn(text string) string {
	where := findSecret(text, c.Value)
	if where == "" && c.packed != "" { // whoever has it can unpack it
		where = findSecret(text, c.packed)
	}
	return where
}

// findSecret is FindIn of a secret by itself.
func findSecret(text, secret string) string {
	if strings.Contains(text, secret) {
		return " as it is"
	}
	if strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(secret))) {
		return " in hex"
	}
	if strings.Contains(text, url.QueryEscape(secret)) {
		return " escaped for a URL"
	}
	turned := []rune(secret)
	slices.Reverse(turned)
	if strings.Contains(text, string(turned)) {
		return " backwards"
	}
	// Within a longer text, base64 of the same bytes has three forms.
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			whole := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
			// The first and the last characters hold bits of the neighbours.
			if core := whole[min(len(whole), shift+1) : len(whole)-2]; len(core) > 12 && strings.Contains(text, core) {
				return " in base64"
			}
		}
	}
	return ""
}
