package budget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// sonnet costs what a common model does, in dollars a million tokens: 3 in, 3.75 into
// the cache, 0.30 out of it, 15 out.
var sonnet = price.Price{Input: 3000, CacheWrite: 3750, CacheRead: 300, Output: 15000}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func open(t testing.TB, dir string, now func() time.Time) *Ledger {
	t.Helper()
	l, err := Open(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	l.sync = func(*os.File) error { return nil } // nothing here shows what a disk loses
	t.Cleanup(func() { l.Close() })
	return l
}

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func who(n int) Who {
	return Who{Run: fmt.Sprintf("run-%d", n), Incident: fmt.Sprintf("incident-%d", n/2), Cluster: fmt.Sprintf("cluster-%d", n/4)}
}

func reserve(t testing.TB, a *Account, w Want) *Grant {
	t.Helper()
	g, err := a.Reserve(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestCallIsHeldUntilItIsSettled(t *testing.T) {
	l := open(t, t.TempDir(), at(noon))
	a := l.Account(who(0), Limits{Run: Limit{Money: price.Dollar}})
	w := Want{Request: 1000, Output: 2000, Price: sonnet}
	g := reserve(t, a, w)
	if s, _ := a.Used(); s.Held != (Amount{1000*3750 + 2000*15000, 3000}) || s.Spent != (Amount{}) || s.Calls != 1 {
		t.Errorf("reserved: %+v", s)
	}
	used := price.Tokens{Input: 10, CacheWrite: 20, CacheRead: 900, Output: 7}
	if err := g.Settle(used); err != nil {
		t.Fatal(err)
	}
	if s, _ := a.Used(); s.Spent != (Amount{sonnet.Of(used), 937}) || s.Held != (Amount{}) || s.Calls != 1 {
		t.Errorf("settled: %+v", s)
	}
	if err := g.Release(); err != nil {
		t.Fatal(err)
	}
	if s, _ := a.Used(); s.Calls != 1 {
		t.Errorf("a settled call was given back: %+v", s)
	}
	g = reserve(t, a, w)
	if err := g.Release(); err != nil {
		t.Fatal(err)
	}
	if s, _ := a.Used(); s.Calls != 1 || s.Held != (Amount{}) || s.Spent.Money != sonnet.Of(used) {
		t.Errorf("released: %+v", s)
	}
}

// A run is bound to what it may spend, and never less than before: least of all by what is too
// little to be counted, which would be no bound.
func TestBoundMoney(t *testing.T) {
	for _, tt := range []struct {
		had, want price.Money
		usd       float64
	}{
		{0, price.FromDollars(2), 2}, {price.FromDollars(1), price.FromDollars(1), 2}, {price.FromDollars(5), 1, 1e-10}, {0, 1, 1e-10},
		{price.FromDollars(5), price.FromDollars(5), 0}, {price.FromDollars(5), price.FromDollars(5), -1},
	} {
		l := Limit{Money: tt.had}
		if l.BoundMoney(tt.usd, "hers"); l.Money != tt.want || (l.MoneyOf == "hers") != (tt.want != tt.had) {
			t.Errorf("%s bound to %g is %s of %q", tt.had, tt.usd, l.Money, l.MoneyOf)
		}
	}
}

// TestLimits has each limit in turn be the one that a call meets.
func TestLimits(t *testing.T) {
	const call = 10 * 15000 // ten tokens of output
	w := Want{Output: 10, Least: 10, Price: price.Price{Output: 15000}}
	for _, tt := range []struct {
		name   string
		limits Limits
		counts []bool // whether a call of run 0 counts for runs 0, 1, 2 and 4
		text   string
	}{
		{"run", Limits{Run: Limit{Money: call}}, []bool{true, false, false, false}, "budget.per_run_usd is reached: $0.00015 of $0.00015 are spent for this run; the next call may cost $0.00015"},
		{"pipeline", Limits{Run: Limit{Money: call, MoneyOf: "the budget of the pipeline p"}}, []bool{true, false, false, false}, "the budget of the pipeline p is reached: $0.00015 of $0.00015 are spent for this run; the next call may cost $0.00015"},
		{"incident", Limits{Incident: Limit{Money: call}}, []bool{true, true, false, false}, "budget.per_incident_usd is reached"},
		{"cluster", Limits{ClusterDay: Limit{Money: call}}, []bool{true, true, true, false}, "budget.per_cluster_day_usd is reached: $0.00015 of $0.00015 are spent for cluster cluster-0 on 2026-11-23"},
		{"day", Limits{Day: Limit{Money: call}}, []bool{true, true, true, true}, "budget.per_day_usd is reached"},
		{"tokens", Limits{Run: Limit{Tokens: 10}}, []bool{true, false, false, false}, "budget.per_run_tokens is reached: 10 of 10 tokens are spent for this run; the next call may take 10"},
		{"tokens of a day", Limits{Day: Limit{Tokens: 10}}, []bool{true, true, true, true}, "budget.per_day_tokens is reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := open(t, t.TempDir(), at(noon))
			if err := reserve(t, l.Account(who(0), tt.limits), w).Settle(price.Tokens{Output: 10}); err != nil {
				t.Fatal(err)
			}
			for i, n := range []int{0, 1, 2, 4} {
				checked := l.Check(who(n), tt.limits)
				g, err := l.Account(who(n), tt.limits).Reserve(t.Context(), w, nil)
				if tt.counts[i] != (err != nil) || tt.counts[i] != (checked != nil) {
					t.Fatalf("run %d: reserve %v, check %v", n, err, checked)
				}
				if err == nil {
					if err := g.Release(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if nightcrier.CodeOf(err) != nightcrier.Exhausted || n == 0 && !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), strings.TrimSuffix(tt.text, " for this run")[:20]) {
					t.Errorf("run %d: %v", n, err)
				}
			}
		})
	}
}

// The steps of a run, wherever they look, spend what is the run's; each of them keeps to its own
// share besides, also in a later attempt and after a restart.
func TestStepsSpendWhatIsTheRuns(t *testing.T) {
	dir := t.TempDir()
	step := func(n int) Who { return Who{Run: "r", Step: fmt.Sprint(n), Cluster: fmt.Sprint(n)} }
	limits := Limits{Run: Limit{Tokens: 100}, Step: Limit{Tokens: 60}}
	reserve(t, open(t, dir, at(noon)).Account(step(1), limits), Want{Output: 60, Least: 60}).Lost()
	l := open(t, dir, at(noon))
	if _, err := l.Account(step(1), limits).Reserve(t.Context(), Want{Output: 1, Least: 1}, nil); err == nil || !strings.Contains(err.Error(), "the budget of the step is reached: 0 of 60 tokens are spent for this step, and 60 are held") {
		t.Error(err)
	}
	if err := l.Check(step(1), limits); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Error(err)
	}
	reserve(t, l.Account(step(2), limits), Want{Output: 40, Least: 40}).Lost()
	if _, err := l.Account(step(3), limits).Reserve(t.Context(), Want{Output: 1, Least: 1}, nil); err == nil || !strings.Contains(err.Error(), "budget.per_run_tokens is reached") {
		t.Error(err)
	}
	if sum, err := open(t, dir, at(noon)).Account(Who{Run: "r"}, limits).Used(); err != nil || sum.takenAmount().Tokens != 100 {
		t.Errorf("%v, %+v", err, sum)
	}
}

func TestOutputShrinksToWhatIsLeft(t *testing.T) {
	l := open(t, t.TempDir(), at(noon))
	limits := Limits{Run: Limit{Money: 1000*3750 + 500*15000 + 14999}, Incident: Limit{Tokens: 1400}}
	g := reserve(t, l.Account(who(0), limits), Want{Request: 1000, Output: 32000, Least: 100, Price: sonnet})
	if g.Output() != 400 {
		t.Errorf("granted %d, want the 400 tokens that the incident has left", g.Output())
	}
	limits.Incident.Tokens = 0
	g = reserve(t, l.Account(who(2), limits), Want{Request: 1000, Output: 32000, Least: 100, Price: sonnet})
	if g.Output() != 500 {
		t.Errorf("granted %d, want the 500 tokens that the money buys", g.Output())
	}
}

func TestHeldIsToldApart(t *testing.T) {
	l := open(t, t.TempDir(), at(noon))
	limits := Limits{ClusterDay: Limit{Money: 2 * price.Dollar}}
	w := Want{Output: 100_000, Least: 100_000, Price: sonnet}
	reserve(t, l.Account(who(0), limits), w).Lost()
	_, err := l.Account(who(1), limits).Reserve(t.Context(), w, nil)
	const text = "$0.00 of $2.00 are spent for cluster cluster-0 on 2026-11-23, and $1.50 are held for calls under way or of unknown cost; the next call may cost $1.50"
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v", err)
	}
}

