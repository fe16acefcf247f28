package webhook

import (
	"encoding/json"
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds, in bytes, of what is taken over from a payload.
const (
	headSize = 4 << 10
	maxText  = 4 << 10
	maxValue = 128
	maxPairs = 64
	maxWord  = 100
)

// unreadableBatch is the batch of a payload that nothing could be made of. It is kept,
// once.
func unreadableBatch(hook, cluster string, body []byte, problem error) batch {
	d := nightcrier.Delivery{Source: Source, Cluster: cluster, Dialect: hook, EventID: nightcrier.DerivedID("unreadable", hook, cluster, string(body)), Raw: body}
	return batch{problem: problem, deliveries: []nightcrier.Delivery{refusedDelivery(d, problem)}}
}

// refusedDelivery is a delivery that starts nothing because of a problem with it.
func refusedDelivery(d nightcrier.Delivery, problem error) nightcrier.Delivery {
	said := problem.Error()
	if d.Cluster == "" { // then it is the webhook by which one finds it
		said = "webhook " + d.Dialect + ": " + said
	}
	d.Reason, d.Detail = nightcrier.Malformed, text.CutLine(said, maxError)
	if nightcrier.CodeOf(problem) == nightcrier.Exhausted {
		d.Reason = nightcrier.Oversized
	}
	return d
}

func invalidError(what string, err error) error {
	return nightcrier.Errorf(nightcrier.Invalid, "%s: %s", what, text.CutLine(err.Error(), maxError))
}

// makeWord makes a short word of letters, digits and dashes out of a text, "" when
// there is nothing to make it of.
func makeWord(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, text.KeepBytes(s, maxWord))
	return strings.Trim(s, "-")
}

func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // maps of texts always encode
	}
	return b
}
