package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a package that does not build
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// key is a test, or a whole package where name is empty.
type key struct{ pkg, name string }

// failure is a test that failed and what it said of that.
type failure struct {
	key
	why []string
}

// took is how long a package's tests ran, or one of them.
type took struct {
	key
	seconds float64
}

// slowestShown packages, and as many tests, are named at the end.
const slowestShown = 10

// report gathers what the events say.
type report struct {
	w       io.Writer
	output  map[key]*strings.Builder // of what has not ended yet
	skipped []string
	broken  []failure // in order
	pkgs    []took
	tests   []took // without subtests, whose time is in their test's
	passed  int
	// processor is the time that all took of it, but for what outlived who started it.
	processor time.Duration
}

func newReport(w io.Writer) *report {
	return &report{w: w, output: map[key]*strings.Builder{}}
}

// read takes in events until the stream ends. Lines that are none, which go
// prints for some errors, go straight out.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("output of go test: %w", err)
		}
	}
}

func (r *report) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		r.w.Write(line)
		return
	}
	r.take(e)
}

func (r *report) take(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "output":
		r.keep(k, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(k, e.Action)
			r.pkgs = append(r.pkgs, took{k, e.Elapsed})
		} else {
			r.endTest(k, e.Action)
		}
		if e.Test != "" && !strings.Contains(e.Test, "/") {
			r.tests = append(r.tests, took{k, e.Elapsed})
		}
		delete(r.output, k)
	}
}

func (r *report) keep(k key, text string) {
	if r.output[k] == nil {
		r.output[k] = &strings.Builder{}
	}
	r.output[k].WriteString(text)
}

func (r *report) said(k key) string {
	if b := r.output[k]; b != nil {
		return b.String()
	}
	return ""
}

func (r *report) endTest(k key, action string) {
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.fail(k)
		fmt.Fprint(r.w, r.said(k))
	case "skip":
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", k.pkg, k.name, reason(r.said(k))))
	}
}

// endPackage prints go test's own line about the package, and everything it
// said outside its tests when it failed.
func (r *report) endPackage(k key, action string) {
	text := r.said(k)
	if action == "fail" {
		r.unfinished(k)
		fmt.Fprint(r.w, text)
		if !strings.Contains(text, "FAIL") {
			fmt.Fprintf(r.w, "FAIL\t%s\n", k.pkg)
		}
		return
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "?  ") {
			fmt.Fprint(r.w, line)
		}
	}
}

// unfinished counts what a failed package has beside failed tests: those that
// never ended (a panic, a timeout), or, if no test is to blame, itself (it does
// not build, or its TestMain failed).
func (r *report) unfinished(pkg key) {
	for k := range r.output {
		if k.pkg == pkg.pkg && k.name != "" {
			r.fail(k)
			fmt.Fprint(r.w, r.said(k))
			delete(r.output, k)
		}
	}
	if !slices.ContainsFunc(r.broken, func(f failure) bool { return f.pkg == pkg.pkg }) {
		r.fail(pkg)
	}
}

func (r *report) fail(k key) {
	r.broken = append(r.broken, failure{k, excerpt(r.said(k))})
}

// reason is what a skipped test said, without the runner's own lines.
func reason(output string) string {
	var why []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !runnersLine(line) {
			why = append(why, line)
		}
	}
	if len(why) == 0 {
		return "no reason given"
	}
	return strings.Join(why, " ")
}

// summary prints what was skipped and why, what failed and why, which packages and tests
// took longest, and the counts: whoever has the last lines alone knows what to mend.
func (r *report) summary() {
	slices.Sort(r.skipped)
	for _, s := range r.skipped {
		fmt.Fprintf(r.w, "SKIPPED %s\n", s)
	}
	for _, f := range r.broken {
		fmt.Fprintf(r.w, "FAILED %s %s\n", f.pkg, f.name)
		for _, line := range f.why {
			fmt.Fprintln(r.w, line)
		}
	}
	r.printSlowest("slowest", r.pkgs)
	r.printSlowest("slowest tests", r.tests)
	if r.processor > 0 {
		fmt.Fprintf(r.w, "processor: %.0fs\n", r.processor.Seconds())
	}
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped\n", r.passed, len(r.broken), len(r.skipped))
}

// printSlowest names those of all that took longest, with their seconds. A test that waits
// for tests beside it counts that too.
func (r *report) printSlowest(title string, all []took) {
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	var names []string
	for _, t := range all[:min(len(all), slowestShown)] {
		name := strings.TrimPrefix(t.pkg, "nightcrier.dev/nightcrier/")
		if t.name != "" {
			name += "." + t.name
		}
		names = append(names, fmt.Sprintf("%s %.0fs", name, t.seconds))
	}
	fmt.Fprintf(r.w, "%s: %s\n", title, strings.Join(names, ", "))
}
