package nightcrier

import "testing"

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
