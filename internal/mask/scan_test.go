package mask

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestNoHintIsPassedBy: a walk stops where the hint of any rule stands, whatever its case.
func TestNoHintIsPassedBy(t *testing.T) {
	for _, r := range allRules() {
		spellings := []string{r.hint}
		if r.fold {
			spellings = append(spellings, strings.ToUpper(r.hint), strings.ToUpper(r.hint[:1])+r.hint[1:])
		}
		for _, hint := range spellings {
			for _, s := range []string{hint, "\x00" + hint, "\x00" + hint + "\x00", "\x00\x00" + hint + "\x00\x00"} {
				at, want := 0, strings.Index(s, hint)
				for at < want {
					at = rules.next(s, at)
					if at < want {
						at++
					}
				}
				if at != want {
					t.Errorf("%q in %q stands at %d and is looked for from %d on", hint, s, want, at)
				}
			}
		}
	}
}

// TestNextOddIsTheFirst: eight bytes at once are what they are one by one, at every distance
// from the beginning and the end of a text.
func TestNextOddIsTheFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		s := []byte(strings.Repeat("~", r.IntN(40)))
		for i := range s {
			switch r.IntN(40) {
			case 0:
				s[i] = byte(r.IntN(256))
			case 1:
				s[i] = "\\\n\t\r\x1b\x1f \x7e\x7f\x80\xff\x00[]"[r.IntN(14)]
			}
		}
		want := 0
		for want < len(s) && plain[s[want]] {
			want++
		}
		if got := nextOdd(string(s), 0); got != want {
			t.Fatalf("in %q the first is at %d, not at %d", s, want, got)
		}
	}
}
