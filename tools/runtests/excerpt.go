package main

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	excerptEnds  = 10  // lines kept of an excerpt's start, and of its end
	excerptWidth = 200 // bytes kept of a line
)

var (
	// said is a line of t.Log and its kin; further lines of it are indented deeper.
	said = regexp.MustCompile(`^ +[\w.-]+\.go:\d+: `)
	// logged is a line of a server's log, alone or handed on by t.Log.
	logged = regexp.MustCompile(`^( *[\w.-]+\.go:\d+:)?\s*(\{"|time=|\[?\d{4}[-/]\d\d[-/]\d\d[T ]|[IWEF]\d{4} )`)
	// crash begins what the runtime says, which goes on to the end.
	crash = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE)`)
)

// excerpt is what a failed test says of itself: its own lines and those of a crash,
// without servers' logs, the start and the end of them.
func excerpt(output string) []string {
	lines := ownLines(output)
	if cut := len(lines) - 2*excerptEnds; cut > 0 {
		left := fmt.Sprintf("    ... %d lines left out ...", cut)
		lines = append(append(lines[:excerptEnds:excerptEnds], left), lines[excerptEnds+cut:]...)
	}
	for i, line := range lines {
		if len(line) > excerptWidth {
			lines[i] = strings.ToValidUTF8(line[:excerptWidth], "") + "..."
		}
	}
	return lines
}

// ownLines returns the lines that tell why, or all where none looks like it.
func ownLines(output string) []string {
	var own, all []string
	var saying, crashed bool
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, " \n")
		if line == "" || runnersLine(line) {
			saying = false
			continue
		}
		all = append(all, line)
		crashed = crashed || crash.MatchString(line)
		saying = said.MatchString(line) || saying && strings.HasPrefix(line, "        ")
		if (saying || crashed) && !logged.MatchString(line) {
			own = append(own, line)
		}
	}
	if len(own) == 0 {
		return all
	}
	return own
}

// runnersLine reports whether go test printed the line, not a test.
func runnersLine(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
}
