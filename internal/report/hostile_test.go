package report

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// Large evidence, cited by many facts that quote many values: comparing all with
// all would hold a server up for hours, and again after each start.
func TestCheckingIsBounded(t *testing.T) {
	body := []byte(strings.Repeat(`{"name":"cart-7d4b-x2x7q","message":"some words that stand here and there in logs"}`+"\n", 5_000))
	var ids []string
	for i := range 100 {
		ids = append(ids, fmt.Sprintf("E%d", i+1))
	}
	var facts []nightcrier.Fact
	for i := range maxItems {
		facts = append(facts, nightcrier.Fact{ID: fmt.Sprintf("FACT-%d", i+1), Text: "cart-7d4b-x2x7q", Evidence: append(ids, ids...),
			Quote: strings.Repeat("logs some message, ", 200)})
	}
	r := nightcrier.Report{Facts: facts}
	Check(&r, func(string) ([]byte, bool) { return body, true })
	if r.Facts[maxItems-1].Check != nightcrier.Unseen {
		t.Error("what was not compared counts as seen")
	}
}

// Ten thousand facts that each cite a list of thousands.
func TestCheckingManyFactsIsBounded(t *testing.T) {
	list := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"Pod","metadata":{"name":"cart-7d4b-x2x7q"},"status":{"reason":"Evicted"}},`, 4_000), ",") + `]}`)
	r := nightcrier.Report{Facts: make([]nightcrier.Fact, 10_000)}
	for i := range r.Facts {
		r.Facts[i] = nightcrier.Fact{Text: "cart-7d4b-x2x7q", Quote: "reason: OOMKilled", Evidence: []string{"E1", "E2", "E3"}}
	}
	r.Facts[0].Quote = "reason: Evicted"
	Check(&r, func(string) ([]byte, bool) { return list, true })
	if r.Facts[0].Check != nightcrier.Seen || r.Facts[len(r.Facts)-1].Check != nightcrier.Unseen {
		t.Errorf("%s and %s", r.Facts[0].Check, r.Facts[len(r.Facts)-1].Check)
	}
}
