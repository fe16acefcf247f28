// Package enginetest is the conformance suite of the durable engine: what runs
// rely on, checked on every database that the engine supports.
package enginetest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run/engine"
)

// Exercise runs the suite. fresh is called once a test and gives a new database.
func Exercise(t *testing.T, fresh func(t *testing.T) engine.Options) {
	cases := map[string]func(*testing.T, engine.Options){
		"steps run once and in order":                 stepsRunOnce,
		"a second start does nothing":                 startIsIdempotent,
		"stop interrupts and launch resumes":          testResumes,
		"a wait ends early for whoever wakes it":      testSleeps,
		"a failing step is retried, not recorded":     retriesSteps,
		"a step's recorded error value is a value":    valuesCarryFailures,
		"a step that panics is given up for good":     testPanics,
		"many workflows at once":                      manyAtOnce,
		"prune deletes the checkpoints of the ended":  testPrune,
		"prune leaves a workflow its branches":        testPruneBranches,
		"stop while branches go on that were resumed": testStopResumedBranches,
		"branches that were begun are waited for":     testHalfBegun,
		"an unknown workflow is refused":              unknownWorkflow,
	}
	for name, fn := range cases {
		t.Run(name, func(t *testing.T) { fn(t, fresh(t)) })
	}
}

func openEngine(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func launchEngine(t *testing.T, o engine.Options, name string, w engine.Workflow) *engine.Engine {
	t.Helper()
	e := openEngine(t, o)
	e.Register(name, w)
	if err := e.Launch(); err != nil {
		t.Fatal(err)
	}
	return e
}

func stopEngine(t *testing.T, e *engine.Engine) {
	t.Helper()
	if err := e.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
}

func awaitClosed(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatal("the workflow did not get there within 20 s")
	}
}

func stepsRunOnce(t *testing.T, o engine.Options) {
	var order []string
	done := make(chan struct{})
	e := launchEngine(t, o, "w", func(ctx engine.Context, id string, input []byte) error {
		defer close(done)
		for _, name := range []string{"a", "b"} {
			got, err := engine.Step(ctx, name, func(context.Context) (string, error) { return id + name + string(input), nil })
			if err != nil {
				return err
			}
			order = append(order, got)
		}
		return nil
	})
	defer stopEngine(t, e)
	if err := e.Start("w", "x", 7); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, done)
	if len(order) != 2 || order[0] != "xa7" || order[1] != "xb7" {
		t.Errorf("steps returned %q", order)
	}
}

func startIsIdempotent(t *testing.T, o engine.Options) {
	var runs atomic.Int32
	gate, done := make(chan struct{}), make(chan struct{})
	e := launchEngine(t, o, "w", func(ctx engine.Context, _ string, _ []byte) error {
		runs.Add(1)
		_, err := engine.Step(ctx, "wait", func(context.Context) (bool, error) { <-gate; return true, nil })
		close(done)
		return err
	})
	defer stopEngine(t, e)
	for range 3 {
		if err := e.Start("w", "same", nil); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	awaitClosed(t, done)
	if err := e.Start("w", "same", nil); err != nil {
		t.Fatal(err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("one id ran %d times", n)
	}
}

func testResumes(t *testing.T, o engine.Options) {
	var first, second atomic.Int32
	reached, done := make(chan struct{}), make(chan struct{})
	workflow := func(last bool) engine.Workflow {
		return func(ctx engine.Context, _ string, _ []byte) error {
			v, err := engine.Step(ctx, "first", func(context.Context) (int32, error) { return first.Add(1), nil })
			if err != nil {
				return err
			}
			_, err = engine.Step(ctx, "second", func(c context.Context) (bool, error) {
				second.Add(1)
				if !last {
					close(reached)
					<-c.Done()
					return false, c.Err()
				}
				return true, nil
			})
			if err == nil && v == 1 {
				close(done)
			}
			return err
		}
	}
	e := launchEngine(t, o, "w", workflow(false))
	if err := e.Start("w", "interrupted", nil); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, reached)
	stopEngine(t, e)

	e = launchEngine(t, o, "w", workflow(true))
	defer stopEngine(t, e)
	if err := e.Start("w", "interrupted", nil); err != nil { // what admission does at start
		t.Fatal(err)
	}
	awaitClosed(t, done)
	if first.Load() != 1 || second.Load() != 2 {
		t.Errorf("the finished step ran %d times, the interrupted one %d; want 1 and 2", first.Load(), second.Load())
	}
}

// A wait that an engine was stopped in goes on in the next one, where it can be woken.
// What comes after it is the next step, whether it ended by itself or was woken.
func testSleeps(t *testing.T, o engine.Options) {
	var after atomic.Int32
	begun, wake, woken, again := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	workflow := func(wake <-chan struct{}, then func(ctx engine.Context) error) engine.Workflow {
		return func(ctx engine.Context, _ string, _ []byte) error {
			if err := engine.Sleep(ctx, time.Millisecond, nil); err != nil {
				return err
			}
			if _, err := engine.Step(ctx, "begun", func(context.Context) (bool, error) { return true, nil }); err != nil {
				return err
			}
			if wake == nil {
				close(begun)
			}
			if err := engine.Sleep(ctx, time.Hour, wake); err != nil {
				return err
			}
			if _, err := engine.Step(ctx, "after", func(context.Context) (int32, error) { return after.Add(1), nil }); err != nil {
				return err
			}
			return then(ctx)
		}
	}
	e := launchEngine(t, o, "w", workflow(nil, func(engine.Context) error { return nil }))
	if err := e.Start("w", "waits", nil); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, begun)
	stopEngine(t, e)

	e = launchEngine(t, o, "w", workflow(wake, func(ctx engine.Context) error {
		close(woken)
		<-ctx.Done()
		return ctx.Err()
	}))
	if err := e.Start("w", "waits", nil); err != nil {
		t.Fatal(err)
	}
	close(wake)
	awaitClosed(t, woken)
	stopEngine(t, e)

	e = launchEngine(t, o, "w", workflow(wake, func(engine.Context) error { close(again); return nil }))
	defer stopEngine(t, e)
	if err := e.Start("w", "waits", nil); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, again)
	if n := after.Load(); n != 1 {
		t.Errorf("the step after the wait ran %d times", n)
	}
}

