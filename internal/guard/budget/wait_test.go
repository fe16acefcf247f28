package budget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// TestFiveAtOnce: five runs at a limit that has room for what they spend, and far less
// than for what they reserve. None is refused, and never more is taken than there is.
func TestFiveAtOnce(t *testing.T) {
	const runs, calls, most, cost = 5, 4, 100, 10
	dir, limits := t.TempDir(), Limits{Day: Limit{Tokens: runs*calls*cost - cost + most}}
	waited := make([]int, runs)
	var wg, arrived sync.WaitGroup
	arrived.Add(runs)
	for n := range runs {
		l := open(t, dir, at(noon))
		a := l.Account(who(n), limits)
		arrive := sync.OnceFunc(arrived.Done)
		wg.Go(func() {
			defer arrive()
			for range calls {
				g, err := a.Reserve(t.Context(), Want{Output: most, Least: most}, func(string) { waited[n]++; arrive() })
				if err != nil {
					t.Errorf("run %d: %v", n, err)
					return
				}
				if s, err := l.Spending(""); err != nil || s.takenAmount().Tokens > limits.Day.Tokens {
					t.Errorf("%+v %v", s.Sum, err)
				}
				arrive()
				arrived.Wait() // nobody has spent anything before all have asked
				if err := g.Settle(price.Tokens{Output: cost}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s, err := open(t, dir, at(noon)).Spending("")
	if err != nil || s.Spent.Tokens != runs*calls*cost || s.Held.Tokens != 0 || s.Waiting != 0 {
		t.Errorf("%+v %v", s, err)
	}
	total := 0
	for _, n := range waited {
		total += n
	}
	if total < runs-2 {
		t.Errorf("this tests nothing: %d waited", total)
	}
	t.Logf("%d of %d calls waited", total, runs*calls)
}

// waiter is a call that another goroutine wants.
type waiter struct {
	waits chan string
	grant chan *Grant
	err   chan error
}

// mustWait returns why a call waits.
func (x *waiter) mustWait(t *testing.T) string {
	t.Helper()
	select {
	case why := <-x.waits:
		return why
	case <-x.grant:
		t.Fatal("it did not wait")
	case err := <-x.err:
		t.Fatal(err)
	}
	return ""
}

func want(ctx context.Context, a *Account, w Want) *waiter {
	x := &waiter{make(chan string, 1), make(chan *Grant, 1), make(chan error, 1)}
	go func() {
		g, err := a.Reserve(ctx, w, func(why string) { x.waits <- why })
		if err != nil {
			x.err <- err
			return
		}
		x.grant <- g
	}()
	return x
}

// TestWhoWaitsLongerGoesFirst: a call that needs much is not overtaken by those that
// need little, and all can see who waits.
func TestWhoWaitsLongerGoesFirst(t *testing.T) {
	dir, limits := t.TempDir(), Limits{Day: Limit{Tokens: 100}}
	account := func(n int) *Account { return open(t, dir, at(noon)).Account(who(n), limits) }
	holder := reserve(t, account(0), Want{Output: 50})
	large := want(t.Context(), account(4), Want{Output: 80, Least: 80})
	if why := large.mustWait(t); why != "budget.per_day_tokens: 0 of 100 tokens are spent and 50 held for all clusters on 2026-11-23, and this call may take 80" {
		t.Error(why)
	}
	small := want(t.Context(), account(1), Want{Output: 30, Least: 30})
	if why := small.mustWait(t); why != "others have waited longer for budget.per_day_*" {
		t.Error(why)
	}
	s, err := open(t, dir, at(noon)).Spending("")
	if err != nil || s.Waiting != 2 || len(s.Clusters) != 2 || s.Clusters[0].Waiting != 1 || s.Clusters[1].Waiting != 1 || s.Clusters[1].Calls != 0 {
		t.Errorf("%+v %v", s, err)
	}
	if err := holder.Settle(price.Tokens{Output: 10}); err != nil {
		t.Fatal(err)
	}
	var first *Grant
	select {
	case first = <-large.grant:
	case <-small.grant:
		t.Fatal("a small call overtook a large one")
	case err := <-large.err:
		t.Fatal(err)
	}
	if err := first.Settle(price.Tokens{Output: 20}); err != nil {
		t.Fatal(err)
	}
	if err := (<-small.grant).Release(); err != nil {
		t.Fatal(err)
	}
}

// hold reserves all that there is, and stays until it is killed.
func hold(dir string) error {
	l, err := Open(dir, time.Now)
	if err != nil {
		return err
	}
	if _, err := l.Account(who(0), Limits{}).Reserve(context.Background(), Want{Output: 100}, nil); err != nil {
		return err
	}
	fmt.Println("held")
	select {}
}

// TestNobodyWaitsForTheDead: a call waits for another worker's, until that worker dies.
func TestNobodyWaitsForTheDead(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "NIGHTCRIER_TEST_HOLDER="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	l, limits := open(t, dir, time.Now), Limits{Incident: Limit{Tokens: 120}}
	if err := l.Check(who(1), Limits{Incident: Limit{Tokens: 100}}); err != nil {
		t.Errorf("a run whose incident may have something left is not started: %v", err)
	}
	x := want(t.Context(), l.Account(who(1), limits), Want{Output: 30, Least: 30})
	x.mustWait(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := <-x.err; nightcrier.CodeOf(err) != nightcrier.Exhausted || !strings.Contains(err.Error(), "budget.per_incident_tokens is reached: 0 of 120 tokens are spent for this incident, and 100 are held") {
		t.Error(err)
	}
	if err := l.Check(who(1), Limits{Incident: Limit{Tokens: 100}}); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("a run is started that nothing is left for: %v", err)
	}
}

// TestWaitingEnds: with the caller's patience, when what is settled leaves no room, and
// when the call that was waited for has ended without a bill. However often an agent
// waits and hangs up, the record does not grow.
func TestWaitingEnds(t *testing.T) {
	l := open(t, t.TempDir(), at(noon))
	limits, w := Limits{Day: Limit{Tokens: 100}}, Want{Output: 60, Least: 60}
	g := reserve(t, l.Account(who(0), limits), w)
	a := l.Account(who(1), limits)
	size := func() int64 {
		info, err := os.Stat(filepath.Join(l.dir, noon.Format(dayFormat)+extension))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	var after int64
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		x := want(ctx, a, w)
		x.mustWait(t)
		cancel()
		if err := <-x.err; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if i == 0 {
			after = size()
		}
	}
	if s, err := l.Spending(""); err != nil || s.Waiting != 0 || s.Held.Tokens != 60 || size() != after {
		t.Errorf("%+v, %d bytes after one wait and %d after 20: %v", s.Line, after, size(), err)
	}
	x := want(t.Context(), a, w)
	x.mustWait(t)
	if err := g.Settle(price.Tokens{Output: 50}); err != nil {
		t.Fatal(err)
	}
	if err := <-x.err; nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Error(err)
	}
	g = reserve(t, l.Account(who(0), limits), Want{Output: 50})
	x = want(t.Context(), a, Want{Output: 10, Least: 10})
	x.mustWait(t)
	g.Lost()
	if err := <-x.err; nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Error(err)
	}
}

// TestStoppedWaiter: a worker that was stopped while it waited is passed by.
func TestStoppedWaiter(t *testing.T) {
	dir, limits := t.TempDir(), Limits{Day: Limit{Tokens: 100}}
	stopped := open(t, dir, at(noon))
	a := stopped.Account(who(0), limits)
	if err := stopped.runLocked(func() error {
		d, err := stopped.openToday()
		if err == nil {
			err = a.enterQueue(d, &queued{}, perDay)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, at(noon))
	l.patience = time.Millisecond
	x := want(t.Context(), l.Account(who(1), limits), Want{Output: 10})
	if err := (<-x.grant).Settle(price.Tokens{Output: 1}); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Spending(""); err != nil || s.Waiting != 1 {
		t.Errorf("%+v %v", s, err)
	}
}
