package nightcrier

import (
	"testing"
	"time"
)

func TestDerivedID(t *testing.T) {
	a := DerivedID("alert", "prod", "x")
	if a != DerivedID("alert", "prod", "x") || !ValidID(a) || a[14] != '8' {
		t.Errorf("%s is not the same valid id of version 8 each time", a)
	}
	for _, other := range [][]string{{"alert", "prodx"}, {"alertprod", "x"}, {"alert", "prod", "x", ""}, {}} {
		if DerivedID(other...) == a {
			t.Errorf("%q has the same id", other)
		}
	}
}

// Lists are read in the order in which things were made, also when many are made in a
// millisecond.
func TestIDsSortByTime(t *testing.T) {
	start := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	before := ""
	for _, after := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, time.Second} {
		id := newID(start.Add(after))
		if !ValidID(id) || id[14] != '7' || id <= before {
			t.Errorf("after %s: %s, before it %s", after, id, before)
		}
		before = id
	}
}