// TestDay: a call counts on the day of its reservation, and a clock that goes back
// finds its day as it was left.
func TestDay(t *testing.T) {
	c := &clock{now: noon}
	l := open(t, t.TempDir(), c.Now)
	limits := Limits{Day: Limit{Tokens: 100}}
	w := Want{Output: 100, Least: 100}
	before := reserve(t, l.Account(who(0), limits), w)
	c.set(noon.Add(24 * time.Hour))
	if err := reserve(t, l.Account(who(1), limits), w).Settle(price.Tokens{Output: 90}); err != nil {
		t.Fatal(err)
	}
	if err := before.Settle(price.Tokens{Output: 80}); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Spending(""); err != nil || s.Spent.Tokens != 90 || s.Days[1].Spent.Tokens != 80 {
		t.Errorf("%+v %v", s, err)
	}
	c.set(noon.Add(time.Hour))
	if _, err := open(t, l.dir, c.Now).Account(who(2), limits).Reserve(t.Context(), w, nil); err == nil {
		t.Error("a clock that went back opened a day again")
	}
	if err := l.Check(who(0), Limits{Incident: Limit{Tokens: 170}}); err == nil {
		t.Error("an incident is counted over its days")
	}
}

// What is reserved is what a request may cost that is as long as it may be; what is
// settled is the price of one as long as it was.
func TestPricesByLength(t *testing.T) {
	short := price.Price{Input: 1, CacheWrite: 2, CacheWriteHour: 4, Output: 10}
	p := price.Price{Input: 5, CacheWrite: 6, CacheWriteHour: 7, Output: 50, UpTo: 100, Short: &short}
	for _, tt := range []struct {
		want     Want
		reserved price.Money
		used     price.Tokens
		spent    price.Money
	}{
		{Want{Request: 100, Output: 10, Price: p}, 100*2 + 10*10, price.Tokens{Input: 90, Output: 10}, 90 + 100},
		{Want{Request: 100, Output: 10, Price: p, CacheHour: true}, 100*4 + 10*10, price.Tokens{Input: 50, CacheWriteHour: 50}, 50 + 200},
		{Want{Request: 101, Output: 10, Price: p}, 101*6 + 10*50, price.Tokens{Input: 100, Output: 10}, 100 + 100},
		{Want{Request: 400, Output: 10, Price: p, CacheHour: true}, 400*7 + 10*50, price.Tokens{Input: 101, Output: 10}, 505 + 500},
	} {
		l := open(t, t.TempDir(), at(noon))
		a := l.Account(who(0), Limits{Run: Limit{Money: tt.reserved}})
		g := reserve(t, a, tt.want)
		if s, _ := a.Used(); s.Held.Money != tt.reserved {
			t.Errorf("%+v: %s reserved", tt.want, s.Held.Money)
		}
		if err := g.Settle(tt.used); err != nil {
			t.Fatal(err)
		}
		if s, _ := a.Used(); s.Spent.Money != tt.spent || s.Held != (Amount{}) {
			t.Errorf("%+v: %+v", tt.want, s)
		}
	}
}

