package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// slowPackages are the events of n packages that pass, each a second slower than
// the one before.
func slowPackages(n int) string {
	var events strings.Builder
	for i := range n {
		fmt.Fprintf(&events, "{\"Action\":\"pass\",\"Package\":\"nightcrier.dev/nightcrier/p%d\",\"Elapsed\":%d}\n", i, i)
	}
	return events.String()
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("    a_test.go:1: again\n", 60)
	cases := map[string]struct {
		output string
		want   []string
	}{
		"nothing":                               {},
		"all where no line looks like a test's": {"bwrap: no\n{\"a\":1}\n", []string{"bwrap: no", "{\"a\":1}"}},
		"a crash to its end": {
			"{\"a\":1}\nnoise\n    a_test.go:1: so far\npanic: boom\n\ngoroutine 1 [running]:\nmain.f()\n",
			[]string{"    a_test.go:1: so far", "panic: boom", "goroutine 1 [running]:", "main.f()"},
		},
		"a race": {
			"noise\n==================\nWARNING: DATA RACE\nRead at 0x0 by goroutine 1:\n    testing.go:1: race detected\n",
			[]string{"WARNING: DATA RACE", "Read at 0x0 by goroutine 1:", "    testing.go:1: race detected"},
		},
		"logs of every kind": {
			"    a_test.go:3: time=2026-01-01 level=INFO\n    a_test.go:3: 2026/01/01 up\n        I0101 10:00:00 up\n    a_test.go:9: 2 of 3\n",
			[]string{"    a_test.go:9: 2 of 3"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := excerpt(c.output); !slices.Equal(got, c.want) {
				t.Errorf("excerpt = %q, want %q", got, c.want)
			}
		})
	}
	got := excerpt("    a_test.go:1: " + strings.Repeat("ä", 1000) + "\n" + long + "    a_test.go:2: last\n")
	if len(got) != 2*excerptEnds+1 || len(got[0]) > excerptWidth+3 || !utf8.ValidString(got[0]) ||
		!strings.Contains(got[excerptEnds], "42 lines") || got[2*excerptEnds] != "    a_test.go:2: last" {
		t.Errorf("excerpt of 62 lines, the first a long one = %q", got)
	}
}

func TestReport(t *testing.T) {
	cases := map[string]struct {
		events string
		want   []string // parts, in order
		not    []string
	}{
		"pass": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`,
			want: []string{"ok  \tp\t0.1s\n", "1 passed, 0 failed, 0 skipped\n"},
			not:  []string{"noise", "PASS"},
		},
		"fail": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"a_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"wrong", "FAIL\tp\t0.1s", "FAILED p TestA", "0 passed, 1 failed, 0 skipped"},
		},
		"skip names the reason": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:9: SKIPPED ALOUD: no server\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			want: []string{"SKIPPED p TestA: a_test.go:9: SKIPPED ALOUD: no server\n", "0 passed, 0 failed, 1 skipped"},
		},
		"the end says why a test failed, without its server's log": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    server.go:7: {\"level\":\"INFO\"}\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"        {\"level\":\"WARN\"}\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong:\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"        as seen here\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (1.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`,
			want: []string{"INFO", "SKIPPED p TestB", "FAILED p TestA\n    a_test.go:1: wrong:\n        as seen here\nslowest: p 0s\n"},
		},
		"the slowest tests, without their subtests": {
			events: `{"Action":"pass","Package":"nightcrier.dev/nightcrier/p","Test":"TestA/slow","Elapsed":7}
{"Action":"pass","Package":"nightcrier.dev/nightcrier/p","Test":"TestA","Elapsed":8}
{"Action":"fail","Package":"nightcrier.dev/nightcrier/p","Test":"TestB","Elapsed":9}
{"Action":"fail","Package":"nightcrier.dev/nightcrier/p"}`,
			want: []string{"slowest tests: p.TestB 9s, p.TestA 8s\n2 passed, 1 failed"},
			not:  []string{"p.TestA/slow 7s"},
		},
		"the ten slowest packages": {
			events: slowPackages(12),
			want:   []string{"slowest: p11 11s, p10 10s, p9 9s,", "p2 2s\n0 passed"},
		},
		"panic leaves a test unfinished": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"panic: boom", "FAILED p TestA", "0 passed, 1 failed, 0 skipped"},
		},
		"does not build": {
			events: `{"ImportPath":"p","Action":"build-output","Output":"a.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			want: []string{"syntax error", "FAIL\tp [build failed]", "FAILED p", "0 passed, 1 failed, 0 skipped"},
		},
		"ends without a word": {
			events: `{"Action":"fail","Package":"p"}`,
			want:   []string{"FAIL\tp\n", "FAILED p", "0 passed, 1 failed, 0 skipped"},
		},
		"not an event": {events: "no Go files in here", want: []string{"no Go files in here", "0 passed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			r.summary()
			rest := out.String()
			for _, want := range c.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%q lacks %q, in order", out.String(), want)
				}
				rest = after
			}
			for _, not := range c.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q tells %q", out.String(), not)
				}
			}
		})
	}
}