func retriesSteps(t *testing.T, o engine.Options) {
	var tries atomic.Int32
	done := make(chan struct{})
	e := launchEngine(t, o, "w", func(ctx engine.Context, _ string, _ []byte) error {
		_, err := engine.Step(ctx, "flaky", func(context.Context) (bool, error) {
			if tries.Add(1) < 3 {
				return false, errors.New("store is away")
			}
			return true, nil
		})
		if err == nil {
			close(done)
		}
		return err
	})
	defer stopEngine(t, e)
	if err := e.Start("w", "flaky", nil); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, done)
}

func valuesCarryFailures(t *testing.T, o engine.Options) {
	type outcome struct{ Reason string }
	got := make(chan outcome, 1)
	e := launchEngine(t, o, "w", func(ctx engine.Context, _ string, _ []byte) error {
		v, err := engine.Step(ctx, "s", func(context.Context) (outcome, error) { return outcome{"disk"}, nil })
		got <- v
		return err
	})
	defer stopEngine(t, e)
	if err := e.Start("w", "v", nil); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v.Reason != "disk" {
		t.Errorf("got %+v", v)
	}
}

func testPanics(t *testing.T, o engine.Options) {
	var calls atomic.Int32
	ended := make(chan error, 1)
	workflow := func(ctx engine.Context, _ string, _ []byte) error {
		_, err := engine.Step(ctx, "hostile", func(context.Context) (bool, error) {
			calls.Add(1)
			panic("what an attacker wrote")
		})
		_, after := engine.Step(ctx, "cleanup", func(context.Context) (bool, error) { return true, nil })
		ended <- errors.Join(err, after)
		return nil
	}
	e := launchEngine(t, o, "w", workflow)
	defer stopEngine(t, e)
	if err := e.Start("w", "p", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a step that only panics was reported as done")
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("it was tried %d times, want 3", n)
	}
}