func TestSettleIsBelievedWithinReason(t *testing.T) {
	l := open(t, t.TempDir(), at(noon))
	a := l.Account(who(0), Limits{})
	g := reserve(t, a, Want{Output: 5, Price: sonnet})
	if err := g.Settle(price.Tokens{Output: -5}); err == nil {
		t.Error("an answer of negative tokens was settled")
	}
	if s, _ := a.Used(); s.Held.Tokens != 5 {
		t.Errorf("%+v", s)
	}
	if err := g.Settle(price.Tokens{Output: 50}); err != nil { // more than was reserved: true all the same
		t.Fatal(err)
	}
	if s, _ := a.Used(); s.Spent != (Amount{50 * 15000, 50}) || s.Held != (Amount{}) {
		t.Errorf("%+v", s)
	}
	g = reserve(t, a, Want{Output: 5, Price: sonnet})
	if err := g.Settle(price.Tokens{CacheWriteHour: -1}); err == nil {
		t.Error("an answer of negative tokens was settled")
	}
	cheap := price.Price{Output: 1}
	for _, w := range []Want{
		{Request: -1}, {Output: maxTokens + 1}, {Price: price.Price{Input: -1}}, {Price: price.Price{Output: maxPrice + 1}},
		{Price: price.Price{CacheWriteHour: -1}}, {Price: price.Price{CacheWriteHour: maxPrice + 1}},
		{Price: price.Price{UpTo: 9, Short: &price.Price{Output: -1}}}, {Price: price.Price{UpTo: -9, Short: &cheap}},
		{Price: price.Price{UpTo: maxTokens + 1, Short: &cheap}}, {Price: price.Price{UpTo: 9, Short: &price.Price{Short: &cheap}}},
	} {
		if _, err := a.Reserve(t.Context(), w, nil); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%+v: %v", w, err)
		}
	}
}

