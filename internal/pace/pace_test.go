package pace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute}
	for failures := 1; failures < 100; failures++ {
		ceiling := time.Minute
		if failures <= 6 {
			ceiling = time.Second << (failures - 1)
		}
		for range 100 {
			if w := b.Wait(failures); w < 100*time.Millisecond || w > ceiling {
				t.Fatalf("after %d failures the wait is %v, want at most %v", failures, w, ceiling)
			}
		}
	}
}

func TestSpread(t *testing.T) {
	for range 1000 {
		if d := Spread(time.Minute); d > time.Minute || d < 54*time.Second {
			t.Fatalf("a minute spread is %v", d)
		}
	}
	if Spread(0) != 0 {
		t.Error("no time is spread")
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if begin := time.Now(); !Sleep(ctx, time.Second) || time.Since(begin) != time.Second {
			t.Error("a second is none")
		}
		if begin := time.Now(); Sleep(ctx, time.Hour) || time.Since(begin) != 59*time.Second {
			t.Error("a sleep outlasts its context")
		}
	})
}

// A place that is held too long is another's; whoever leaves twice frees one.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		leave, err := g.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		second, err := g.Enter(t.Context())
		if err != nil || time.Since(begin) != hold {
			t.Errorf("the second waited %v, %v", time.Since(begin), err)
		}
		leave()
		second()
		second()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Enter(t.Context()); err != nil {
			t.Errorf("the place is free: %v", err)
		}
		if _, err := g.Enter(ctx); err == nil {
			t.Error("two have one place")
		}
		if leave, err := (*Gate)(nil).Enter(ctx); err != nil {
			t.Errorf("no gate stops nobody: %v", err)
		} else {
			leave()
		}
	})
}
