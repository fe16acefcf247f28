package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// crashEnv tells a test binary that it is the child of ExerciseCrash: "URL path",
// one of which is empty.
const crashEnv = "NIGHTCRIER_STORETEST_CHILD"

// Child does the work of the process that is killed, if this is one, and never
// returns then. TestMain of a package that uses ExerciseCrash calls it first.
func Child() {
	target, ok := os.LookupEnv(crashEnv)
	if !ok {
		return
	}
	url, path, _ := strings.Cut(target, " ")
	err := writeEndlessly(context.Background(), store.Options{URL: url, Path: path}, os.Stdout)
	fmt.Fprintln(os.Stderr, "storetest child:", err) // it is never meant to end
	os.Exit(1)
}

// writeEndlessly works on a store without end, a line for each thing that the store said
// is done.
func writeEndlessly(ctx context.Context, o store.Options, acks io.Writer) error {
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		d, err := s.Accept(ctx, Event(fmt.Sprintf("c%d", i%7), fmt.Sprintf("w%d", i%50)), store.AcceptPolicy{Pipeline: "p", Executor: "builtin"})
		if err != nil {
			return err
		}
		fmt.Fprintln(acks, "event", d.EventID)
		if i%3 != 0 {
			continue
		}
		if err := completeRun(ctx, s, acks); err != nil {
			return err
		}
	}
}

// completeRun takes one run to its end.
func completeRun(ctx context.Context, s *store.Store, acks io.Writer) error {
	run, err := s.AdmitNext(ctx, store.Limits{Total: 5, PerKey: 1})
	if err != nil || run == nil {
		return errors.Join(err, errors.New("nothing to admit"))
	}
	fmt.Fprintln(acks, "admitted", run.ID)
	_, err = s.BeginRun(ctx, run.ID)
	head, journalErr := s.AppendJournal(ctx, run.ID, newEntry("a"), newEntry("b"))
	if err := errors.Join(err, journalErr); err != nil {
		return err
	}
	fmt.Fprintln(acks, "journal", run.ID+" "+head)
	if err := s.FinishRun(ctx, store.Finish{RunID: run.ID, Status: nightcrier.Resolved, Report: []byte("{}"), Conclusion: oomOf("ledger")}); err != nil {
		return err
	}
	fmt.Fprintln(acks, "finished", run.ID)
	return nil
}

// ExerciseCrash kills a writing process with SIGKILL, over and over on one
// store, and proves after each time that all it was promised is there, and
// nothing half.
func ExerciseCrash(t *testing.T, fresh func(testing.TB) store.Options) {
	o := fresh(t)
	for round := range 5 {
		promised := killAfter(t, o, 40+17*round)
		s := reopenStore(t, o)
		for _, line := range promised {
			if err := checkPromise(t.Context(), s, line); err != nil {
				t.Errorf("round %d: %q was promised: %v", round, line, err)
			}
		}
		if err := Invariants(t.Context(), s); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		finishLeased(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter starts a writer, reads n promises and kills it.
func killAfter(t *testing.T, o store.Options, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crashEnv+"="+o.URL+" "+o.Path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var promised []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		promised = append(promised, lines.Text())
		if len(promised) == n {
			_ = cmd.Process.Kill() // what it wrote until it died is read on
		}
	}
	_ = cmd.Wait() // killed, as it should be
	if len(promised) < n {
		t.Fatalf("the writer ended after %d lines", len(promised))
	}
	return promised
}

// reopenStore opens a store whose owner has just died; PostgreSQL takes a moment to
// notice.
func reopenStore(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s, err := store.Open(t.Context(), o)
		if err == nil {
			return s
		}
		if nightcrier.CodeOf(err) != nightcrier.Conflict || time.Now().After(deadline) {
			t.Fatalf("reopen: %v", err)
		}
	}
}

// checkPromise checks one promise.
func checkPromise(ctx context.Context, s *store.Store, line string) error {
	what, id, _ := strings.Cut(line, " ")
	switch what {
	case "event":
		ev, err := s.Event(ctx, id)
		if err == nil && ev.IncidentID == "" {
			err = errors.New("it has no incident")
		}
		return err
	case "journal":
		run, head, _ := strings.Cut(id, " ")
		_, have, err := s.JournalHead(ctx, run)
		if err == nil && have != head {
			err = fmt.Errorf("the head is %s", have)
		}
		return err
	}
	run, err := s.Run(ctx, id)
	if err == nil && (run.AdmittedAt.IsZero() || what == "finished" && run.Status != nightcrier.Finished) {
		err = fmt.Errorf("the run is %+v", run)
	}
	return err
}

// finishLeased ends what the dead process was at, as a new server would.
func finishLeased(t *testing.T, s *store.Store) {
	t.Helper()
	leased, err := s.LeasedRuns(t.Context())
	if err != nil || len(leased) > 1 {
		t.Fatalf("%d leases, %v; the writer held one at most", len(leased), err)
	}
	for _, run := range leased {
		if err := s.FinishRun(t.Context(), store.Finish{RunID: run.ID, Status: nightcrier.Failed}); err != nil {
			t.Fatal(err)
		}
	}
}
