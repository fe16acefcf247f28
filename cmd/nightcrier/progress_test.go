package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot/triage"
)

func TestProgressFitsTheTerminal(t *testing.T) {
	for _, tt := range []struct {
		width int
		now   triage.Progress
		want  string
	}{
		{40, triage.Progress{}, "4s  connecting"},
		{40, triage.Progress{Reads: 12, Doing: "list pods -n shop"}, "4s  12 reads  list pods -n shop"},
		{60, triage.Progress{Reads: 12, About: "2. Job shop/x", Doing: "get jobs x"}, "4s  12 reads  2. Job shop/x  get jobs x"},
		{20, triage.Progress{Reads: 12, Doing: "list pods -n shop"}, "4s  12 reads  list…"},
		{40, triage.Progress{Doing: "tool \x1b[2Jx"}, "4s  tool x"},
	} {
		l := &progressLine{width: tt.width, now: tt.now}
		if got := l.lineText(4500 * time.Millisecond); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// What else is said stands above the line, and nothing of the line is left behind.
func TestProgressGoesAway(t *testing.T) {
	var out bytes.Buffer
	l := &progressLine{out: &out, width: 40, stop: make(chan struct{})}
	l.showProgress(triage.Progress{Doing: "list pods"})
	l.draw(time.Second)
	fmt.Fprintln(l, "Warning: x")
	l.draw(2 * time.Second)
	l.endLine()
	l.endLine()
	const want = eraseLine + "1s  list pods" + eraseLine + "Warning: x\n" + eraseLine + "2s  list pods" + eraseLine
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	var out bytes.Buffer
	p := &program{stderr: &out, now: time.Now}
	line := p.beginProgress()
	line.showProgress(triage.Progress{Doing: "list pods"})
	line.endLine()
	if p.printMessage("done"); out.String() != "done\n" {
		t.Errorf("%q", out.String())
	}
	if line != nil || strings.Contains(out.String(), "\r") {
		t.Error("progress where nobody sees it")
	}
}
