package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a package that does not build
	Test       string
	Output     string
}

// key is a test, or a whole package where name is empty.
type key struct{ pkg, name string }

// report gathers what the events say.
type report struct {
	w       io.Writer
	output  map[key]*strings.Builder // of what has not ended yet
	skipped []string
	broken  []key // failed, in order
	passed  int
	failed  int
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
		} else {
			r.endTest(k, e.Action)
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
	if !slices.ContainsFunc(r.broken, func(k key) bool { return k.pkg == pkg.pkg }) {
		r.fail(pkg)
	}
}

func (r *report) fail(k key) {
	r.failed++
	r.broken = append(r.broken, k)
}

// reason is what a skipped test said, without the runner's own lines.
func reason(output string) string {
	var why []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			why = append(why, line)
		}
	}
	if len(why) == 0 {
		return "no reason given"
	}
	return strings.Join(why, " ")
}

// summary prints what failed, what was skipped and why, and the counts.
func (r *report) summary() {
	for _, k := range r.broken {
		fmt.Fprintf(r.w, "FAILED %s %s\n", k.pkg, k.name)
	}
	slices.Sort(r.skipped)
	for _, s := range r.skipped {
		fmt.Fprintf(r.w, "SKIPPED %s\n", s)
	}
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skipped))
}
