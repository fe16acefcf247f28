// Command house measures how the source tree is built, so that a change of its
// structure can be judged by figures:
//
//	go run ./tools/house          what is, beside what is wanted
//	go run ./tools/house -names   the one-word names, by how often each is used
//
// Tests, test data and what only tests import (internal/test) are no product code.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func main() {
	names := flag.Bool("names", false, "list the one-word names of functions instead")
	flag.Parse()
	if err := run(os.Stdout, *names); err != nil {
		fmt.Fprintf(os.Stderr, "house: %v\n", err)
		os.Exit(1)
	}
}

func run(w io.Writer, names bool) error {
	h, err := readHouse(os.DirFS("."))
	if err != nil {
		return err
	}
	if names {
		return printNames(w, h)
	}
	return printFigures(w, h)
}

// printFigures prints a line for each figure: what is, what is wanted, and where.
func printFigures(w io.Writer, h house) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "rooms below internal\t%d\tat most 24\n", len(h.rooms()))
	fmt.Fprintf(t, "arrows between rooms\t%d\tat most 100\n", len(h.arrows()))
	p95, most, where := h.filesPerPackage()
	fmt.Fprintf(t, "files in a package, of 95 %%\t%d\tat most 15\n", p95)
	fmt.Fprintf(t, "files in a package, most\t%d\tat most 30\t%s\n", most, where)
	lines, where := h.longestFunction()
	fmt.Fprintf(t, "lines of a function, most\t%d\tat most 80\t%s\n", lines, where)
	fmt.Fprintf(t, "names of one word\t%.1f %%\tat most 15 %%\tof %d functions\n", h.oneWordNames(), len(h.functions))
	fmt.Fprintf(t, "lines of product code\t%d\tfewer\n", h.lines)
	return t.Flush()
}

// printNames lists the one-word names, the most frequent first.
func printNames(w io.Writer, h house) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range h.oneWord() {
		fmt.Fprintf(t, "%d\t%s\n", n.times, n.name)
	}
	return t.Flush()
}
