// Command fuzz runs every fuzz test of the module for a slice of the given time, one
// after the other, and says what each found.
//
//	go run ./tools/fuzz -time 60m           an hour, divided evenly
//	go run ./tools/fuzz -time 5m -run Parse the matching ones only
//	go run ./tools/fuzz -time 60m -keep 12  and keep up to 12 inputs of each
//
// An input that breaks something is written to the package's testdata/fuzz by go test
// itself, and stays there as a test. With -keep, inputs that reach more code are kept
// beside it, so that plain `go test` starts from them on every machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"text/tabwriter"
	"time"
)

func main() {
	total := flag.Duration("time", 10*time.Minute, "how long all of them take together")
	workers := flag.Int("parallel", 1, "processes of each")
	keep := flag.Int("keep", 0, "inputs to keep of each fuzz test")
	match := flag.String("run", "", "regular expression of what to run, such as mask.FuzzString")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *total, *workers, *keep, *match); err != nil {
		fmt.Fprintf(os.Stderr, "fuzz: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, total time.Duration, workers, keep int, match string) error {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	targets, err := find(".", wanted)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz test matches %q", match)
	}
	slice := total / time.Duration(len(targets))
	fmt.Printf("%d fuzz tests, %s each\n", len(targets), slice.Round(time.Second))
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	broken := 0
	for i, t := range targets {
		fmt.Fprintf(os.Stderr, "%3d/%d %s\n", i+1, len(targets), t)
		r, err := t.fuzz(ctx, slice, workers)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %d", i, len(targets))
		}
		kept := 0
		if err == nil && keep > 0 {
			if kept, err = t.keep(keep); err != nil {
				return err
			}
		}
		outcome := "ok"
		if err != nil {
			broken++
			outcome = "BROKEN"
			fmt.Fprintf(os.Stderr, "%s\n", r.output)
		}
		fmt.Fprintf(table, "%s\t%s\t%d executions\t%d interesting\t%d kept\t%s\n", t.dir, t.name, r.executions, r.interesting, kept, outcome)
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d fuzz tests found something: see the new files in testdata/fuzz", broken, len(targets))
	}
	return nil
}