func manyAtOnce(t *testing.T, o engine.Options) {
	const n = 60
	var wg sync.WaitGroup
	wg.Add(n)
	e := launchEngine(t, o, "w", func(ctx engine.Context, _ string, _ []byte) error {
		defer wg.Done()
		for _, s := range []string{"1", "2", "3"} {
			if _, err := engine.Step(ctx, s, func(context.Context) (bool, error) { return true, nil }); err != nil {
				t.Error(err)
				return err
			}
		}
		return nil
	})
	defer stopEngine(t, e)
	for i := range n {
		if err := e.Start("w", "many-"+string(rune('a'+i/26))+string(rune('a'+i%26)), nil); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	awaitClosed(t, done)
}

func testPrune(t *testing.T, o engine.Options) {
	gate, done := make(chan struct{}), make(chan struct{}, 3)
	e := launchEngine(t, o, "w", func(ctx engine.Context, id string, _ []byte) error {
		if id == "goes-on" {
			_, err := engine.Step(ctx, "wait", func(context.Context) (bool, error) { <-gate; return true, nil })
			return err
		}
		done <- struct{}{}
		return nil
	})
	defer stopEngine(t, e)
	defer close(gate)
	for _, id := range []string{"ended", "goes-on"} {
		if err := e.Start("w", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if n, err := e.Prune(time.Now().Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("pruned %d recent workflows, %v", n, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; n == 0; { // the library records the end a moment after the workflow returned
		var err error
		if n, err = e.Prune(time.Now().Add(time.Hour)); err != nil || n > 1 || time.Now().After(deadline) {
			t.Fatalf("pruned %d, %v; want the one that ended", n, err)
		}
	}
	if err := e.Start("w", "ended", nil); err != nil {
		t.Fatal(err)
	}
	<-done // the id is free again
	if !e.Active("goes-on") {
		t.Error("a running workflow was pruned")
	}
}

// A server that is stopped does not wait for branches that an earlier one began, and the next one
// goes on with them.
func testStopResumedBranches(t *testing.T, o engine.Options) {
	gate, begun, ended := make(chan struct{}), make(chan struct{}, 9), make(chan []string, 1)
	launch := func() *engine.Engine {
		e := openEngine(t, o)
		e.Register("w", func(ctx engine.Context, _ string, _ []byte) error {
			all, err := engine.RunBranches[string](ctx, []engine.Branch{{Name: "a", Workflow: "branch"}, {Name: "b", Workflow: "branch"}})
			if err == nil {
				ended <- all
			}
			return err
		})
		e.Register("branch", func(ctx engine.Context, id string, _ []byte) error {
			_, err := engine.Step(ctx, "wait", func(c context.Context) (bool, error) {
				begun <- struct{}{}
				select {
				case <-gate:
					return true, nil
				case <-c.Done():
					return false, c.Err()
				}
			})
			if err != nil {
				return err
			}
			return ctx.Return(id)
		})
		if err := e.Launch(); err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := launch()
	if err := e.Start("w", "r", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-begun
		<-begun
		stopEngine(t, e) // it fails when the time for that is over
		e = launch()
	}
	close(gate)
	if all := <-ended; !slices.Equal(all, []string{"r/a", "r/b"}) {
		t.Errorf("the branches came to %q", all)
	}
	stopEngine(t, e)
}

// Where a branch cannot be begun, none is left running behind the workflow.
func testHalfBegun(t *testing.T, o engine.Options) {
	gate, begun := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	ended := make(chan error, 1)
	e := openEngine(t, o)
	e.Register("w", func(ctx engine.Context, _ string, _ []byte) error {
		_, err := engine.RunBranches[string](ctx, []engine.Branch{{Name: "a", Workflow: "branch"}, {Name: "b", Workflow: "branch", Input: func() {}}})
		if !over.Load() {
			err = errors.New("a branch goes on")
		}
		ended <- err
		return nil
	})
	e.Register("branch", func(ctx engine.Context, _ string, _ []byte) error {
		close(begun)
		<-gate
		over.Store(true)
		return ctx.Return("done")
	})
	if err := e.Launch(); err != nil {
		t.Fatal(err)
	}
	defer stopEngine(t, e)
	if err := e.Start("w", "r", nil); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, begun)
	close(gate)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "encode the input of b") {
		t.Errorf("it ends with %v", err)
	}
}

// What a branch came to is asked for when all of them have ended, by whichever process is there.
func testPruneBranches(t *testing.T, o engine.Options) {
	gate, fast, ended := make(chan struct{}), make(chan struct{}, 9), make(chan []string, 1)
	launch := func() *engine.Engine {
		e := openEngine(t, o)
		e.Register("w", func(ctx engine.Context, _ string, _ []byte) error {
			all, err := engine.RunBranches[string](ctx, []engine.Branch{{Name: "fast", Workflow: "branch", Input: "fast"}, {Name: "slow", Workflow: "branch", Input: "slow"}})
			if err == nil {
				ended <- all
			}
			return err
		})
		e.Register("branch", func(ctx engine.Context, _ string, input []byte) error {
			if string(input) == `"fast"` {
				fast <- struct{}{}
				return ctx.Return("fast")
			}
			_, err := engine.Step(ctx, "wait", func(c context.Context) (bool, error) {
				select {
				case <-gate:
					return true, nil
				case <-c.Done():
					return false, c.Err()
				}
			})
			if err != nil {
				return err
			}
			return ctx.Return("slow")
		})
		if err := e.Launch(); err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := launch()
	if err := e.Start("w", "r", nil); err != nil {
		t.Fatal(err)
	}
	<-fast
	stopEngine(t, e) // the end of the fast one is written down by then
	e = launch()
	if n, err := e.Prune(time.Now().Add(time.Hour)); err != nil || n != 0 {
		t.Errorf("pruned %d, %v, of a workflow that goes on", n, err)
	}
	close(gate)
	select {
	case all := <-ended:
		if !slices.Equal(all, []string{"fast", "slow"}) {
			t.Errorf("the branches came to %q", all)
		}
	case <-time.After(30 * time.Second):
		t.Error("the workflow waits for a branch that was pruned")
	}
	stopEngine(t, e)
}

func unknownWorkflow(t *testing.T, o engine.Options) {
	e := openEngine(t, o)
	if err := e.Launch(); err != nil {
		t.Fatal(err)
	}
	defer stopEngine(t, e)
	if err := e.Start("nobody", "x", nil); err == nil {
		t.Error("a workflow that nobody registered was started")
	}
}