// TestCutLine has a writer die in the middle of its line, at every byte.
func TestCutLine(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, at(noon))
	limits := Limits{Run: Limit{Tokens: 1000}}
	reserve(t, first.Account(who(0), limits), Want{Output: 10})
	path := filepath.Join(dir, "2026-11-23.ledger")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next, err := record{N: 2, At: noon, Op: opReserve, Call: "x", Who: who(0), Amount: Amount{Tokens: 100}}.encodeLine()
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(next) {
		if err := os.WriteFile(path, append(bytes.Clone(whole), next[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir, at(noon))
		want := int64(10)
		if cut == len(next)-1 { // all but the newline
			want = 110
		}
		for range 2 {
			if s, err := l.Account(who(0), limits).Used(); err != nil || s.Held.Tokens != want {
				t.Fatalf("cut at %d: %+v %v", cut, s, err)
			}
			reserve(t, l.Account(who(0), limits), Want{Output: 1})
			want++
		}
		if s, err := open(t, dir, at(noon)).Account(who(0), limits).Used(); err != nil || s.Held.Tokens != want {
			t.Fatalf("cut at %d, read again: %+v %v", cut, s, err)
		}
	}
}

// TestDamage: a record that is not as it was written ends all spending.
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"a record is missing":     func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] },
		"a record is changed":     func(b []byte) []byte { return bytes.Replace(b, []byte(`"tokens":10`), []byte(`"tokens":00`), 1) },
		"a record is there twice": func(b []byte) []byte { return append(b, b...) },
		"something else is done":  func(b []byte) []byte { return append(b, line(t, record{N: 3, Op: "refund", Call: "y"})...) },
		"settled without a call":  func(b []byte) []byte { return append(b, line(t, record{N: 3, Op: opSettle, Call: "y"})...) },
		"a reservation below zero": func(b []byte) []byte {
			return append(b, line(t, record{N: 3, Op: opReserve, Call: "y", Amount: Amount{Tokens: -1}})...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, at(noon))
			for range 2 {
				reserve(t, l.Account(who(0), Limits{}), Want{Output: 10})
			}
			path := filepath.Join(dir, "2026-11-23.ledger")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, harm(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, at(noon)); nightcrier.CodeOf(err) != nightcrier.Internal || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
	dir := t.TempDir()
	l := open(t, dir, at(noon))
	a := l.Account(who(0), Limits{})
	reserve(t, a, Want{Output: 10})
	if err := os.Truncate(filepath.Join(dir, "2026-11-23.ledger"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Reserve(t.Context(), Want{}, nil); err == nil {
		t.Error("a record that became shorter was gone on with")
	}
}

func line(t *testing.T, r record) []byte {
	t.Helper()
	b, err := r.encodeLine()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTidy shortens days that are over and removes those of long ago, while others
// have them open.
func TestTidy(t *testing.T) {
	c := &clock{now: noon}
	dir := t.TempDir()
	l, other := open(t, dir, c.Now), open(t, dir, c.Now)
	a := l.Account(who(0), Limits{})
	for range 50 {
		if err := reserve(t, a, Want{Request: 9, Output: 9, Price: sonnet}).Settle(price.Tokens{Output: 1}); err != nil {
			t.Fatal(err)
		}
	}
	late := reserve(t, a, Want{Output: 100})
	reserve(t, l.Account(who(2), Limits{}), Want{Output: 7})
	before, _ := other.Spending("2026-11-23")
	c.set(noon.Add(72 * time.Hour))
	reserve(t, a, Want{Output: 1})
	if err := open(t, dir, c.Now).Tidy(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "2026-11-23.ledger")); err != nil || info.Size() > 1200 {
		t.Errorf("%d bytes are left of 101 records: %v", info.Size(), err)
	}
	after, err := other.Spending("2026-11-23")
	if err != nil || fmt.Sprint(after.Clusters, after.Sum) != fmt.Sprint(before.Clusters, before.Sum) {
		t.Errorf("%+v\n%+v\n%v", before, after, err)
	}
	if err := late.Settle(price.Tokens{Output: 60}); err != nil {
		t.Errorf("a call that was held over it: %v", err)
	}
	if s, err := other.Spending("2026-11-23"); err != nil || s.Spent.Tokens != 110 || s.Held.Tokens != 7 || s.Calls != 52 {
		t.Errorf("%+v %v", s, err)
	}
	c.set(noon.Add(40 * 24 * time.Hour))
	if err := l.Tidy(); err != nil {
		t.Fatal(err)
	}
	if s, err := open(t, dir, c.Now).Spending(""); err != nil || len(s.Days) != 0 {
		t.Errorf("%+v %v", s.Days, err)
	}
}

// TestManyAtOnce: workers of their own, at the same time, up to the limit and never
// beyond.
func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	limits := Limits{Day: Limit{Tokens: 1000}}
	var wg sync.WaitGroup
	for n := range 8 {
		l := open(t, dir, at(noon))
		wg.Go(func() {
			for i := 0; ; i++ {
				g, err := l.Account(who(n), limits).Reserve(t.Context(), Want{Output: 10, Least: 1}, nil)
				if err != nil {
					return
				}
				if g.Lost(); i%3 > 0 {
					if err := g.Settle(price.Tokens{Output: g.Output() / 2}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if s, err := open(t, dir, at(noon)).Spending(""); err != nil || s.takenAmount().Tokens != 1000 {
		t.Errorf("%+v %v", s, err)
	}
}

// simulated is one worker of TestAnyInterleaving.
type simulated struct {
	who    Who
	ledger *Ledger
	grants []*Grant
}

// TestAnyInterleaving has workers reserve, settle, give back and die in any order, with
// lines that are cut, days that pass and days that are shortened, and reckons beside
// them.
func TestAnyInterleaving(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { interleave(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func interleave(t *testing.T, r *rand.Rand) {
	c := &clock{now: noon}
	dir := t.TempDir()
	limits := Limits{Run: Limit{Money: 300_000, Tokens: 60}, Step: Limit{Tokens: 40}, Incident: Limit{Money: 500_000}, ClusterDay: Limit{Tokens: 150}, Day: Limit{Money: 1_500_000}}
	workers := make([]*simulated, 8)
	step := func(i int) Who { // two runs a cluster and incident, of two steps each
		w := who(i / 2)
		w.Step = fmt.Sprint(i % 2)
		return w
	}
	start := func(i int) {
		if workers[i] != nil {
			workers[i].ledger.Close() // as the end of a process does
		}
		workers[i] = &simulated{who: step(i), ledger: open(t, dir, c.Now)}
	}
	for i := range workers {
		start(i)
	}
	want := map[string]Amount{} // by scope: what may have been spent
	count := func(w Who, day string, a Amount) {
		for _, key := range []string{"run " + w.Run, "step " + w.Run + w.Step, "incident " + w.Incident, day + " " + w.Cluster, day} {
			want[key] = want[key].plusAmount(a)
		}
	}
	within := func(key string, l Limit) {
		if a := want[key]; l.Money > 0 && a.Money > l.Money || l.Tokens > 0 && a.Tokens > l.Tokens {
			t.Fatalf("%s: %+v is over %+v", key, a, l)
		}
	}
	now, end := context.WithCancel(t.Context())
	end() // a call that has to wait is given up
	for range 300 {
		i := r.IntN(len(workers))
		w := workers[i]
		day := c.Now().Format(dayFormat)
		switch n := r.IntN(20); {
		case n < 9:
			ask := Want{Request: r.Int64N(10), Output: 1 + r.Int64N(10), Price: sonnet}
			g, err := w.ledger.Account(w.who, limits).Reserve(now, ask, nil)
			if err != nil {
				if nightcrier.CodeOf(err) != nightcrier.Exhausted && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				break
			}
			count(w.who, day, ask.mostCost(g.output))
			w.grants = append(w.grants, g)
			within("run "+w.who.Run, limits.Run)
			within("step "+w.who.Run+w.who.Step, limits.Step)
			within("incident "+w.who.Incident, limits.Incident)
			within(day+" "+w.who.Cluster, limits.ClusterDay)
			within(day, limits.Day)
		case n < 15 && len(w.grants) > 0:
			g := w.grants[0]
			w.grants = w.grants[1:]
			was := w.ledger.days[g.day].open[g.call].Amount
			used := price.Tokens{CacheRead: r.Int64N(2)}
			err := g.Release
			if n < 13 {
				err = func() error { return g.Settle(used) }
			} else {
				used = price.Tokens{}
			}
			if err := err(); err != nil {
				t.Fatal(err)
			}
			count(w.who, g.day, Amount{sonnet.Of(used), used.Total()}.minusAmount(was))
		case n == 15:
			start(i)
		case n == 16: // a line that its writer's death cut
			f, err := os.OpenFile(filepath.Join(dir, day+extension), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(f, "0badc0de {\"n\":"[:r.IntN(15)])
			f.Close()
		case n == 17:
			c.set(c.Now().Add(time.Duration(r.IntN(8)) * time.Hour))
		case n == 18:
			if err := w.ledger.Tidy(); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := open(t, dir, c.Now)
	for i := range workers {
		for _, day := range fresh.days {
			got := fresh.scopesOf(step(i), limits, day)
			keys := []string{"run " + step(i).Run, "incident " + step(i).Incident, day.name + " " + step(i).Cluster, day.name, "step " + step(i).Run + step(i).Step}
			for k, key := range keys {
				if got[k].sum.takenAmount() != want[key] {
					t.Errorf("%s: %+v, want %+v", key, got[k].sum, want[key])
				}
			}
		}
	}
}

func FuzzLedger(f *testing.F) {
	good := record{N: 1, At: noon, Op: opReserve, Call: "a", Who: who(0), Amount: Amount{5, 5}}
	first, _ := good.encodeLine()
	second, _ := record{N: 2, At: noon, Op: opSettle, Call: "a", Amount: Amount{1, 1}}.encodeLine()
	f.Add(append(first, second...))
	f.Add(first[:len(first)-1])
	f.Add([]byte("\n\n00000000 {}\n"))
	f.Add([]byte("00000000 \n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "2026-11-23.ledger"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(dir, at(noon))
		if err != nil {
			return
		}
		defer l.Close()
		before, err := l.Spending("")
		if err != nil || before.Spent.Tokens < 0 || before.Held.Tokens < 0 {
			t.Fatalf("%+v %v", before, err)
		}
		if _, err := l.Account(who(1), Limits{}).Reserve(t.Context(), Want{Output: 3}, nil); err != nil {
			t.Fatal(err)
		}
		after, err := open(t, dir, at(noon)).Spending("")
		if err != nil || after.Held.Tokens != addCapped(before.Held.Tokens, 3) {
			t.Fatalf("%+v, then %+v %v", before, after, err)
		}
	})
}

func BenchmarkReserveAndSettle(b *testing.B) {
	for _, disk := range []bool{false, true} {
		b.Run(fmt.Sprintf("disk=%v", disk), func(b *testing.B) { reserveAndSettle(b, disk) })
	}
}

func reserveAndSettle(b *testing.B, disk bool) {
	l := open(b, b.TempDir(), at(noon))
	if disk {
		l.sync = fdatasync
	}
	a := l.Account(who(0), Limits{Run: Limit{Money: 1 << 60}})
	time.Sleep(settling)
	for b.Loop() {
		g, err := a.Reserve(b.Context(), Want{Request: 1000, Output: 1000, Price: sonnet}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Settle(price.Tokens{Input: 1000, Output: 100}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is what a worker pays at its start, on a day of 10,000 calls.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir, at(noon))
	d, err := l.openToday()
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		call := fmt.Sprint(i)
		if err := d.appendRecord(record{At: noon, Op: opReserve, Call: call, Who: who(i % 300), Amount: Amount{1, 1}, Price: &sonnet}); err != nil {
			b.Fatal(err)
		}
		if err := d.appendRecord(record{At: noon, Op: opSettle, Call: call, Amount: Amount{1, 1}, Used: &price.Tokens{Output: 1}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		l, err := Open(dir, at(noon))
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}
