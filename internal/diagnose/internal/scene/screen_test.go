package scene

import (
	"regexp"
	"testing"
)

// A screen lets everything through that its expression matches, and keeps out most of the rest.
func TestScreen(t *testing.T) {
	cases := []struct {
		pattern string
		pass    []string // a match of the expression, whatever else it may be
		stop    []string
	}{
		{`(?i)\b(error|refused)\b`, []string{"an ERROR", "was Refused", "refu\u017fed"}, []string{"all is well", ""}},
		{`level=(?:warn|error)|"severity": "error"`, []string{"level=warn", `{"severity": "error"}`}, []string{"severe"}},
		{`(?i)\bERROR\b|^(?:\S+ )?[EF]\d{4} `, []string{"E0301 12:00 no", "pod/x F0301 no", "some Error"}, []string{"I0301 all is well", "he said E0301 later"}},
		{`^\s*at `, []string{"  at x"}, []string{"nothing"}},
		{`(?:^|[^\w.-])([a-z]+):(\d{2,5})`, []string{"http://db:5432"}, []string{"db 5432"}},
		{`\d+`, []string{"7"}, nil},
		{`(?:out of memory){1,2}`, []string{"out of memory"}, []string{"memory"}},
		{`(?:oom)?killed`, []string{"killed"}, []string{"oom"}},
		{`(?i)\btimed? ?out\b`, []string{"Timed out", "timeout"}, []string{`{"time": "12:00"}`, "out"}},
		{`(?i)\blevel["']?[=:]\s?["']?(?:error|fatal)\b`, []string{`"level":"error"`}, []string{`"level":"info"`}},
		{`[Ff]ailed to (?:pull|mount)`, []string{"Failed to pull"}, []string{"failed to start"}},
		{`x*`, []string{"", "y"}, nil},
		{`(?i)kelvin`, []string{"\u212aelvin"}, []string{"celsius"}},
	}
	for _, c := range cases {
		t.Run(c.pattern, func(t *testing.T) {
			p := NewPattern(c.pattern)
			for _, s := range c.pass {
				if !regexp.MustCompile(c.pattern).MatchString(s) {
					t.Errorf("%q is no match: the case is wrong", s)
				}
				if !p.MatchString(s) || !p.MayMatch(NewLine(s)) {
					t.Errorf("%q is kept out", s)
				}
			}
			for _, s := range c.stop {
				if p.MayMatch(NewLine(s)) || p.mayMatch(s) {
					t.Errorf("%q is let through", s)
				}
			}
		})
	}
}
