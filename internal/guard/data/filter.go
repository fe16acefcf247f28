package data

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lineFilter is one of |=, !=, |~ and !~ with its texts, of which a line has to hold one,
// or none. It looks at lines that are masked, so that it finds no secret.
type lineFilter struct {
	sign     string
	negative bool
	texts    []string
	patterns []*regexp.Regexp // of the texts, nil where they are no patterns
}

// filterSigns begin a filter of lines.
var filterSigns = []string{"|=", "!=", "|~", "!~"}

// readFilter reads one filter of lines, nil when something else stands there.
func (r *logsReader) readFilter() (*lineFilter, error) {
	for _, sign := range filterSigns {
		text, ok := r.peekToken(2).stringValue()
		if !r.isNext(sign) || !ok {
			continue
		}
		f := &lineFilter{sign: sign, negative: sign[0] == '!', texts: []string{text}}
		for r.at += 3; strings.EqualFold(r.peekToken(0).text, "or"); r.at += 2 {
			more, ok := r.peekToken(1).stringValue()
			if !ok {
				break
			}
			f.texts = append(f.texts, more)
		}
		return f, f.compile()
	}
	if r.isNext("|>") || r.isNext("!>") || r.isNext("|=") || r.isNext("|~") {
		return nil, newUnreadError(`lines are looked through by |= "text", != "text", |~ "pattern" and !~ "pattern"`)
	}
	return nil, nil
}

// compile reads the texts of a filter by patterns. They are what Loki takes, without
// backtracking.
func (f *lineFilter) compile() error {
	if f.sign[1] != '~' {
		return nil
	}
	for _, text := range f.texts {
		p, err := regexp.Compile(text)
		if err != nil {
			return newUnreadError("the pattern " + strconv.Quote(text) + ": " + err.Error())
		}
		f.patterns = append(f.patterns, p)
	}
	return nil
}

// keepsLine reports whether a line passes.
func (f *lineFilter) keepsLine(line string) bool {
	holds := slices.ContainsFunc(f.texts, func(text string) bool { return strings.Contains(line, text) })
	if f.patterns != nil {
		holds = slices.ContainsFunc(f.patterns, func(p *regexp.Regexp) bool { return p.MatchString(line) })
	}
	return holds != f.negative
}

// commonWords are what engineers look for when something is broken, and no secret: Loki
// may look for them in lines before these are masked.
var commonWords = []string{
	"abort", "aborted", "alert", "cannot", "connection refused", "connection reset", "crash", "critical", "deadline", "deadline exceeded", "debug", "denied", "err", "error", "errors",
	"evicted", "exceeded", "exception", "exit", "exited", "fail", "failed", "failure", "fatal", "forbidden", "info", "killed", "level=error", "level=warn", "no such host", "not found", "oom",
	"oomkilled", "out of memory", "panic", "permission denied", "refused", "reset", "restart", "restarted", "retry", "segfault", "shutdown", "signal", "sigkill", "sigterm", "stacktrace",
	"terminated", "throttled", "timed out", "timeout", "too many", "traceback", "unable", "unauthorized", "unavailable", "unhealthy", "unreachable", "warn", "warning", "x509",
}

// hasOnlyCommonWords reports whether a filter looks for such words alone, in any case, also as one of
// several: (?i)(error|panic).
func (f *lineFilter) hasOnlyCommonWords() bool {
	for _, text := range f.texts {
		if f.patterns != nil {
			text = strings.TrimPrefix(text, "(?i)")
			if inner, ok := strings.CutPrefix(text, "("); ok && strings.HasSuffix(inner, ")") {
				text = strings.TrimPrefix(strings.TrimSuffix(inner, ")"), "?:")
			}
		}
		words := []string{text}
		if f.patterns != nil {
			words = strings.Split(text, "|")
		}
		if slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(commonWords, strings.ToLower(strings.TrimSpace(w))) }) {
			return false
		}
	}
	return true
}
