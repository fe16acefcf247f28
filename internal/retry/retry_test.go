package retry

import (
	"context"
	"net/http"
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
			if w := b.Wait(failures); w < ceiling/2 || w > ceiling {
				t.Fatalf("after %d failures the wait is %v, want from %v to %v", failures, w, ceiling/2, ceiling)
			}
		}
	}
}

// An outage is outlived: the waits add up, whatever chance says, and end with their context.
func TestBackoffSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Min: time.Second, Max: 8 * time.Second}
		begin := time.Now()
		for failures := range 6 { // ceilings of 1, 1, 2, 4, 8 and 8 s
			if !b.Sleep(t.Context(), failures) {
				t.Fatal("it stopped")
			}
		}
		if slept := time.Since(begin); slept < 12*time.Second || slept > 24*time.Second {
			t.Errorf("slept %v", slept)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.Sleep(ctx, 5) {
			t.Error("it outlasts its context")
		}
	})
}

func TestReadAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"60":                            time.Minute,
		"3600":                          10 * time.Minute,
		"0":                             0,
		"-5":                            0,
		"soon":                          0,
		"99999999999999999999":          0,
		"9000000000000000000":           10 * time.Minute,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:03:05 GMT": 0,
		"Fri, 02 Jan 2126 03:03:05 GMT": 10 * time.Minute,
	} {
		if got := ReadAfter(http.Header{"Retry-After": {value}}, now, 10*time.Minute); got != want {
			t.Errorf("Retry-After %q is %s, want %s", value, got, want)
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
