package main

import (
	"strings"
	"testing"
)

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
