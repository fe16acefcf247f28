package budget

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// The test binary is also a worker that spends until nothing is left, and kills itself
// on the way.
func TestMain(m *testing.M) {
	if dir := os.Getenv("NIGHTCRIER_TEST_SPENDER"); dir != "" {
		if err := spend(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	if dir := os.Getenv("NIGHTCRIER_TEST_HOLDER"); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// twoCents is what five workers share in TestKilledWorkers.
var twoCents = Limits{Run: Limit{Money: price.Dollar / 100}, Day: Limit{Money: price.Dollar / 50}}

// spend makes calls of a model until a limit is reached: it reserves, has the call
// billed, and settles. The bill is a file, as the model's API would keep it.
func spend(dir string) error {
	l, err := Open(filepath.Join(dir, "ledger"), time.Now)
	if err != nil {
		return err
	}
	bill, err := os.OpenFile(filepath.Join(dir, "bill"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(os.Getenv("NIGHTCRIER_TEST_RUN"))
	left, _ := strconv.Atoi(os.Getenv("NIGHTCRIER_TEST_DIES"))
	die := &mortal{left}
	l.sync = func(f *os.File) error { die.at(); return fdatasync(f) }
	account := l.Account(who(n), twoCents)
	for {
		die.at()
		g, err := account.Reserve(context.Background(), Want{Request: 50, Output: 50, Least: 5, Price: sonnet}, nil)
		if nightcrier.CodeOf(err) == nightcrier.Exhausted {
			return nil
		}
		if err != nil {
			return err
		}
		die.at()
		used := price.Tokens{Input: rand.Int64N(50), Output: 1 + rand.Int64N(g.Output())}
		if _, err := fmt.Fprintf(bill, "billed %s %d\n", g.call, sonnet.Of(used)); err != nil {
			return err
		}
		die.at()
		if err := g.Settle(used); err != nil {
			return err
		}
		die.at()
	}
}

// mortal dies at one of the places between two steps; left is after how many of them,
// 0 never.
type mortal struct{ left int }

func (d *mortal) at() {
	if d.left--; d.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// TestKilledWorkers has five workers of five runs spend two cents at once. Each is
// killed again and again, at a place of its own or at any, and started again.
func TestKilledWorkers(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error)
	const runs = 5
	for n := range runs {
		go func() { done <- spendAndDie(t, dir, n) }()
	}
	for range runs {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	l := open(t, filepath.Join(dir, "ledger"), time.Now)
	var ledger Sum
	settled := map[string]price.Money{}
	for _, d := range l.days { // the test may run over midnight
		ledger = ledger.plusSum(d.all)
		for call, amount := range settledIn(t, d.path) {
			settled[call] = amount
		}
	}
	var billed, known price.Money
	for call, amount := range billIn(t, filepath.Join(dir, "bill")) {
		billed += amount
		if was, ok := settled[call]; ok {
			if known += amount; was != amount {
				t.Errorf("call %s: settled as %s, billed %s", call, was, amount)
			}
		}
	}
	if billed > twoCents.Day.Money*price.Money(len(l.days)) {
		t.Errorf("billed %s of %s", billed, twoCents.Day.Money)
	}
	if ledger.Spent.Money != known || billed > ledger.takenAmount().Money {
		t.Errorf("the ledger has %s spent and %s held; billed are %s, of which %s were settled", ledger.Spent.Money, ledger.Held.Money, billed, known)
	}
	if len(settled) < 10 || ledger.Held.Money == 0 {
		t.Errorf("this tests nothing: %d calls settled, %s held", len(settled), ledger.Held.Money)
	}
	t.Logf("%s billed, %s spent and %s held of %s", billed, ledger.Spent.Money, ledger.Held.Money, twoCents.Day.Money)
}

// spendAndDie starts a run's worker until it ends by itself.
func spendAndDie(t *testing.T, dir string, n int) error {
	for life := 1; ; life++ {
		cmd := exec.Command(os.Args[0])
		left := 2 + (life*3+n)%11 // each place in turn
		if life > 6 {
			left = 0
		}
		cmd.Env = append(os.Environ(), "NIGHTCRIER_TEST_SPENDER="+dir, fmt.Sprint("NIGHTCRIER_TEST_RUN=", n), fmt.Sprint("NIGHTCRIER_TEST_DIES=", left))
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			return fmt.Errorf("worker %d: %w: %s", n, err, out)
		}
	}
}

// billIn reads what each call cost.
func billIn(t *testing.T, path string) map[string]price.Money {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bill := map[string]price.Money{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var call string
		var amount int64
		if _, err := fmt.Sscanf(lines.Text(), "billed %s %d", &call, &amount); err != nil {
			t.Fatal(err)
		}
		bill[call] = price.Money(amount)
	}
	return bill
}

// settledIn reads which calls a day's file has as settled, and for how much.
func settledIn(t *testing.T, path string) map[string]price.Money {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settled := map[string]price.Money{}
	for line := range strings.Lines(string(raw)) {
		if r, ok := parseRecord([]byte(strings.TrimSuffix(line, "\n"))); ok && r.Op == opSettle {
			settled[r.Call] = r.Money
		}
	}
	return settled
}
