package eval_test

import (
	"log/slog"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/eval"
)

// The same fault is as grave when somebody asks about one object that it hits as when
// they ask about the namespace or the whole cluster.
func TestStandingBelongsToTheFault(t *testing.T) {
	cases, err := eval.Load("../../../eval/cases")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	compared := 0
	for _, c := range cases {
		if c.Target != "" {
			continue
		}
		whole, err := eval.Diagnose(t.Context(), c, log)
		if err != nil {
			t.Fatal(err)
		}
		if whole.RootCause == nil {
			continue
		}
		asked := []nightcrier.Object{whole.RootCause.Object}
		if len(whole.Consequences) > 0 {
			asked = append(asked, whole.Consequences[0].Object)
		}
		for _, object := range asked {
			one := c
			one.Target, one.Namespace = object.Kind+"/"+object.Name, object.Namespace
			r, err := eval.Diagnose(t.Context(), one, log)
			if err != nil || r.RootCause == nil || r.RootCause.Cause != whole.RootCause.Cause || r.RootCause.Object != whole.RootCause.Object {
				continue // another fault of the same object, or none that is seen from there
			}
			compared++
			if r.Severity != whole.Severity || r.Impact != whole.Impact {
				t.Errorf("%s: asked about all: %s, %s; about %s: %s, %s", c.Name, whole.Severity, whole.Impact, object, r.Severity, r.Impact)
			}
		}
	}
	t.Logf("%d compared", compared)
	if compared < 50 {
		t.Errorf("only %d faults were compared", compared)
	}
}
