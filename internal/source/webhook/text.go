package webhook

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
)

// Bounds, in bytes, of what is taken over from a payload.
const (
	headSize = 4 << 10
	maxText  = 4 << 10
	maxValue = 128
	maxPairs = 64
	maxWord  = 100
)

// unreadable is the batch of a payload that nothing could be made of. It is kept,
// once.
func unreadable(hook, cluster string, body []byte, problem error) batch {
	d := nightcrier.Delivery{Source: Source, Cluster: cluster, Dialect: hook, EventID: nightcrier.DerivedID("unreadable", hook, cluster, string(body)), Raw: body}
	return batch{problem: problem, deliveries: []nightcrier.Delivery{refused(d, problem)}}
}

// refused is a delivery that starts nothing because of a problem with it.
func refused(d nightcrier.Delivery, problem error) nightcrier.Delivery {
	text := problem.Error()
	if d.Cluster == "" { // then it is the webhook by which one finds it
		text = "webhook " + d.Dialect + ": " + text
	}
	d.Reason, d.Detail = nightcrier.Malformed, clip(printable(text), maxError)
	if nightcrier.CodeOf(problem) == nightcrier.Exhausted {
		d.Reason = nightcrier.Oversized
	}
	return d
}

func invalid(what string, err error) error {
	return nightcrier.Errorf(nightcrier.Invalid, "%s: %s", what, clip(printable(err.Error()), maxError))
}

// clip cuts s to at most limit bytes, between characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// printable is s on one line, as text that steers nothing.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// word makes a short word of letters, digits and dashes out of a text, "" when
// there is nothing to make it of.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, clip(s, maxWord))
	return strings.Trim(s, "-")
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // maps of texts always encode
	}
	return b
}
